#!/usr/bin/env python3
"""A lock in the layout of Redisson's RLock by --redisson."""
import json

import lab
from lab import PATIENT, case, check, equal, matches, on, redlock

JAVA = "b98df5fa-0c1e-4f1c-9d52-6a0c3f3f6a11:37"  # as RLock names its owner


def hashes(quorum):
    """Results of HGETALL, on each node."""
    return [server.call("HGETALL", "k") for server in quorum.servers]


@case("acquire, status, extend and release by the token alone")
def _(quorum):
    token = redlock("acquire", "-n", *PATIENT, "--redisson", "k",
                    env=on(quorum)).expect(0, err="^$").out.strip()
    check(token.startswith("r:"), token)
    equal(hashes(quorum), 3 * [[token, "1"]], "hashes")
    label = token.partition("@")[2]
    matches(redlock("status", *PATIENT, "k", env=on(quorum)).expect(0).out,
            f"held by {label} on 3 of 3 nodes", "status")
    redlock("acquire", "-n", *PATIENT, "k", env=on(quorum)).expect(75, err=f"held by {label}")
    redlock("extend", *PATIENT, "-t", "60s", "k", env=on(quorum), text=token).expect(0)
    redlock("release", *PATIENT, "k", env=on(quorum), text=token).expect(0)
    equal(quorum.keys(), 0, "keys that are left")


@case("run says its kind, and waits for a Java service that releases")
def _(quorum):
    done = redlock("run", "-n", *PATIENT, "--json", "--redisson", "k", "--", "true",
                   env=on(quorum)).expect(0)
    equal(json.loads(done.err)["kind"], "redisson", "kind")
    for server in quorum.servers:
        server.call("HINCRBY", "k", JAVA, 3)
        server.call("PEXPIRE", "k", 600000)
    matches(redlock("status", *PATIENT, "k", env=on(quorum)).expect(0).out,
            f"held by {JAVA} on 3 of 3 nodes.*, entered 3 times", "status")
    refused = redlock("run", "-n", *PATIENT, "--redisson", "k", "--", "true", env=on(quorum))
    refused.expect(75, err=f"held by {JAVA}")
    process = lab.start("run", "-w", "600s", *PATIENT, "--redisson", "k", "--", "true",
                        env=on(quorum))
    for server in quorum.servers:  # the release, after a first attempt or before
        server.call("HDEL", "k", JAVA)
    equal(lab.finish(process).code, 0, "exit code")
    equal(quorum.keys(), 0, "keys that are left")


@case("--redisson with --fence or --and is refused before anything is acquired")
def _(quorum):
    for words in (("--fence",), ("--and", "other")):
        redlock("run", *PATIENT, "--redisson", *words, "k", "--", "true",
                env=on(quorum)).expect(64, err="redisson")
    redlock("check", "--redisson", env=on(quorum)).expect(64, err="--acl")
    equal(quorum.keys(), 0, "keys")


@case("a user with the rights of check --acl --redisson has such a lock; without, not")
def _(quorum):
    def grant(*words):
        rule = redlock("check", "--acl", *words, "--user", "me", env=on(quorum)).expect(0).out.split()
        for server in quorum.servers:
            equal(server.call(*rule), "OK", "the rule")
    me = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "SECRET"}
    grant("--redisson")
    redlock("run", "-n", *PATIENT, "--redisson", "k", "--", "true", env=on(quorum, **me)).expect(0)
    grant()
    redlock("run", "-n", *PATIENT, "--redisson", "k", "--", "true", env=on(quorum, **me)).expect(77)
    redlock("run", "-n", *PATIENT, "k", "--", "true", env=on(quorum, **me)).expect(0)
    equal(quorum.keys(), 0, "keys that are left")


lab.main(servers=3)

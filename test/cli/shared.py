#!/usr/bin/env python3
"""Shared locks by --shared: many readers, or one writer."""
import json

import lab
from lab import PATIENT, case, check, equal, matches, on, redlock


def acquire(quorum, *words):
    return redlock("acquire", "-n", *PATIENT, *words, "k", env=on(quorum)).expect(0, err="^$").out.strip()


def release(quorum, token):
    redlock("release", *PATIENT, "k", env=on(quorum), text=token).expect(0)


@case("readers share a lock and keep a writer out; status counts them; extend and release by token")
def _(quorum):
    tokens = [acquire(quorum, "--shared") for _ in range(3)]
    check(all(token.startswith("s") for token in tokens), tokens)
    equal([server.call("ZCARD", "k") for server in quorum.servers], [3, 3, 3], "readers")
    status = redlock("status", *PATIENT, "k", env=on(quorum)).expect(0).out
    labels = [token.partition("@")[2] for token in tokens]
    matches(status, "k: read by 3 on 3 of 3 nodes, for another [0-9.]+ s: "
            + ", ".join(3 * ["[^,]+"]) + "$", "status")
    found = json.loads(redlock("status", *PATIENT, "--json", "k", env=on(quorum)).expect(0).out)
    equal((found["state"], found["readers"]), ("held", 3), "as JSON")
    equal(sorted(found["reading"]), sorted(labels), "who reads")
    redlock("acquire", "-n", *PATIENT, "k", env=on(quorum)).expect(75, err="held by")
    redlock("extend", *PATIENT, "-t", "60s", "k", env=on(quorum), text=tokens[0]).expect(0)
    for token in tokens:
        release(quorum, token)
    equal(quorum.keys(), 0, "keys that are left")


@case("a writer keeps readers out, and one that waits comes before new readers")
def _(quorum):
    writer = acquire(quorum)
    redlock("acquire", "-n", *PATIENT, "--shared", "k", env=on(quorum)).expect(75, err="held by")
    release(quorum, writer)
    reader = acquire(quorum, "--shared")
    process = lab.start("run", "-w", "600s", *PATIENT, "k", "--", "true", env=on(quorum))
    lab.wait_for(lambda: all(server.call("EXISTS", "k!intent") for server in quorum.servers),
                 "its intent")
    redlock("acquire", "-n", *PATIENT, "--shared", "k", env=on(quorum)).expect(75, err="a waiting writer")
    release(quorum, reader)
    equal(lab.finish(process).code, 0, "exit code")
    equal(quorum.keys(), 0, "keys that are left")


@case("run and the token file say the kind; --shared with --redisson or --and is refused")
def _(quorum):
    done = redlock("run", "-n", *PATIENT, "--json", "--shared", "k", "--", "true",
                   env=on(quorum)).expect(0)
    equal(json.loads(done.err)["kind"], "shared", "kind")
    path = lab.temporary("token")
    acquire(quorum, "--shared", "--token-file", path)
    equal(json.loads(lab.read(path))["kind"], "shared", "kind")
    redlock("release", *PATIENT, "--token-file", path, "k", env=on(quorum)).expect(0)
    for words in (("--redisson",), ("--and", "other")):
        redlock("run", *PATIENT, "--shared", *words, "k", "--", "true",
                env=on(quorum)).expect(64, err="shared")
    equal(quorum.keys(), 0, "keys")


@case("a user with the rights of check --acl reads")
def _(quorum):
    rule = redlock("check", "--acl", "--user", "me", env=on(quorum)).expect(0).out.split()
    for server in quorum.servers:
        equal(server.call(*rule), "OK", "the rule")
    me = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "SECRET"}
    redlock("run", "-n", *PATIENT, "--shared", "k", "--", "true", env=on(quorum, **me)).expect(0)
    redlock("run", "-n", *PATIENT, "k", "--", "true", env=on(quorum, **me)).expect(0)
    equal(quorum.keys(), 0, "keys that are left")


@case("break tells of a reader, and deletes all of them")
def _(quorum):
    acquire(quorum, "--shared")
    acquire(quorum, "--shared")
    redlock("break", *PATIENT, "--yes", "k", env=on(quorum)).expect(0)
    equal(quorum.keys(), 0, "keys")


lab.main(servers=3)

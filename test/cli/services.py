#!/usr/bin/env python3
"""Nodes that are not a redis-server of one's own: what a service leaves out (docs/services.md)."""
import contextlib
import os
import re
import time

import lab
from fencing import fence, marker
from lab import PATIENT, case, check, equal, matches, on, redlock
from relay import Relay

REFUSED = r"NOPERM .* has no permissions to run the 'eval' command"


def deny(server, *rules):
    server.call("ACL", "SETUSER", "me", "reset", "on", ">pw", "~*", "&*", "+@all", *rules)


@case("a node that refuses EVAL has no vote: no lock is granted that it could not release")
def _():
    with lab.Quorum(3) as quorum:
        env = on(quorum, REDLOCK_USERNAME="me", REDLOCK_PASSWORD="pw")
        for server in quorum.servers:
            deny(server)
        deny(quorum[0], "-eval")
        outcome = redlock("run", "-v", "-n", "k", "true", env=env).expect(0)
        lab.matches(outcome.err, rf"{quorum.uris[0]}.*{REFUSED}", "the node is refused")
        equal(quorum.keys(), 0, "keys that stay")
        deny(quorum[1], "-eval")
        redlock("run", "-n", "k", "true", env=env).expect(77, err=REFUSED)
        equal(quorum.keys(), 0, "keys that stay")


@case("the same where the server does not know EVAL")
def _():
    with lab.Quorum(1, ("--rename-command", "EVAL", "")) as quorum:
        outcome = redlock("run", "-n", "k", "true", env=on(quorum))
        outcome.expect(77, err=r"runs no scripts \(EVAL\).*: ERR unknown command")
        check("return 1" not in outcome.err, f"arguments in {outcome}")
        equal(quorum.keys(), 0, "keys that stay")


# --- INFO without some fields ---

def without(*fields):
    """What a relay changes: fields get a name that nobody reads."""
    names = b"|".join(field.encode() for field in fields)
    return rb"\n(?:%s):" % names, lambda was: b"\n" + b"x" * (len(was[0]) - 2) + b":"


@contextlib.contextmanager
def behind(servers, *fields):
    """The environment of nodes whose INFO lacks these fields."""
    relays = [Relay(server, *without(*fields), name=f"relay{i}") for i, server in enumerate(servers)]
    try:
        yield {"REDLOCK_NODES": ",".join(relay.uri for relay in relays)}
    finally:
        for relay in relays:
            relay.close()
            os.unlink(relay.path)


def codes(quorum, env, *words):
    found = redlock("check", "--json", *words, env=on(quorum, **env)).json()
    return [[one["code"] for one in node["findings"]] for node in found["nodes"]], str(found)


@case("without a role, or without run_id and master_replid: refused, and the text says why")
def _():
    with lab.durable(1) as quorum:
        for fields, text in ((("role",), "INFO has no role: the server may be a replica"),
                             (("run_id", "master_replid"),
                              "INFO has no run_id: fenced locks need it, plain locks at least master_replid")):
            with behind(quorum.servers, *fields) as env:
                env = on(quorum, **env)
                redlock("run", "-n", "k", "true", env=env).expect(69, err=f": {text}\n")
                matches(redlock("status", "k", env=env).out, text, "status")
                found, all_of_it = codes(quorum, env)
                equal(found, [["fails"]], "findings")
                check(text in all_of_it, all_of_it)


@case("without run_id: plain locks, and a finding that says what is lost; no vote on fenced ones")
def _():
    with lab.durable() as quorum:
        redlock("admit", "--new", "--at-once", env=on(quorum)).expect(0)
        with behind(quorum.servers, "run_id") as env:
            redlock("run", "-n", "k", "true", env=on(quorum, **env)).expect(0, err="^$")
            equal(codes(quorum, env)[0], [["no_run_id"]] * 3, "findings")
            redlock("check", env=on(quorum, **env)).expect(1, out=None)
            redlock("check", "--fence", env=on(quorum, **env)).expect(2)
            redlock("run", "-n", "--fence", "k", "true", env=on(quorum, **env)).expect(
                69, err="INFO has no run_id: fenced locks need it")
            redlock("admit", "--readmit", "-w", "100ms", env=on(quorum, **env)).expect(
                69, err="INFO has no run_id: fenced locks need it")


@case("without run_id: another master_replid is a restart, also if the server saved the old one")
def _():
    with lab.Quorum(3) as quorum:
        for server in quorum.servers:
            server.words += ["--dbfilename", f"{server.path[-6]}.rdb"]
        quorum.kill(0, 1, 2)
        quorum.start()
        with behind(quorum.servers, "run_id") as env:
            for server in quorum.servers:
                server.call("SET", "k", "foreign", "PX", 600000)
            process = lab.start("run", "--max-ttl", "20s", "-t", "20s", "-w", "15s", "k", "true",
                                env=on(quorum, **env))
            lab.wait_for(lambda: min(map(sets, quorum.servers)) >= 2, "an attempt on each node")
            old = [replid(server) for server in quorum.servers]
            for server in quorum.servers:
                server.call("SAVE")
                server.kill()
            quorum.start()
            for server in quorum.servers:
                check(replid(server) not in old, "a server has its old master_replid")
                server.call("DEL", "k")
            lab.finish(process).expect(69, err="3 of 3 .*quarantined, for another [0-9.]+ s")


def sets(server):
    return int(re.search(r"cmdstat_set:calls=(\d+)", server.call("INFO", "commandstats"))[1])


def replid(server):
    return re.search(r"master_replid:(\w+)", server.call("INFO", "replication"))[1]


@case("without run_id: one server that is configured twice is found")
def _():
    with lab.durable(2) as quorum:
        with behind([quorum[0], quorum[0], quorum[1]], "run_id") as env:
            found = codes(quorum, env)[0]
            equal(sorted(found), [["no_run_id"]] * 2 + [["same_server"]], "findings")


@case("without run_id: a master is not taken for its replica, which has its master_replid")
def _():
    with lab.durable(2) as quorum:
        port = quorum[0].listen()
        quorum[1].call("REPLICAOF", "127.0.0.1", port)
        lab.wait_for(lambda: "master_link_status:up" in quorum[1].call("INFO", "replication"), "a replica")
        equal(replid(quorum[0]), replid(quorum[1]), "master_replid")
        with behind([quorum[1], quorum[0]], "run_id") as env:
            equal(codes(quorum, env)[0], [["replica"], ["has_replicas", "no_run_id"]], "findings")


# --- one endpoint: a primary and its replica behind one address (N = 1) ---

class Endpoint:
    """What a managed service with one address does: it fails over to an asynchronous replica."""

    def __init__(self, quorum):
        self.primary, self.replica = quorum.servers
        self.replica.call("REPLICAOF", "127.0.0.1", self.primary.listen())
        lab.wait_for(lambda: "master_link_status:up" in self.replica.call("INFO", "replication"), "a replica")
        self.relay = Relay(self.primary, rb"(?!)", b"")
        self.env = on(quorum, REDLOCK_NODES=self.relay.uri)

    def lag(self):
        """What the primary stores from now on has not reached the replica when it fails."""
        self.replica.call("REPLICAOF", "127.0.0.1", 1)

    def fail_over(self):
        self.primary.kill()
        self.replica.call("REPLICAOF", "NO", "ONE")
        self.relay.server = self.replica
        return time.monotonic()


@case("one endpoint, plain: a failover gives the lock a second holder")
def _():
    with lab.Quorum(2) as quorum:
        endpoint = Endpoint(quorum)
        endpoint.lag()
        first = redlock("acquire", *PATIENT, "-n", "-t", "1m", "k", env=endpoint.env).expect(0).out.strip()
        redlock("acquire", *PATIENT, "-n", "k", env=endpoint.env).expect(75)
        since = endpoint.fail_over()
        second = redlock("acquire", *PATIENT, "-w", "20s", "k", env=endpoint.env).expect(0).out.strip()
        check(first != second, "two tokens")
        print(f"# the second holder came {time.monotonic() - since:.1f} s after the failover")


@case("one endpoint, fenced: a failover excludes, the fence rises, and with sole the node comes back")
def _():
    with lab.Quorum(2) as quorum:
        endpoint = Endpoint(quorum)
        redlock("admit", "--new", "--at-once", "--max-ttl", "10s", "--promise", "sole",
                env=endpoint.env).expect(0)
        lab.wait_for(lambda: marker(endpoint.replica) == marker(endpoint.primary), "the replica's marker")
        endpoint.lag()
        begun = time.monotonic()
        first = redlock("acquire", *PATIENT, "--json", "--fence", "-n", "-t", "10s", "k",
                        env=endpoint.env).expect(0).json()["fence"]
        since = endpoint.fail_over()
        redlock("run", *PATIENT, "--fence", "-n", "-t", "10s", "k", "true",
                env=endpoint.env).expect(69)
        second = int(fence(quorum, env=endpoint.env).expect(0).out)
        check(time.monotonic() - begun >= 10, "the first holder's time has ended")
        check(second > first, f"fences: {first}, {second}")
        print(f"# the node came back {time.monotonic() - since:.1f} s after the failover")


lab.main(servers=0)

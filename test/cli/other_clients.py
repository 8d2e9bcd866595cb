#!/usr/bin/env python3
"""Other programs of the same protocol: SET NX PX to acquire a lock, compare-and-delete to release it."""
import signal

import lab
from lab import PATIENT, case, check, equal, finish, on, redlock

RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
EXTEND = ("if redis.call('get',KEYS[1])==ARGV[1] then "
          "return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end")


def take(quorum, key, value, ms=60000):
    """Another client's acquire; the nodes that it got."""
    return [index for index in range(5)
            if quorum[index].call("SET", key, value, "NX", "PX", ms) == "OK"]


def script(quorum, text, key, *words):
    return [server.call("EVAL", text, 1, key, *words) for server in quorum.servers]


@case("a lock that another client holds excludes this one, on a majority or on all nodes")
def _(quorum):
    for nodes in (range(5), range(3)):
        quorum.reset()
        quorum.occupy("k", nodes, "0f3b92")
        redlock("run", *PATIENT, "-n", "k", "true", env=on(quorum)).expect(
            75, err="held by 0f3b92")
        redlock("status", *PATIENT, "k", env=on(quorum)).expect(0)
        script(quorum, RELEASE, "k", "0f3b92")
        redlock("run", "-n", "k", "true", env=on(quorum)).expect(0)


@case("a lock that we hold excludes another client")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    equal(take(quorum, "k", "0f3b92"), [], "nodes that another got")
    redlock("release", *PATIENT, "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    equal(take(quorum, "k", "0f3b92"), [0, 1, 2, 3, 4], "nodes that another got")


@case("another client extends and releases our lock by its token, and by no other")
def _(quorum):
    token = redlock("acquire", *PATIENT, "-t", "10s", "k",
                    env=on(quorum)).expect(0).out.strip()
    equal(script(quorum, EXTEND, "k", "other", 99000), [0] * 5, "extension by another token")
    equal(script(quorum, EXTEND, "k", token, 99000), [1] * 5, "extension")
    check(quorum[0].call("PTTL", "k") > 90000, "not extended")
    equal(script(quorum, RELEASE, "k", "other"), [0] * 5, "release by another token")
    equal(script(quorum, RELEASE, "k", token), [1] * 5, "release")
    redlock("acquire", "-n", "k", env=on(quorum)).expect(0)


@case("a lock that is handed over: another client takes it by compare-and-set, the run ends")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("run", "-t", "6s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    for server in quorum.servers:
        server.call("SET", "k", "0f3b92", "XX", "PX", 60000)
    finish(process).expect(124)
    equal(quorum.values("k"), ["0f3b92"] * 5, "values after the end")


@case("a value that another client stored meanwhile is neither deleted nor extended")
def _(quorum):
    token = redlock("acquire", "-t", "200ms", "k", env=on(quorum)).expect(0).out.strip()
    lab.wait_for(lambda: quorum.keys() == 0, "the end of the TTL")
    quorum.occupy("k", value="0f3b92", ms=60000)
    before = [server.call("PEXPIRETIME", "k") for server in quorum.servers]
    env = on(quorum, REDLOCK_TOKEN=token)
    redlock("extend", "-t", "1h", "k", env=env).expect(2)
    redlock("release", "k", env=env).expect(2)
    equal(quorum.values("k"), ["0f3b92"] * 5, "values")
    equal([server.call("PEXPIRETIME", "k") for server in quorum.servers], before, "expiries")


@case("replicas do not vote: a majority of them is no quorum")
def _(quorum):
    for server in quorum.servers[:3]:
        server.call("CONFIG", "SET", "replica-read-only", "no")
        server.call("REPLICAOF", "127.0.0.1", "1")
    redlock("acquire", "-n", "--timeout", "2s", "k", env=on(quorum)).expect(69, err="replica")
    equal(quorum.keys(), 0, "keys")
    quorum[0].call("REPLICAOF", "NO", "ONE")
    redlock("acquire", "-n", "--timeout", "2s", "k", env=on(quorum)).expect(0)
    equal([bool(value) for value in quorum.values("k")], [True, False, False, True, True], "votes")
    for server in quorum.servers[:3]:
        server.call("REPLICAOF", "NO", "ONE")


@case("one server behind two addresses has one vote")
def _(quorum):
    port = quorum[0].listen()
    nodes = f"{quorum.uris[0]},redis://127.0.0.1:{port},unix:///nowhere"
    redlock("acquire", "-n", "-N", nodes, "k").expect(69)
    equal(quorum.keys(), 0, "keys")
    quorum[0].call("CONFIG", "SET", "port", 0)


@case("nodes that are full refuse to vote, and can still be released from")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    for server in quorum.servers:
        server.call("CONFIG", "SET", "maxmemory", "1")
    redlock("acquire", "-n", "other", env=on(quorum)).expect(69)
    redlock("release", *PATIENT, "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    for server in quorum.servers:
        server.call("CONFIG", "SET", "maxmemory", "0")
    equal(quorum.keys(), 0, "keys")


@case("scripts that a server forgot are sent again")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("run", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first, "an extension")
    for server in quorum.servers:
        server.call("SCRIPT", "FLUSH")
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first + 3000000, "extensions")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)
    equal(quorum.keys(), 0, "keys")


@case("connections that are cut are opened again, and the lock is kept")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("run", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    for _ in range(3):
        first = quorum.expires_us("k")
        for server in quorum.servers:
            server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        lab.wait_for(lambda: quorum.expires_us("k") > first + 1000000, "an extension")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)
    equal(quorum.keys(), 0, "keys")


lab.main()

#!/usr/bin/env python3
"""redlock check --until-repaired."""
import signal

import lab
from fencing import found
from lab import PATIENT, case, equal, matches, on, redlock

WAIT = ("check", "--until-repaired", *PATIENT)
LONG = "10m"  # longer than any case takes


def acquire(quorum, *words, ttl=LONG):
    path = lab.temporary("token")
    redlock("acquire", *PATIENT, "-t", ttl, "--token-file", path, *words,
            env=on(quorum)).expect(0)


def repaired(quorum, *words):
    """Waits without a limit, and ends with 0."""
    return redlock(*WAIT, *words, env=on(quorum)).expect(0)


def late(quorum, why, *words):
    """The wait runs out, for this reason; on a busy machine not before it was seen."""
    for wait in ("1s", "5s", "30s"):
        done = redlock(*WAIT, "-w", wait, *words, env=on(quorum)).expect(75)
        if lab.re.search(f"check: the wait ran out: {why}", done.err, lab.re.MULTILINE):
            return done
    raise lab.Failed(f"{why}: {done}")


@case("it ends where no lock is stored, and where each lock is on all nodes")
def _(quorum):
    repaired(quorum).expect(0, out="0 locks are on all 3 nodes\n")
    acquire(quorum, "k", ttl="20s")
    acquire(quorum, "--shared", "s", ttl="20s")
    repaired(quorum).expect(0, out="2 locks are on all 3 nodes\n")
    answer = repaired(quorum, "--json").json()
    equal((answer["repaired"], answer["locks"], answer["missing"]), (True, 2, 0), "the answer")
    equal([node["lacks"] for node in answer["nodes"]], [0, 0, 0], "lacks")


@case("a lock that a node lacks is waited for, and named")
def _(quorum):
    acquire(quorum, "k")
    quorum[1].call("DEL", "k")
    why = f"1 of 1 locks are not on all nodes; {quorum[1].uri}: lacks 1$"
    answer = late(quorum, why, "--json").json()
    equal((answer["repaired"], answer["locks"], answer["missing"]), (False, 1, 1), "the answer")
    equal([node["lacks"] for node in answer["nodes"]], [0, 1, 0], "lacks")
    waiting = lab.start(*WAIT, env=on(quorum))
    quorum[0].call("DEL", "k")  # it is not a quorum's any more
    lab.finish(waiting).expect(0)


@case("a reader, too, beside others")
def _(quorum):
    for _ in range(3):
        acquire(quorum, "--shared", "s")
    repaired_by = quorum[2].call("ZRANGE", "s", 0, 0, "WITHSCORES")
    quorum[2].call("ZREM", "s", repaired_by[0])
    late(quorum, "1 of 3 locks are not on all nodes$")


@case("a lock without a watchdog is waited for until its TTL ends")
def _(quorum):
    acquire(quorum, "k", ttl="3s")
    quorum[1].call("DEL", "k")
    repaired(quorum).expect(0, out="0 locks are on all 3 nodes\n")


@case("a node that is down is waited for")
def _(quorum):
    quorum.kill(1)
    late(quorum, f"0 locks.*; {quorum[1].uri}: .*cannot connect")
    waiting = lab.start(*WAIT, env=on(quorum))
    quorum.start()
    lab.finish(waiting).expect(0)


@case("where a node has a marker, all have to vote on fenced locks")
def _(quorum):
    found(quorum)
    repaired(quorum)
    quorum[1].call("DEL", "!marker")
    late(quorum, f"0 locks.*; {quorum[1].uri}: the node has no marker")


@case("it writes nothing, and needs the rights of --acl --list")
def _(quorum):
    found(quorum)
    acquire(quorum, "--fence", "k", ttl="20s")
    acquire(quorum, "--shared", "s", ttl="20s")
    rights = redlock("check", "--acl", "--list", env=on(quorum)).expect(0).out
    words = rights.replace("SECRET", "secret").split()
    words[2] = "limited"
    for server in quorum.servers:
        server.call("CONFIG", "RESETSTAT")
        server.call(*words)
    user = {"REDLOCK_USERNAME": "limited", "REDLOCK_PASSWORD": "secret"}
    redlock(*WAIT, env=on(quorum, **user)).expect(0)
    for server in quorum.servers:
        stats = server.call("INFO", "commandstats")
        wrote = [line for line in stats.split() if lab.re.match(
            r"cmdstat_(set|del|zadd|zrem|pexpire|hset|publish|incr)\b", line)]
        equal(wrote, [], "what was written")
        server.call("ACL", "SETUSER", "limited", "-scan")
    redlock(*WAIT, env=on(quorum, **user)).expect(77, err="redlock check --acl|denied|NOPERM")


@case("a signal ends it")
def _(quorum):
    acquire(quorum, "k")
    quorum[1].call("DEL", "k")
    waiting = lab.start(*WAIT, env=on(quorum))
    line = waiting.stderr.readline().decode()
    matches(line, "check: waiting: ", "stderr")
    waiting.send_signal(signal.SIGTERM)
    lab.finish(waiting).expect(143, err="Terminated: 1 of 1 locks")


@case("options that do not fit are refused")
def _(quorum):
    for words in (("--strict",), ("--fence",), ("--acl",)):
        redlock(*WAIT, *words, env=on(quorum)).expect(64, err="--until-repaired")
    redlock("check", "-w", "1s", env=on(quorum)).expect(64, err="--until-repaired")


lab.main(servers=3)

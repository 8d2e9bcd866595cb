#!/usr/bin/env python3
"""A rolling upgrade: two releases of the command on the same nodes: upgrade.py NEW OLD [CASE...]

./dev check upgrade builds the old one from the history and runs this. Each case is played in both
directions, or once if both are one command. docs/protocol.md says what one release may rely on of
the other.
"""
import os
import re
import sys

import lab
from fencing import SHORT, TTL, found, marker, state, states
from judge import judge
from lab import PATIENT, case, check, equal, matches, on, wait_for

# What keeps a node from voting on fenced locks.
OF_FENCES = {"unmarked", "no_majority", "other_deployment", "replaced", "other_process",
             "quarantined", "clock_set", "behind"}
HELD = 75
TURNS = 12
AHEAD_US = 3000000  # less than a fence may be ahead of the clocks


class Release:
    """The command of one release."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        lab.program = self.path
        self.readmit = next(word for word in ("--readmit", "--wait")
                            if word in lab.redlock("admit", "--help").out)

    def start(self, quorum, *words, token=None, **more):
        lab.program = self.path
        return lab.start(*words, env=on(quorum, REDLOCK_TOKEN=token), **more)

    def call(self, quorum, *words, token=None):
        return lab.finish(self.start(quorum, *words, token=token))

    def acquire(self, quorum, *words):
        """The token."""
        return self.call(quorum, "acquire", *PATIENT, *words, "k").expect(0).out.strip()

    def admit(self, quorum, *words):
        lab.program = self.path
        found(quorum, *words)

    def fence(self, quorum):
        return int(self.call(quorum, "run", "-t", TTL, "--fence", "k", "--", "sh", "-c",
                             "echo $REDLOCK_FENCE").expect(0).out)

    def findings(self, quorum):
        """For each node what `check --fence` finds of its vote on fenced locks."""
        report = self.call(quorum, "check", *PATIENT, "--fence", "--json").json()
        return [{finding["code"] for finding in node["findings"]} & OF_FENCES
                for node in report["nodes"]]


NEW, OLD = Release(lab.program), Release(sys.argv.pop(2))
ORDERS = ((OLD, NEW, "old, new"), (NEW, OLD, "new, old"))


def both(text):
    """A case that is played with the old release first, and with the new one first."""
    def add(function):
        for first, second, order in ORDERS if OLD.path != NEW.path else ((NEW, NEW, "itself"),):
            case(f"{text} ({order})")(
                lambda quorum, one=first, other=second: function(quorum, one, other))
        return function
    return add


def both_kinds(quorum, one):
    """The options of a plain lock, then those of a fenced one on admitted nodes."""
    yield ()
    one.admit(quorum, "--max-ttl", "10m")
    yield ("--fence",)


# --- one lock ---

@both("a lock of one release is refused to the other, until it is released")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        token = one.acquire(quorum, *kind)
        equal(quorum.values("k"), [token] * 5, "values")
        for words in (("acquire", "-n"), ("run", "-n")):
            command = ("true",) if words[0] == "run" else ()
            for cross in ((), kind):
                other.call(quorum, *words, *PATIENT, *cross, "k", *command).expect(HELD, out="")
        equal(quorum.values("k"), [token] * 5, "values after the refusals")
        one.call(quorum, "release", *PATIENT, "k", token=token).expect(0)
        other.call(quorum, "run", *PATIENT, "-n", *kind, "k", "true").expect(0)


@both("one extends and releases by the token of the other")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        token = one.acquire(quorum, "-t", "2m", *kind)
        other.call(quorum, "extend", *PATIENT, "-t", "9m", "k", token=token).expect(0)
        check(min(server.call("PTTL", "k") for server in quorum.servers) > 120000, "not extended")
        other.call(quorum, "release", *PATIENT, "k", token=token).expect(0)
        equal(quorum.values("k"), [None] * 5, "values")
        one.call(quorum, "release", *PATIENT, "k", token=token).expect(1)


@both("one extends and releases by the token file of the other, and its fence stays")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        path = lab.temporary("k.lock")
        one.acquire(quorum, "-t", "2m", *kind, "--token-file", path)
        before = quorum.values("k!fence")
        for turn in (other, one, other):
            turn.call(quorum, "extend", *PATIENT, "-t", "9m", "--token-file", path,
                      "k").expect(0, err="^$")
        equal(quorum.values("k!fence"), before, "fences")
        other.call(quorum, "release", *PATIENT, "--token-file", path, "k").expect(0)
        equal(quorum.values("k"), [None] * 5, "values")


@both("one release shows and breaks a lock of the other")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        token = one.acquire(quorum, *kind)
        label = token.partition("@")[2]
        status = other.call(quorum, "status", *PATIENT, "k").expect(0).out
        matches(status, re.escape(f"held by {label} on 5 of 5 nodes"), "status")
        equal(other.call(quorum, "status", *PATIENT, "--json", "k").expect(0).json()["holder"],
              label, "holder")
        other.call(quorum, "break", *PATIENT, "--yes", "k").expect(0)
        equal(quorum.values("k"), [None] * 5, "values")
        one.call(quorum, "extend", *PATIENT, "k", token=token).expect(1)
        other.call(quorum, "status", *PATIENT, "k").expect(1)


@both("a run of one ends when the other breaks its lock")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        process = one.start(quorum, "run", "-t", "6s", *kind, "k", "sleep", "1h")
        wait_for(lambda: quorum.values("k")[0] and None not in quorum.values("k"), "the lock")
        other.call(quorum, "break", *PATIENT, "--yes", "k").expect(0)
        lab.finish(process).expect(124)
        equal(quorum.values("k"), [None] * 5, "values")


TIMES = 15
LOGGED = """\
t=$(date +%s%6N)
echo "$t acquired $$-$t exclusive $((t + 5000000)) k" >>"$1"
sleep 0.01
echo "$(date +%s%6N) released $$-$t" >>"$1"
"""


@case("two processes of each release hold the lock in turn, and no two at a time")
def _(quorum):
    script = lab.write(lab.temporary("logged"), LOGGED)
    repeat = f'for i in $(seq {TIMES}); do "$0" "$@" || exit; done'
    for kind in both_kinds(quorum, NEW):
        logs = [lab.temporary("log") for _ in range(4)]
        workers = [lab.spawn(["sh", "-c", repeat, release.path, "run", *PATIENT, "-t", "5s", *kind,
                              "k", "sh", script, log], env=lab.environment(on(quorum)))
                   for release, log in zip((OLD, NEW, OLD, NEW), logs)]
        equal([worker.wait(lab.END_SECONDS) for worker in workers], [0] * 4, "exit codes")
        found = judge(logs)
        equal((found.acquisitions, found.violations), (4 * TIMES, 0), f"{kind}: {found.text}")


# --- waiting ---

class Heard:
    """Messages of a node to waiters, from now on."""

    def __init__(self, server):
        self.redis = lab.Redis(server.path)
        self.redis.call("PSUBSCRIBE", "*!wake:*")

    def next(self):
        """The channel and the message."""
        _, _, channel, message = self.redis.read()
        return f"{channel} {message}"


def entries(quorum):
    return [server.call("ZRANGE", "k!queue", "0", "-1") for server in quorum.servers]


def are_queued(quorum, count):
    """All nodes have so many waiters, each of which is subscribed there."""
    for server in quorum.servers:
        queue = server.call("ZRANGE", "k!queue", "0", "-1")
        channels = server.call("PUBSUB", "CHANNELS", "*!wake:*")
        if len(queue) != count or not {one.split()[0] for one in queue} <= set(channels):
            return False
    return True


def nobody_waits(quorum):
    return not any(server.call("EXISTS", "k!queue") or server.call("EXISTS", "k!intent")
                   for server in quorum.servers)


@both("one waits for the lock of the other, is notified of the release, and gets it")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        token = one.acquire(quorum, "-t", "10m", *kind)
        waiter = other.start(quorum, "acquire", *kind, "k")
        wait_for(lambda: are_queued(quorum, 1), "a waiter in each queue")
        queued = [queue[0] for queue in entries(quorum)]
        heard = [Heard(server) for server in quorum.servers]
        one.call(quorum, "release", *PATIENT, "k", token=token).expect(0)
        equal([node.next() for node in heard], [f"{entry} 0 0 k" for entry in queued],
              "notifications")
        other_token = lab.finish(waiter).expect(0).out.strip()
        check(quorum.values("k").count(other_token) >= 3, f"values {quorum.values('k')}")
        other.call(quorum, "release", *PATIENT, "k", token=other_token).expect(0)
        wait_for(lambda: nobody_waits(quorum), "the end of queues and intents")


@both("waiters of both share a queue: the first and the second are notified, and both get it")
def _(quorum, one, other):
    for kind in both_kinds(quorum, one):
        token = one.acquire(quorum, "-t", "10m", *kind)
        waiters = []
        for release in (other, one):
            waiters.append(release.start(quorum, "run", *kind, "k", "true"))
            wait_for(lambda: are_queued(quorum, len(waiters)), "a waiter in each queue")
        first, second = entries(quorum)[0]
        heard = Heard(quorum[0])
        other.call(quorum, "release", *PATIENT, "k", token=token).expect(0)
        equal([heard.next() for _ in range(2)], [f"{first} 0 0 k", f"{second} 1 0 k"],
              "notifications")
        for waiter in waiters:
            lab.finish(waiter).expect(0)
        equal(quorum.values("k"), [None] * 5, "values")
        wait_for(lambda: nobody_waits(quorum), "the end of queues and intents")


# --- fences and membership ---

@both("fencing tokens rise from one release to the other, also above stored ones of the future")
def _(quorum, one, other):
    one.admit(quorum)
    last = 0
    for turn in range(TURNS):
        if turn % 4 == 0:  # the next two may not rely on the clock
            seconds, us = quorum[0].call("TIME")
            last = int(seconds) * 1000000 + int(us) + AHEAD_US
            for server in quorum.servers:
                server.call("SET", "k!fence", last)
        fence = (one, other)[turn % 2].fence(quorum)
        check(fence > last, f"{fence} after {last}")
        last = fence


@both("nodes that one release admits vote for the other, which finds no fault in them")
def _(quorum, one, other):
    one.admit(quorum)
    markers = [marker(server) for server in quorum.servers]
    equal(states(quorum), ["sound"] * 5, "states")
    equal(other.findings(quorum), [set()] * 5, "findings")
    other.call(quorum, "admit", other.readmit).expect(0)
    other.fence(quorum)
    equal([marker(server) for server in quorum.servers], markers, "markers")


@both("a node that forgot is quarantined by one, goes on with the other, and votes for both")
def _(quorum, one, other):
    one.admit(quorum, *SHORT)
    fence = one.fence(quorum)
    quorum.kill(4)
    quorum.start()
    begins = one.start(quorum, "admit", one.readmit)
    wait_for(lambda: state(quorum[4]) == "barred", "a marker")
    begins.kill()
    begins.wait()
    for release in (one, other):
        equal(["quarantined" in codes for codes in release.findings(quorum)],
              [False] * 4 + [True], "which node is in quarantine")
        fences = fence, release.fence(quorum)
        check(fences[0] < fences[1], f"fences {fences}")
        fence = fences[1]
        equal(quorum[4].call("GET", "k!fence"), None, "what a node stores in quarantine")
    other.call(quorum, "admit", other.readmit).expect(0)
    equal(states(quorum), ["sound"] * 5, "states")
    equal(one.findings(quorum), [set()] * 5, "findings")
    quorum.kill(0, 1)  # its vote decides from now on
    for release in (one, other):
        fences = fence, release.fence(quorum)
        check(fences[0] < fences[1], f"fences {fences}")
        fence = fences[1]


@both("a node that one replaces votes for the other")
def _(quorum, one, other):
    one.admit(quorum, *SHORT)
    fence = one.fence(quorum)
    with lab.Quorum(1) as spare:
        one.call(quorum, "admit", "--replace", f"{quorum.uris[4]}={spare.uris[0]}").expect(0)
        quorum.nodes = ",".join([*quorum.uris[:4], *spare.uris])
        try:
            equal(other.findings(quorum), [set()] * 5, "findings")
            quorum.kill(0, 1)
            later = other.fence(quorum)
            check(fence < later, f"{later} after {fence}")
        finally:
            quorum.nodes = ",".join(quorum.uris)


lab.main()

#!/usr/bin/env python3
"""redlock wait: until a lock is free."""
import json
import re
import signal

import lab
from lab import PATIENT, case, check, equal, on, redlock, start


def wait(quorum, *words):
    return start("wait", *PATIENT, *words, env=on(quorum))


def goes_on(quorum, process):
    """It has looked, and has not ended."""
    before = looks(quorum)
    lab.wait_for(lambda: looks(quorum) > before + 1, "another look")
    equal(process.poll(), None, "it has ended")


def looks(quorum):
    """How many scripts a node has run: neither the greeting nor this question."""
    stats = quorum[4].call("INFO", "commandstats")
    return sum(map(int, re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", stats)))


@case("a lock that is free is not waited for, nor taken")
def _(quorum):
    lab.finish(wait(quorum, "k")).expect(0, out="", err="^$")
    equal(quorum.keys(), 0, "keys")


@case("it returns when the lock is released, and when it expires")
def _(quorum):
    token = redlock("acquire", *PATIENT, "-t", "10m", "k", env=on(quorum)).expect(0).out.strip()
    process = wait(quorum, "k")
    goes_on(quorum, process)
    redlock("release", *PATIENT, "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    lab.finish(process).expect(0)
    redlock("acquire", *PATIENT, "-t", "1s", "k", env=on(quorum)).expect(0)
    lab.finish(wait(quorum, "k")).expect(0)


@case("of several keys all must be free")
def _(quorum):
    quorum.occupy("b")
    process = wait(quorum, "--and", "b", "a")
    goes_on(quorum, process)
    for server in quorum.servers:
        server.call("DEL", "b")
    lab.finish(process).expect(0)


@case("the wait runs out; it is ended by a signal")
def _(quorum):
    quorum.occupy("k")
    lab.finish(wait(quorum, "-w", "300ms", "k")).expect(75, err="held by")
    lab.finish(wait(quorum, "-w", "0", "k")).expect(75)
    process = wait(quorum, "k")
    goes_on(quorum, process)
    process.send_signal(signal.SIGINT)
    lab.finish(process).expect(130)
    quorum.kill(0, 1, 2)
    lab.finish(wait(quorum, "-w", "300ms", "k")).expect(69)


@case("with --json it prints the last look, also when the wait runs out")
def _(quorum):
    seen = json.loads(lab.finish(wait(quorum, "--json", "k")).expect(0, err="^$").out)
    equal((seen["key"], seen["state"]), ("k", "free"), "a free key")
    check(seen["free"] >= seen["quorum"], "fewer than a quorum of nodes are said to be free")
    quorum.occupy("b")
    process = wait(quorum, "--json", "-w", "300ms", "--and", "b", "k")
    seen = json.loads(lab.finish(process).expect(75).out)
    equal((seen["key"], seen["state"], seen["holder"] is None), ("b", "held", False), "held")


lab.main()

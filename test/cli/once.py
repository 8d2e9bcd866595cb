#!/usr/bin/env python3
"""redlock run --once-per: one run in each period among all hosts."""
import json
import os
import signal
import time

import lab
from lab import PATIENT, case, check, equal, on, redlock, start
from wrongclock import WrongClock

DAY = ("--once-per", "1d", "--once-id", "monday")
HOUR_US = 3600 * 1000 * 1000
KEY = "job@monday"


def once(*words, quorum, **more):
    return ["run", *PATIENT, *DAY, *words[:-1], "job", "--", *words[-1]], on(quorum, **more)


def run(*words, quorum, **more):
    words, env = once(*words, quorum=quorum, **more)
    return redlock(*words, env=env)


def begin(*words, quorum):
    words, env = once(*words, quorum=quorum)
    return start(*words, env=env)


def did(outcome):
    return json.loads(outcome.err.splitlines()[-1])["once"]["did"]


def count_into(path, code=0):
    """A command that notes that it ran."""
    return ["sh", "-c", f"echo ran >> {path}; exit {code}"]


def ran(path):
    return len(lab.read(path).splitlines()) if os.path.exists(path) else 0


def is_record(quorum):
    """A quorum of the nodes keeps the key to the end of the next period."""
    left = [server.call("PTTL", KEY) for server in quorum.servers]
    return sum(2 * 86400000 <= ms <= 2.1 * 86400000 for ms in left) >= 3


@case("of ten at a time one runs; the others say who has the period")
def _(quorum):
    path = lab.temporary("runs")
    hosts = [begin("--durable", count_into(path), quorum=quorum) for _ in range(10)]
    outcomes = [lab.finish(host) for host in hosts]
    equal(sorted(one.code for one in outcomes), [0] + 9 * [75], "exit codes")
    for one in outcomes:
        lab.matches(one.err, "" if one.code == 0 else r"^redlock: job@monday: taken by \S+:\d+\n$",
                    "stderr")
    equal(ran(path), 1, "runs")
    check(is_record(quorum), "no record")
    equal(did(run("--json", ["true"], quorum=quorum).expect(75)), "period_taken", "what it did")
    run("-E", "0", ["false"], quorum=quorum).expect(0)


@case("by default a command that fails, and one whose redlock is killed, do not run again")
def _(quorum):
    path = lab.temporary("runs")
    equal(did(run("--json", count_into(path, 3), quorum=quorum).expect(3)), "ran", "what it did")
    run(count_into(path), quorum=quorum).expect(75)
    quorum.reset()
    beats = lab.temporary("beats")
    host = begin(lab.beat(beats), quorum=quorum)
    lab.wait_for_beats(beats)
    check(is_record(quorum), "the command runs without a record")
    host.kill()
    host.wait()
    run(count_into(path), quorum=quorum).expect(75)
    equal(ran(path), 1, "runs")
    lab.nothing_is_left()


@case("--retry: until one has succeeded; who waits takes over from a host that dies")
def _(quorum):
    path, beats = lab.temporary("runs"), lab.temporary("beats")
    run("--retry", count_into(path, 1), quorum=quorum).expect(1)
    equal(quorum.keys(), 0, "keys")
    host = begin("--retry", "-t", "1s", lab.beat(beats), quorum=quorum)
    lab.wait_for_beats(beats)
    other = begin("--retry", "-t", "1s", count_into(path), quorum=quorum)
    host.kill()
    host.wait()
    lab.finish(other).expect(0)
    equal(ran(path), 2, "runs")
    check(is_record(quorum), "no record")
    run("--retry", count_into(path), quorum=quorum).expect(75)


@case("--retry: who waits ends when the other has succeeded")
def _(quorum):
    end = lab.temporary("end")
    host = begin("--retry", ["sh", "-c", f"until test -e {end}; do sleep 0.02; done"],
                 quorum=quorum)
    lab.wait_for(lambda: quorum.keys() == 5, "a holder")
    other = begin("--retry", ["false"], quorum=quorum)
    lab.wait_for(lambda: quorum.keys() >= 10, "a waiter in all queues")
    lab.write(end, "")
    lab.finish(host).expect(0)
    lab.finish(other).expect(75, err="taken by")


@case("a command that is not found leaves the period free")
def _(quorum):
    run(["/nowhere"], quorum=quorum).expect(127)
    equal(quorum.keys(), 0, "keys")
    run(["true"], quorum=quorum).expect(0)


@case("a host whose clock is off by more than a quarter of the period is refused")
def _(quorum):
    for ahead_us, code in ((7 * HOUR_US, 78), (-7 * HOUR_US, 78), (HOUR_US, 0)):
        clock = WrongClock(lab.temporary("clock"))
        clock.jump(ahead_us)
        outcome = run("--json", ["true"], quorum=quorum, **clock.environment()).expect(code)
        found = json.loads(outcome.err.splitlines()[-1])["once"]
        equal(found["did"], "ran" if code == 0 else "refused", "what it did")
        check(abs(found["clock_off_ms"] * 1000 - ahead_us) < HOUR_US / 10, outcome.err)
        if code != 0:
            lab.matches(outcome.err, "refused: the clock of this host is [67] h.* "
                        + ("ahead" if ahead_us > 0 else "behind"), "stderr")


@case("a host whose clock is set while it waits does not run in the period of the wrong clock")
def _(quorum):
    clock = WrongClock(lab.temporary("clock"))
    noon_us = (43200 - int(time.time()) % 86400) * 1000000
    clock.jump(noon_us - 2 * 24 * HOUR_US)
    quorum.kill(0, 1, 2)
    host = lab.start("run", *PATIENT, "--json", "--once-per", "1d", "job", "--", "true",
                     env=on(quorum, **clock.environment()))
    lab.matches(host.stderr.readline().decode(), "waiting: .* nodes (failed|are not)", "what it says")
    clock.mend()
    quorum.start()
    outcome = lab.finish(host).expect(78, err="the clock of this host was .* behind")
    equal(json.loads(outcome.err.splitlines()[-1])["once"]["did"], "refused", "what it did")
    equal(quorum.keys(), 0, "keys")


@case("without an id the key has the number of the period")
def _(quorum):
    before = int(time.time()) // 3600
    redlock("run", *PATIENT, "--once-per", "1h", "job", "--", "true", env=on(quorum)).expect(0)
    keys = set(quorum[0].call("KEYS", "*"))
    check(keys <= {f"job@{number}" for number in (before, int(time.time()) // 3600)}, keys)


@case("without a quorum the command does not run; a signal ends the wait")
def _(quorum):
    path = lab.temporary("runs")
    quorum.kill(0, 1, 2)
    run("-n", count_into(path), quorum=quorum).expect(69)
    host = begin(count_into(path), quorum=quorum)
    lab.matches(host.stderr.readline().decode(), "waiting: .* nodes (failed|are not)", "what it says")
    host.send_signal(signal.SIGTERM)
    lab.finish(host).expect(143)
    equal(ran(path), 0, "runs")


@case("options that do not go together")
def _(quorum):
    for words in (["--once-id", "x"], ["--retry"], ["--once-per", "32d"], ["--once-per", "500ms"],
                  ["--once-per", "0"], ["--once-per", "1d", "--once-id", ""],
                  [*DAY, "--fence"], [*DAY, "--shared"], [*DAY, "--redisson"],
                  [*DAY, "--slots", "2"], [*DAY, "--and", "k"], [*DAY, "--at-least", "1s"]):
        redlock("run", *words, "job", "--", "true", env=on(quorum)).expect(64, err="--")
    equal(quorum.keys(), 0, "keys")


lab.main()

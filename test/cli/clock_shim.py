#!/usr/bin/env python3
"""A server under the clock shim has the time of day that a test sets, and no other fault."""
import json
import subprocess
import sys
import time

import lab
from lab import case, check, durable, equal, on, redlock
from wrongclock import WrongClock

HOUR = 3600 * 1000 * 1000  # all times are in us
LAG = 10 * 1000 * 1000     # of a clock that counts from the boot: it must not be below 0
SLACK = 1000               # the shown times are rounded, on both sides

LOOK = """
import ctypes, json, os, time
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
both = (ctypes.c_long * 2)()
stored = ctypes.c_long()
libc.gettimeofday(both, None)
names = ("REALTIME", "REALTIME_COARSE", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME")
ids = {"REALTIME_COARSE": 5}
shown = {name: time.clock_gettime_ns(ids.get(name, getattr(time, "CLOCK_" + name, None))) // 1000
         for name in names}
shown["gettimeofday"] = both[0] * 1000000 + both[1]
shown["time"] = libc.time(ctypes.byref(stored)) * 1000000
assert stored.value * 1000000 == shown["time"]
at = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 50000000
timer = libc.timerfd_create(time.CLOCK_BOOTTIME, 0)
absolute = 1
assert libc.timerfd_settime(timer, absolute, (ctypes.c_long * 4)(0, 0, *divmod(at, 10**9)), None) == 0
os.read(timer, 8)
assert time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= at  # it was armed by the shown clock
print(json.dumps(shown))
"""


def ours():
    return time.time_ns() // 1000


def shown(server):
    seconds, us = server.call("TIME")
    return int(seconds) * 1000000 + int(us)


def ahead(server):
    """The minimum and the maximum by which it is ahead of our clock."""
    before = ours()
    there = shown(server)
    return there - ours() - SLACK, there - before + SLACK


def is_off(server, ppm, us):
    """It is surely off by more than this, in the direction of the rate."""
    least, most = ahead(server)
    return least > us if ppm > 0 else most < -us


def is_ahead(server, us):
    least, most = ahead(server)
    check(least <= us <= most, f"ahead by {least} to {most} us instead of {us}")


def ttl_follows(server, key):
    """A key's remaining time by the server's own clock."""
    before = shown(server)
    left, end = server.call("PTTL", key) * 1000, server.call("PEXPIRETIME", key) * 1000
    after = shown(server)
    check(end - after - SLACK <= left <= end - before + SLACK, f"{left} us of {end - before}")


def look(clock):
    """What a program with this clock sees on each: us."""
    process = lab.spawn([sys.executable, "-S", "-E", "-c", LOOK], env=clock.environment(),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=40)
    equal((process.returncode, err), (0, b""), "the end of a program under the shim")
    return json.loads(out)


def store(quorum, key, ms):
    for server in quorum.servers:
        equal(server.call("SET", key, "v", "PX", ms), "OK", "SET")


def stored(quorum, key):
    return [server.call("EXISTS", key) == 1 for server in quorum.servers]


@case("without any setting its time is true; so it is after a reset")
def _(quorum):
    wrong, sound = quorum.servers
    store(quorum, "k", 600000)
    for change in (lambda: None, lambda: wrong.clock.jump(HOUR), wrong.clock.freeze,
                   lambda: wrong.clock.slew(50000)):
        change()
        wrong.clock.mend()
        for server in (wrong, sound):
            is_ahead(server, 0)
            ttl_follows(server, "k")
    equal(stored(quorum, "k"), [True, True], "a key that was not accessed meanwhile")


@case("it jumps, by an hour and by 400 ms, forwards and back; jumps add up")
def _(quorum):
    wrong, sound = quorum.servers
    for us in (HOUR, -HOUR, 400000, -400000):
        wrong.clock.mend()
        store(quorum, "k", 7200000)
        begun, before = ours(), wrong.call("PTTL", "k") * 1000
        wrong.clock.jump(us)
        after = wrong.call("PTTL", "k") * 1000
        lost, took = before - after, ours() - begun
        check(us - SLACK <= lost <= us + took + SLACK, f"{lost} us of the TTL are lost")
        is_ahead(wrong, us)
        ttl_follows(wrong, "k")
        is_ahead(sound, 0)
    wrong.clock.jump(HOUR)
    is_ahead(wrong, HOUR - 400000)


@case("keys expire early where the clock jumps over their end, and only there")
def _(quorum):
    for us, ms in ((HOUR, 1800000), (400000, 399)):
        store(quorum, "k", ms)
        end = quorum[1].call("PEXPIRETIME", "k") * 1000
        quorum[0].clock.jump(us)
        equal(quorum[0].call("GET", "k"), None, f"a key of {ms} ms after {us} us")
        check(stored(quorum, "k")[1] or shown(quorum[1]) >= end, "it is gone from the other")


@case("it runs 5 % fast or slow, and keeps the difference when the rate is correct again")
def _(quorum):
    wrong, sound = quorum.servers
    store(quorum, "k", 7200000)
    for ppm in (50000, -50000):
        wrong.clock.mend()
        earliest = ours()
        wrong.clock.slew(ppm)
        latest = ours()
        lab.wait_for(lambda fast=ppm: is_off(wrong, fast, 20000), "20 ms that it is off by")
        least_gone = ours() - latest
        off = sorted(us * 1000000 // ppm for us in ahead(wrong))
        check(off[0] <= ours() - earliest and least_gone <= off[1],
              f"{off} us would gain that much, and {least_gone} have gone")
        ttl_follows(wrong, "k")
        wrong.clock.slew(0)
        lab.wait_for(lambda fast=ppm: is_off(wrong, fast, 20000), "what it gained before")
        is_ahead(wrong, wrong.clock.shown_us() - ours())
        is_ahead(sound, 0)


@case("it stands still: nothing expires until it continues, from the same time")
def _(quorum):
    wrong = quorum[0]
    before = ours()
    wrong.clock.freeze()
    stands = shown(wrong)
    check(before - SLACK <= stands <= ours(), "it jumped when it stopped")
    store(quorum, "k", 1)
    lab.wait_for(lambda: not stored(quorum, "k")[1], "the end of the key where time passes")
    equal((shown(wrong), wrong.call("PTTL", "k"), stored(quorum, "k")[0]), (stands, 1, True),
          "time, PTTL and key")
    wrong.clock.jump(-HOUR)
    equal((shown(wrong), wrong.call("PTTL", "k")), (stands - HOUR, 3600001), "time and PTTL")
    wrong.clock.jump(HOUR)
    begun = ours()
    wrong.clock.slew(0)
    now = shown(wrong)
    check(stands <= now <= stands + ours() - begun + SLACK, f"{now - stands} us in one jump")
    lab.wait_for(lambda: not stored(quorum, "k")[0], "the end of the key")


@case("its rate changes many times while it is read: it never goes back")
def _(quorum):
    wrong = quorum[0]
    readings = []
    begun = ours()
    with lab.Redis(wrong.path) as redis:
        for _ in range(100):
            redis.socket.sendall(b"TIME\r\n" * 1000)  # it reads its clock as often as it can
            for ppm in (-1000000, 50000, -50000, 0) * 5:
                wrong.clock.slew(ppm)
            readings += [tuple(map(int, redis.read())) for _ in range(1000)]
    equal([pair for pair in zip(readings, readings[1:]) if pair[0] > pair[1]], [], "steps back")
    is_ahead(wrong, wrong.clock.shown_us() - ours())
    least, most = ahead(wrong)
    took = ours() - begun
    check(-took <= least and most <= took // 20 + 2 * SLACK, f"ahead by {least} to {most} us")


@case("a server that starts again has the same wrong clock")
def _(quorum):
    quorum[0].clock.jump(-HOUR)
    quorum.kill(0)
    quorum.start()
    is_ahead(quorum[0], -HOUR)


@case("every interface to the time of day is wrong, and no other clock is")
def _(quorum):
    clock = WrongClock(lab.temporary("clock"))
    for us in (HOUR, -HOUR, 0):
        clock.mend()
        clock.jump(us)
        begun = {name: time.clock_gettime_ns(getattr(time, "CLOCK_" + name)) // 1000
                 for name in ("REALTIME", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME")}
        there = look(clock)
        took = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 - begun["BOOTTIME"] + SLACK
        for name, at in there.items():
            true = name in begun and name != "REALTIME"
            from_us = begun[name] if true else begun["REALTIME"] + us
            steps = {"time": 1000000, "REALTIME_COARSE": 20000}.get(name, SLACK)
            check(-steps <= at - from_us <= took, f"{name}: {at - from_us} us in {took}")


@case("a suspended host's clocks without suspension lag; in a paused machine all do, timers too")
def _(quorum):
    stop = {"MONOTONIC", "MONOTONIC_RAW"}
    for clocks, wrong in (("suspended", stop), ("all", {*stop, "BOOTTIME", "REALTIME"})):
        clock = WrongClock(lab.temporary("clock"), clocks)
        clock.jump(-LAG)
        begun = {name: time.clock_gettime_ns(getattr(time, "CLOCK_" + name)) // 1000
                 for name in ("REALTIME", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME")}
        there = look(clock)
        took = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 - begun["BOOTTIME"] + SLACK
        for name, us in begun.items():
            lag = LAG if name in wrong else 0
            check(-SLACK <= there[name] - us + lag <= took, f"{clocks}: {name}: {there[name] - us} us")


@case("a program whose clock file cannot be read does not start")
def _(quorum):
    short = lab.write(lab.temporary("clock"), "short")
    for path, why in (("/nowhere/clock", "No such file"), (short, "has the wrong size")):
        env = {**WrongClock(lab.temporary("clock")).environment(), "CLOCK_SHIM_FILE": path}
        process = lab.spawn(["/bin/echo", "begun"], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=40)
        equal((process.returncode, out), (126, b""), "the end")
        lab.matches(err.decode(), f"clockshim: {path}: {why}", "stderr")


@case("redlock check finds the node whose clock is wrong, and by how much")
def _(quorum):
    with durable(wrong=[1]) as nodes:
        for us in (HOUR, -HOUR, 0):
            nodes[1].clock.mend()
            nodes[1].clock.jump(us)
            found = redlock("check", "--json", env=on(nodes)).expect(1 if us else 0).json()
            codes = [[one["code"] for one in node["findings"]] for node in found["nodes"]]
            equal(codes, [[], ["clock_off"] if us else [], []], "findings")
            node = found["nodes"][1]
            check(abs(node["offset_us"] - us) <= node["offset_err_us"] + SLACK, f"{node}")


@case("a clock that stands still from the start of its server costs that vote; check names it")
def _(quorum):
    with durable(wrong=[1]) as nodes:
        nodes[1].clock.freeze()
        nodes.kill(1)
        nodes.start()
        redlock("acquire", "-t", "1s", "k", env=on(nodes)).expect(0)  # and never released
        lab.wait_for(lambda: [value is None for value in nodes.values("k")] == [True, False, True],
                     "the end of the keys where time passes")
        redlock("run", "-n", "k", "true", env=on(nodes)).expect(0)
        found = redlock("check", "--json", env=on(nodes)).expect(1).json()
        codes = [[one["code"] for one in node["findings"]] for node in found["nodes"]]
        equal(codes, [[], ["clock_off"], []], "findings")


lab.main(servers=2, wrong=[0])

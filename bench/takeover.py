#!/usr/bin/env python3
"""How soon a lock has its next holder after the holder died, and without notifications:
takeover.py REDLOCK CONTENDER [--times N] [--seconds S]

First the holder is killed, with SIGKILL, some time after it got the lock; others wait. The
lock ends by its TTL: how much later does the next one hold it? Then 16 processes
contend without notifications: first their subscriptions are
closed repeatedly, then they have no right to subscribe. In each second the lock must change
its owner, and two must never hold it.
"""
import argparse
import os
import random
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from crowd import Crowd, judge_holds, lab  # noqa: E402

TTL_MS = 1000
WAITERS = 3
CROWD = 16
KILL_EVERY_S = 0.01
KEY = "contended"


# --- a holder dies ---

class Line:
    """Processes that wait for the lock, and hold it until they are killed."""

    def __init__(self, words, changes):
        self.words = words
        self.environment = lab.environment(changes)
        self.waiting = selectors.DefaultSelector()

    def enter(self):
        process = lab.spawn(self.words, env=self.environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, bufsize=0)
        # Without a buffer: there select() would not see the time that follows at once.
        lab.equal(process.stdout.readline(), b"ready\n", "what a waiter says")
        self.waiting.register(process.stdout, selectors.EVENT_READ, process)

    def next_holder(self):
        """(it, when it held); it is removed from the waiting processes."""
        found = self.waiting.select(lab.STATE_SECONDS)
        lab.equal(len(found), 1, f"how many hold the lock by {self.words}")
        process = found[0][0].data
        self.waiting.unregister(process.stdout)
        line = process.stdout.readline()
        lab.check(line, f"one that waited has ended: {self.words}")
        return process, int(line)

    def close(self):
        for key in list(self.waiting.get_map().values()):
            end(key.data)


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def ends_us(quorum):
    """When the nodes will have expired the dead holder's lock, by CLOCK_MONOTONIC."""
    time.sleep(0.02)  # its last commands are read by then
    offset = time.monotonic_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return quorum.expires_us(KEY) + offset // 1000


def kill_holders(contender, quorum, times):
    """How much later than the end of the TTL the next one held it, in ms."""
    line, late, holder = Line([contender, "-g", "-l", str(TTL_MS)], lab.on(quorum)), [], None
    try:
        for _ in range(WAITERS):
            line.enter()
        holder, _ = line.next_holder()
        for _ in range(times):
            line.enter()
            time.sleep(random.uniform(0.1, 1.1))
            end(holder)
            free = ends_us(quorum)
            holder, held = line.next_holder()
            late.append((held - free) / 1000)
    finally:
        line.close()
        if holder:
            end(holder)
    return sorted(late)


# --- no notifications ---

def cut_off(quorum, seconds):
    """Closes all subscriptions, for this time; returns how many there were."""
    until, closed = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for server in quorum.servers:
            closed += server.call("CLIENT", "KILL", "TYPE", "pubsub")
        time.sleep(KILL_EVERY_S)
    print(f"  {closed} subscriptions were closed")


def contend(what, contender, quorum, seconds, extra=None, meanwhile=time.sleep):
    """The lock changed its owner in each second."""
    print(f"{what}: changes of owner in each second", flush=True)
    with Crowd(contender, quorum, CROWD, [], extra) as crowd:
        logs = crowd.measure(seconds, meanwhile)
    judge_holds(logs)
    changes = [0] * int(seconds)
    for before, hold in zip(logs.seen, logs.seen[1:]):
        second = int((hold.granted - logs.begin) / 1e6)
        changes[min(second, len(changes) - 1)] += before.who != hold.who
    print("  " + " ".join(map(str, changes)))
    print(f"  {sum(changes)} changes among {len(logs.seen)} acquisitions", flush=True)
    lab.wait_for(lambda: not any(quorum.values(KEY)), "a free lock", 30)
    return all(changes)


def run(options):
    contender, passed = os.path.abspath(options.contender), True
    with lab.Quorum(5) as quorum:
        if options.times:
            late = kill_holders(contender, quorum, options.times)
            print(f"the holder is killed, {len(late)} times: the next one holds the lock p50 "
                  f"{statistics.median(late):.1f} ms, max {late[-1]:.1f} ms, min {late[0]:.1f} "
                  "ms after the end of the TTL", flush=True)
            lab.wait_for(lambda: not any(quorum.values(KEY)), "a free lock", 30)
        passed &= contend("subscriptions are closed again and again", contender, quorum,
                          options.seconds,
                          meanwhile=lambda seconds: cut_off(quorum, seconds))
        for server in quorum.servers:
            server.call("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all",
                        "resetchannels")
        passed &= contend("no right to any channel", contender, quorum, options.seconds,
                          {"REDLOCK_USERNAME": "deaf", "REDLOCK_PASSWORD": "secret"})
    return passed


def main():
    words = argparse.ArgumentParser(prog="./dev bench takeover")
    words.add_argument("redlock")
    words.add_argument("contender")
    words.add_argument("--times", type=int, default=20, help="that a holder is killed (20)")
    words.add_argument("--seconds", type=int, default=20, help="without notifications (20)")
    options = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lab.program = os.path.abspath(options.redlock)
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        try:
            if not run(options):
                sys.exit("takeover: there was a second without a change of owner")
        except lab.Failed as failure:
            sys.exit(f"takeover: {failure}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Many hosts whose clocks differ, one job per period: once.py REDLOCK CLOCKSHIM
[--seconds N] [--json FILE]

Fifty hosts call `redlock run --once-per` in the middle of each period, by their own clocks,
which are off by less than a quarter of it; three more are off by more. In some periods the
host that runs the job is killed in the middle of it. One job is run at most once, another
one with --retry; and one by `redlock run -n`, to see that the hosts would run it twice.
"""
import os
import pathlib
import random
import sys
import threading
import time

sys.dont_write_bytecode = True
import slow  # noqa: E402
import lab  # noqa: E402
from wrongclock import WrongClock  # noqa: E402

NODES, HOSTS, WRONG = 5, 50, 3
PERIOD_S, OFF_S, WRONG_S = 3, 0.7, 2
KILLED = 0.2  # the share of runs that are killed
JOBS = {"once": ("--durable", "--once-per", f"{PERIOD_S}s"),
        "retry": ("--durable", "--retry", "--once-per", f"{PERIOD_S}s"), "bare": ("-n",)}


class Host:
    def __init__(self, quorum, off_s, seed):
        self.random = random.Random(seed)
        self.clock = WrongClock(lab.temporary("clock"))
        self.clock.jump(int(off_s * 1e6))
        self.env = {**lab.on(quorum), **self.clock.environment()}
        self.codes = []
        self.until = None
        self.thread = threading.Thread(target=self.live)

    def now(self):
        return self.clock.shown_us() / 1e6

    def call(self, job, log):
        """The job notes its period and itself when it begins, and when it ends."""
        kills = self.random.random() < KILLED and job != "bare"
        victim = self.random.choice(("$PPID", "$redlock"))  # $PPID: its keeper
        script = f'echo "$REDLOCK_KEY" >> {log}.begun; read -r _ _ _ redlock _ < /proc/$PPID/stat; ' + (
            f"kill -9 {victim}; sleep 9" if kills else f'sleep 0.05; echo "$REDLOCK_KEY" >> {log}.done')
        return lab.start("run", "-q", *JOBS[job], job, "--", "sh", "-c", script, env=self.env)

    def live(self):
        while time.monotonic() < self.until:
            now = self.now()
            middle = (now // PERIOD_S + (now % PERIOD_S > 0.8)) * PERIOD_S + 1
            time.sleep(max(0, middle - now + self.random.uniform(0, 0.3)))
            for job in JOBS:
                self.codes.append((job, lab.finish(self.call(job, logs[job])).code))


def lines(path):
    return pathlib.Path(path).read_text().split() if os.path.exists(path) else []


def judge(hosts, wrong):
    """How often each period of a job was begun, and ended, without the first and the last."""
    found, targets = {}, {}
    for job in ("once", "retry"):
        begun, done = lines(f"{logs[job]}.begun"), lines(f"{logs[job]}.done")
        numbers = sorted({int(key.partition("@")[2]) for key in begun})
        whole = [f"{job}@{number}" for number in range(numbers[0] + 1, numbers[-1])]
        found |= {f"{job}_periods": len(whole),
                  f"{job}_never": sum(begun.count(key) == 0 for key in whole),
                  f"{job}_begun_twice": sum(begun.count(key) > 1 for key in whole),
                  f"{job}_succeeded": sum(done.count(key) > 0 for key in whole),
                  f"{job}_succeeded_twice": sum(done.count(key) > 1 for key in whole)}
    bare = len(lines(f"{logs['bare']}.done")) / max(1, found["once_periods"])
    refused = [code for host in wrong for job, code in host.codes if job != "bare"]
    found |= {"bare_per_period": bare, "refused": refused.count(78), "not_refused":
              len(refused) - refused.count(78),
              "fine_but_refused": sum(code == 78 for host in hosts for _, code in host.codes)}
    for name in ("once_never", "once_begun_twice", "retry_never", "retry_succeeded_twice",
                 "not_refused", "fine_but_refused"):
        targets[name] = found[name] == 0
    targets["retry_succeeded"] = found["retry_succeeded"] == found["retry_periods"]
    targets["once_succeeded"] = found["once_succeeded"] > found["once_periods"] / 2
    targets["bare_per_period"] = bare > 1
    return found, targets


def main():
    with lab.Quorum(NODES) as quorum:
        for job in JOBS:
            logs[job] = lab.temporary(job)
        draw = random.Random(1)
        hosts = [Host(quorum, draw.uniform(-OFF_S, OFF_S), i) for i in range(HOSTS)]
        wrong = [Host(quorum, draw.choice((-WRONG_S, WRONG_S)), HOSTS + i) for i in range(WRONG)]
        for host in (*hosts, *wrong):
            host.until = time.monotonic() + options.seconds
            host.thread.start()
        for host in (*hosts, *wrong):
            host.thread.join()
    found, targets = judge(hosts, wrong)
    return slow.tell(found, targets, options.json)


logs = {}
options = slow.arguments("once", 305, f"each period has {PERIOD_S}")
os.environ["CLOCK_SHIM"] = os.path.abspath(options.program)
lab.run(main)

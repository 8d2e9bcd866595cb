#!/usr/bin/env python3
"""Many processes that need the same lock: one at a time, and a cron job once."""
import os
import sys

import lab
from lab import case, check, equal, finish, on, redlock, start

# Reads, waits and writes: without a lock around it, counts get lost.
INCREMENT = """
import sys, time
with open(sys.argv[1]) as file: count = int(file.read())
time.sleep(0.001)
with open(sys.argv[1], "w") as file: file.write(str(count + 1))
"""


def together(quorum, count, *words, **more):
    """Starts `redlock words...` this many times, and returns the outcomes."""
    several = [start(*words, env=on(quorum), **more) for _ in range(count)]
    return [finish(process) for process in several]


def codes(outcomes):
    found = [outcome.code for outcome in outcomes]
    return {code: found.count(code) for code in set(found)}


@case("cron on 20 hosts: `run -n --at-least` runs the job once, the others exit with 75")
def _(quorum):
    for _ in range(3):
        quorum.reset()
        path = lab.temporary("ran")
        outcomes = together(quorum, 20, "run", "-n", "--at-least", "20s", "job", "--",
                            "sh", "-c", f"echo ran >> {path}")
        # Under contention the vote may be split so that no process wins: then cron's next
        # minute does. Never may two of them run.
        found = codes(outcomes)
        ran = lab.read(path).count("ran") if os.path.exists(path) else 0
        equal(ran, found.get(0, 0), "jobs that ran, and exit codes 0")
        check(ran <= 1 and found.get(0, 0) + found.get(75, 0) == 20, f"exit codes {found}")
        if not ran:
            lab.say("the vote was split")
        redlock("run", "-n", "--at-least", "20s", "job", "true", env=on(quorum)).expect(
            75 if ran else 0)


@case("cron with skewed clocks: `run -w --at-least` runs the job once in that time")
def _(quorum):
    path = lab.temporary("ran")
    outcomes = together(quorum, 20, "run", "-w", "2s", "--at-least", "60s", "job", "--",
                        "sh", "-c", f"echo ran >> {path}")
    equal(codes(outcomes), {0: 1, 75: 19}, "exit codes")
    equal(lab.read(path), "ran\n", "what ran")


@case("8 processes x 20 acquisitions of one lock: a counter that is not atomic ends exact")
def _(quorum):
    path = lab.write(lab.temporary("count"), "0")
    loop = f'for i in $(seq 20); do "$R" run -w 1h -t 60s --timeout 20s k -- "$P" -S -E -c "$S" {path} || exit; done'
    env = lab.environment(on(quorum, R=lab.program, P=sys.executable, S=INCREMENT))
    several = [lab.spawn(["sh", "-c", loop], env=env, stderr=lab.subprocess.PIPE)
               for _ in range(8)]
    for process in several:
        finish(process).expect(0, err="^$")
    equal(lab.read(path), "160", "count")
    equal(quorum.keys(), 0, "keys left behind")


@case("the same with two of five nodes dead")
def _(quorum):
    quorum.kill(1, 2)
    path = lab.write(lab.temporary("count"), "0")
    loop = f'for i in $(seq 5); do "$R" run -w 1h -t 60s --timeout 20s k -- "$P" -S -E -c "$S" {path} || exit; done'
    env = lab.environment(on(quorum, R=lab.program, P=sys.executable, S=INCREMENT))
    several = [lab.spawn(["sh", "-c", loop], env=env, stderr=lab.subprocess.PIPE)
               for _ in range(6)]
    for process in several:
        finish(process).expect(0, err="^$")
    equal(lab.read(path), "30", "count")
    equal(quorum.keys(), 0, "keys left behind")


@case("the test itself: without the lock counts get lost")
def _(quorum):
    path = lab.write(lab.temporary("count"), "0")
    several = [lab.spawn([sys.executable, "-S", "-E", "-c",
                          INCREMENT.replace("0.001", "2"), path]) for _ in range(4)]
    for process in several:
        equal(process.wait(lab.END_SECONDS), 0, "exit code")
    check(int(lab.read(path)) < 4, "a race that was not one")


@case("one after the other: twelve wait for a lock, and each gets it within its time")
def _(quorum):
    outcomes = together(quorum, 12, "run", "-w", "1h", "-t", "60s", "k", "sleep", "0.02")
    equal(codes(outcomes), {0: 12}, "exit codes")


@case("different keys do not conflict")
def _(quorum):
    several = [start("run", "-n", f"k{index}", "sleep", "0.3", env=on(quorum))
               for index in range(10)]
    equal(codes(map(finish, several)), {0: 10}, "exit codes")


@case("waiting processes that are killed leave nothing that blocks others")
def _(quorum):
    quorum.occupy("k", [0, 1, 2], ms=600000)
    before = quorum.attempts()
    several = [start("run", "-t", "2s", "k", "true", env=on(quorum)) for _ in range(6)]
    lab.wait_for(lambda: quorum.attempts() > before + 40, "attempts")
    for process in several:
        process.kill()
        process.communicate()
    for server in quorum.servers[:3]:
        server.call("DEL", "k")
    redlock("run", "-w", "20s", "k", "true", env=on(quorum)).expect(0)


lab.main()

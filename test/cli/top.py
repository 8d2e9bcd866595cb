#!/usr/bin/env python3
"""redlock top: all locks, live, on a terminal and without one."""
import json
import os
import re
import signal

import lab
from lab import PATIENT, case, check, equal, on, redlock, start
from terminal import Terminal

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?25h\x1b[?1049l"


def acquire(quorum, *words):
    redlock("acquire", *PATIENT, "-n", "-t", "10m", *words, env=on(quorum)).expect(0)


def top(quorum, *words):
    return Terminal([lab.program, "top", *PATIENT, "--every", "50ms", *words], on(quorum))


def stops(terminal):
    lab.wait_for(lambda: terminal.pull(0.02) or lab.state(terminal.process.pid) == "T",
                 "a process that is stopped")
    lab.wait_for(lambda: lab.state(terminal.process.pid) == "T", "a process that is stopped")


@case("it redraws the screen, and leaves it as it was at Ctrl-C")
def _(quorum):
    acquire(quorum, "first")
    with top(quorum) as terminal:
        terminal.expect("(?s)" + re.escape(ENTER) + r".*redlock top: 1 locks.*first +0 +9 min \d+ s +5/5 ")
        acquire(quorum, "second")
        terminal.expect(r"\x1b\[Hredlock top: 2 locks")
        terminal.seen = ""
        terminal.type("\x03")
        terminal.end(130)
        while terminal.pull(0.02):
            pass
        check(terminal.seen.endswith(LEAVE), repr(terminal.seen[-40:]))


@case("it shows as much as fits, also after a change of the size")
def _(quorum):
    for index in range(30):
        acquire(quorum, f"job:{index:02}")
    with top(quorum, "--sort", "key") as terminal:
        terminal.resize(10, 40)
        terminal.expect(r"\x1b\[H(?=redlock top)")
        terminal.seen = ""
        found = terminal.expect(r"(?s)\x1b\[Hredlock top: 30 locks((?:(?!\x1b\[H).)*)\x1b\[J")[1]
        lines = re.split(r"\x1b\[K\n?", "redlock top: 30 locks" + found)
        equal((len(lines) - 1, max(map(len, lines))), (10, 40), "rows and columns")
        check("job:06" in found and "job:07" not in found, found)
        terminal.resize(8, 60)
        terminal.expect(r"(?s)job:04(?:(?!job:05).)*\x1b\[J")
        terminal.type("\x03")
        terminal.end(130)


@case("Ctrl-Z gives the screen back, and fg takes it again")
def _(quorum):
    acquire(quorum, "k")
    with top(quorum) as terminal:
        terminal.expect("1 locks")
        terminal.seen = ""
        terminal.type("\x1a")
        stops(terminal)
        while terminal.pull(0.02):
            pass
        check(terminal.seen.endswith(LEAVE), repr(terminal.seen[-40:]))
        terminal.seen = ""
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.expect("(?s)" + re.escape(ENTER) + ".*1 locks")
        terminal.type("\x03")
        terminal.end(130)


@case("without a terminal it prints tables, or JSON, until a signal; the age counts a holder")
def _(quorum):
    acquire(quorum, "a")
    acquire(quorum, "--and", "c", "b")
    waiter = start("run", *PATIENT, "a", "--", "true", env=on(quorum))
    process = start("top", *PATIENT, "--every", "20ms", "--json", env=on(quorum))
    seen = {}
    for line in process.stdout:
        row = json.loads(line)
        seen.setdefault(row["key"], []).append(row)
        if len(seen.get("a", [])) > 3 and seen["a"][-1]["waiting"] == 1:
            break
    equal(set(seen), {"a", "b, c"}, "keys")
    ages = [row["age_ms"] for row in seen["a"]]
    equal(ages, sorted(ages), "ages")
    process.terminate()
    process.stdout.read()
    equal(lab.finish(process).code, 143, "exit code")
    waiter.terminate()
    lab.finish(waiter).expect(143)
    process = start("top", *PATIENT, "--every", "20ms", "--sort", "left", env=on(quorum))
    lab.matches(process.stdout.readline().decode(), "redlock top: 2 locks", "the first line")
    process.terminate()
    process.stdout.read()
    equal(lab.finish(process).code, 143, "exit code")


@case("too few nodes, and bad options")
def _(quorum):
    redlock("top", "--sort", "size", env=on(quorum)).expect(64, err="--sort")
    redlock("top", "x" * 513, env=on(quorum)).expect(64, err="prefix")
    quorum.kill(0, 1, 2)
    redlock("top", *PATIENT, env=on(quorum)).expect(69)


lab.main()

#!/usr/bin/env python3
"""redlock top: all locks, live, on a terminal and without one."""
import json
import os
import re
import signal
import termios

import lab
from lab import PATIENT, case, check, equal, on, redlock, start
from terminal import Terminal

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?25h\x1b[?1049l"


def acquire(quorum, *words):
    redlock("acquire", *PATIENT, "-n", "-t", "10m", *words, env=on(quorum)).expect(0)


def top(quorum, *words):
    return Terminal([lab.program, "top", *PATIENT, "--every", "100ms", *words], on(quorum))


def stops(terminal):
    lab.wait_for(lambda: terminal.pull(0.02) or lab.state(terminal.process.pid) == "T",
                 "a process that is stopped")
    lab.wait_for(lambda: lab.state(terminal.process.pid) == "T", "a process that is stopped")


@case("it redraws the screen, and leaves it as it was at Ctrl-C")
def _(quorum):
    acquire(quorum, "first")
    with top(quorum) as terminal:
        terminal.expect("(?s)" + re.escape(ENTER) + r".*redlock top: 1 locks.*first +\S+:\d+ +\d\S* m?s +0 +9 min ")
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
    process = start("top", *PATIENT, "--every", "100ms", "--json", env=on(quorum))
    seen = {}
    for line in process.stdout:
        row = json.loads(line)
        seen.setdefault(row["key"], []).append(row)
        if len(seen.get("a", [])) > 3 and seen["a"][-1]["waiting"] == 1:
            break
    equal(set(seen), {"a", "b"}, "keys")
    equal(seen["b"][0]["keys"], ["b", "c"], "the keys of a set")
    ages = [row["age_ms"] for row in seen["a"]]
    equal(ages, sorted(ages), "ages")
    process.terminate()
    process.stdout.read()
    equal(lab.finish(process).code, 143, "exit code")
    waiter.terminate()
    lab.finish(waiter).expect(143)
    process = start("top", *PATIENT, "--every", "100ms", "--sort", "left", env=on(quorum))
    lab.matches(process.stdout.readline().decode(), "redlock top: 2 locks", "the first line")
    process.terminate()
    process.stdout.read()
    equal(lab.finish(process).code, 143, "exit code")


@case("q ends it, also after Ctrl-Z; without a terminal for input it does not matter")
def _(quorum):
    acquire(quorum, "k")
    with top(quorum) as terminal:
        terminal.expect("1 locks")
        terminal.type("\x1a")
        stops(terminal)
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.expect("(?s)" + re.escape(ENTER) + ".*1 locks")
        terminal.type("q")
        terminal.end(0)
        check(termios.tcgetattr(terminal.master)[3] & termios.ECHO, "the terminal does not echo")


@case("a narrow terminal shows holders; keys are cut")
def _(quorum):
    acquire(quorum, "job:" + "x" * 100)
    with top(quorum) as terminal:
        terminal.resize(10, 60)
        terminal.expect(r"job:x{17}  \S+:\d+")
        terminal.type("q")
        terminal.end(0)


@case("too few nodes, and bad options")
def _(quorum):
    redlock("top", "--every", "0", env=on(quorum)).expect(64, err="--every")
    redlock("top", "--sort", "size", env=on(quorum)).expect(64, err="--sort")
    redlock("top", "x" * 513, env=on(quorum)).expect(64, err="prefix")
    quorum.kill(0, 1, 2)
    redlock("top", *PATIENT, env=on(quorum)).expect(69)


lab.main()

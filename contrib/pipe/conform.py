#!/usr/bin/env python3
"""Judges a wrapper of `redlock pipe` by its driver: conform.py [--only NAME] DRIVER [ARG]...

Each case starts the driver with kit.py as its `redlock` and some steps as arguments, and
compares the lines that the two write into one file with what the case needs. README.md has the
steps, the lines, and the rule behind each case. TAP; exit code 1 if a case failed.
"""
import concurrent.futures
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

KIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kit.py")
DRIVER_S = 25  # a driver that needs more hangs
AT_A_TIME = 10  # they wait most of the time


@dataclasses.dataclass
class Case:
    scenario: str
    steps: str
    needs: list       # patterns of lines, in this order
    never: str = "$^"  # no line is so
    also: list = dataclasses.field(default_factory=list)  # patterns of lines, anywhere
    kills: bool = False  # the driver, when it has started its child

    @property
    def name(self):
        return re.sub(r"m{9,}", "m", f"{self.scenario} {self.steps}")


GOOD = ["pipe1 start", "pipe1 lock a", "a held 7", "a returned valid", "pipe1 unlock 1",
        "a released"]
LOST = ["a aborted", "a returned invalid", "a failed"]
NEW_PIPE = ["a held", *LOST, "pipe2 start", "b held", "b returned valid", "pipe2 unlock",
            "b released"]
REFUSED = ["a failed"]

CASES = [
    Case("good", "hold:a:3000 hold:b:0", GOOD + ["b held", "b released"], "a aborted|pipe2"),
    Case("good", f"many:{'m' * 50}:100", ["m+ many 100"], "pipe2"),
    Case("good", "child:a:60000", ["a held", "pipe1 eof"], kills=True),
    Case("late", "hold:a:3000", ["a (aborted|failed)"], "a returned valid", ["pipe1 unlock 1"]),
    Case("silent", "hold:a:60000", ["a held", "pipe1 near", "a aborted EXPIRED",
                                    "a returned invalid", "pipe1 unlock 1", "pipe1 exit", "a failed"]),
    Case("revive", "hold:a:60000", ["a held", "a aborted", "pipe1 until 1", "a returned invalid",
                                    "pipe1 unlock 1", "a failed"]),
    Case("lost", "hold:a:60000", ["a held", "pipe1 lost", "a aborted GONE", "a returned invalid",
                                  "pipe1 unlock 1", "a failed"]),
    Case("lost-other", "hold:a:60000,hold:b:3000", ["a aborted GONE", *LOST[1:]], "b aborted",
         ["b returned valid", "b released"]),
    Case("cut", "hold:a:3000 hold:b:0", GOOD + ["b failed TAKEN .*hôte"], "a aborted|pipe2"),
    Case("dead", "hold:a:100", REFUSED, "a held"),
    Case("absent", "hold:a:100", REFUSED, "a held"),
    Case("dead-held", "hold:a:60000 hold:b:100", NEW_PIPE, "pipe1 unlock|b aborted"),
    Case("half-line", "hold:a:60000 hold:b:100", NEW_PIPE, "pipe1 unlock|b aborted"),
    Case("bad-line", "hold:a:60000 hold:b:100", NEW_PIPE, "b aborted"),
    Case("full", f"hold:a:60000,many:{'m' * 1000}:400",  # more than a pipe or a socket buffers
         ["a held", "a aborted", "a returned invalid", "pipe1 exit"],
         also=["a failed", "m+ many 0"]),
    Case("deaf", "hold:a:300", ["a held", "a returned", "a (failed|released)"]),
    Case("unknown", "hold:a:3000", GOOD, "a aborted|pipe2"),
    Case("schema", "hold:a:0", REFUSED, "a held|pipe1 lock"),
    Case("error", "hold:a:0", ["a failed .*no nodes"], "a held"),
    Case("clock-ahead", "hold:a:0", REFUSED, "a held|pipe1 lock"),
    Case("clock-behind", "hold:a:0", REFUSED, "a held|pipe1 lock"),
    Case("burst", "hold:a:3000", GOOD, "a aborted"),
    Case("stopped", "hold:a:3000,hold:b:60000",
         ["pipe1 continue", "b aborted EXPIRED", "b returned invalid"], "a aborted",
         ["a returned valid", "a released", "b failed"]),
    Case("taken", "hold:a:0", ["a failed TAKEN"], "a held"),
    Case("cancel", "hold:b:0 cancel:a:200 hold:c:0",
         ["b released", "pipe1 lock a", "pipe1 cancel", "c released"], "a held", ["a failed"]),
    Case("cross", "hold:b:0 cancel:a:200 hold:c:300",
         ["b released", "pipe1 cancel", "pipe1 granted 2", "pipe1 unlock 2", "c released"],
         "a held", ["a failed"]),
    Case("large", "hold:a:0", ["a held 9007199254740991", "pipe1 unlock 9007199254740991",
                               "a released"]),
    Case("extend", "extend:a:3000", ["a held", "pipe1 extend 1", "a extended", "a returned valid",
                                     "pipe1 unlock 1", "a released"], "a aborted"),
    Case("not-extended", "extend:a:300", ["a held", "a not-extended NO_QUORUM", "a returned valid",
                                          "a released"]),
    Case("not-extended", "extend:a:60000", ["a held", "a not-extended", "a aborted EXPIRED",
                                            "a returned invalid", "pipe1 unlock 1", "a failed"]),
    Case("gone", "hold:a:0", ["a returned valid", "pipe1 unlock 1", "a failed GONE"]),
    Case("unconfirmed", "hold:a:0", ["a returned valid", "pipe1 unlock 1", "a (released|failed)"]),
]


def missing(patterns, lines):
    """The first pattern that no line matches after those of the patterns before it."""
    rest = iter(lines)
    return next((pattern for pattern in patterns
                 if not any(re.match(pattern + r"\b", line) for line in rest)), None)


def judge(case, lines, code):
    """None, or what is wrong."""
    if code is None:
        return f"the driver has not ended after {DRIVER_S} s"
    if code != (-signal.SIGKILL if case.kills else 0):
        return f"the driver's exit code is {code}"
    never = rf"(pipe\d+ bad|{case.never})\b"
    if found := next((line for line in lines if re.match(never, line)), None):
        return f"not allowed: {found}"
    if pattern := missing(case.needs, lines) or next(
            (pattern for pattern in case.also if missing([pattern], lines)), None):
        return f"missing, or in another order: {pattern}"
    return None


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def kill_with_child(driver, path):
    """The pipe must see the end of a killed driver while a child of the driver still runs."""
    limit = time.monotonic() + DRIVER_S
    while not (child := re.search(r"^a child (\d+)$", read(path), re.MULTILINE)):
        if time.monotonic() > limit or driver.poll() is not None:
            return
        time.sleep(0.01)
    driver.kill()
    while "pipe1 eof" not in read(path) and time.monotonic() < limit:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(child.group(1)), signal.SIGKILL)


def run(case, command):
    """(case, what is wrong or None, the lines of driver and kit, what is on its stderr)."""
    with tempfile.TemporaryDirectory(prefix="redlock-kit-") as folder:
        path = os.path.join(folder, "log")
        kit = KIT if case.scenario != "absent" else os.path.join(folder, "no-redlock")
        with open(path, "a") as log, open(os.path.join(folder, "errors"), "w+") as errors:
            driver = subprocess.Popen(
                command + case.steps.split(), stdin=subprocess.DEVNULL, stdout=log, stderr=errors,
                env=dict(os.environ, REDLOCK_COMMAND=kit, REDLOCK_KIT=case.scenario,
                         REDLOCK_KIT_LOG=path))
            try:
                if case.kills:
                    kill_with_child(driver, path)
                code = driver.wait(DRIVER_S)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                driver.kill()
                driver.wait()
            errors.seek(0)
            said = errors.read()
        lines = read(path).splitlines()
        return case, judge(case, lines, code), lines, said


def main():
    command, only = sys.argv[1:], None
    if command[:1] == ["--only"]:
        only, command = command[1], command[2:]
    if not command:
        sys.exit(__doc__)
    cases = [case for case in CASES if only in (None, case.scenario)]
    print(f"1..{len(cases)}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for number, (case, wrong, lines, said) in enumerate(
                pool.map(lambda case: run(case, command), cases), 1):
            print("not ok" if wrong else "ok", number, "-", case.name, flush=True)
            if wrong:
                failed += 1
                print("\n".join("# " + line[:200] for line in (wrong, *lines, *said.splitlines())))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that a lane finds planted mistakes: bite.py BUILD sanitizers|valgrind

Runs the tests of planted.c as `meson test --setup` runs all others. Each planted mistake must
make its test fail, and the report must name the mistake and its function. The test without
a mistake must pass: criterion's own leak is suppressed. Prints "passed failed".
"""
import json
import os
import re
import subprocess
import sys

LOGBASE = "bite"

# What the report contains, and where; None: the lane does not look for such mistakes.
FOUND = {
    "sanitizers": {
        "nothing": None,
        "leak": r"LeakSanitizer.*\bplanted_leak\b",
        "overflow": r"AddressSanitizer: heap-buffer-overflow.*\bplanted_overflow\b",
        "undefined": r"runtime error: signed integer overflow.*\bplanted_undefined\b",
    },
    "valgrind": {
        "nothing": None,
        "leak": r"definitely lost.*\bplanted_leak\b",
        "overflow": r"Invalid write.*\bplanted_overflow\b",
        "undefined": None,
    },
}


def results(build, lane):
    """Of each planted test: its result and what it wrote to stderr."""
    log = os.path.join(build, "meson-logs", f"{LOGBASE}-{lane}.json")
    if os.path.exists(log):
        os.remove(log)
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--quiet", "--suite", "planted",
                    "--setup", lane, "--logbase", LOGBASE],
                   stdout=subprocess.DEVNULL, check=False)
    with open(log, encoding="utf-8") as lines:
        runs = [json.loads(line) for line in lines]
    return {re.search(r"planted-(\w+)$", run["name"])[1]: (run["result"], run.get("stderr", ""))
            for run in runs}


def mistake(pattern, result, complaint):
    """What is wrong with the lane, or None."""
    if pattern is None:
        return None if result == "OK" else f"{result} without a planted mistake:\n{complaint}"
    if result == "OK" or result == "SKIP":
        return f"the lane does not notice it: {result}"
    if not re.search(pattern, complaint, re.DOTALL):
        return f"the complaint does not name it:\n{complaint}"
    if "criterion_handle_args" in complaint:
        return f"what criterion loses is not suppressed:\n{complaint}"
    return None


def main(build, lane):
    got = results(build, lane)
    failed = 0
    for name, pattern in FOUND[lane].items():
        wrong = mistake(pattern, *got.get(name, ("not run", "")))
        failed += wrong is not None
        print(f"{lane}: planted {name}: {wrong or 'ok'}", file=sys.stderr)
    print(len(FOUND[lane]) - failed, failed)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

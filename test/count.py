#!/usr/bin/env python3
"""Counts the tests of one `meson test`: count.py LOGS prints "passed failed".

LOGS is the folder of its logs. Their names contain the run's --setup, so exactly one of each
sort must be there: remove those of earlier runs first. A program that failed although all its
cases passed, as under watched.py, counts as one failed test.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as tree

GOOD = {"OK", "SKIP", "EXPECTEDFAIL"}


def the_only(folder, pattern):
    found = sorted(pathlib.Path(folder).glob(pattern))
    if len(found) != 1:
        sys.exit(f"count.py: {len(found)} files are {folder}/{pattern}, there must be one")
    return found[0]


def cases_by_program(path):
    """The TAP cases of each program, as True: passed, False: failed, None: skipped."""
    cases = {}
    for case in tree.parse(path).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        passed = None if case.find("skipped") is not None else not bad
        # PROJECT.NAME for the cases of a program; its NAME depends on meson's release.
        cases.setdefault(case.get("classname").partition(".")[2], []).append(passed)
    return cases


def count(cases, result):
    """The result of a program with these cases. A program without cases counts by its result."""
    failed = cases.count(False)
    if result not in GOOD:
        return cases.count(True), max(failed, 1)
    return (cases.count(True) if cases else int(result != "SKIP")), failed


def main(folder):
    cases = cases_by_program(the_only(folder, "testlog*.junit.xml"))
    passed = failed = 0
    with open(the_only(folder, "testlog*.json"), encoding="utf-8") as runs:
        for run in map(json.loads, runs):
            good, bad = count(cases.get(run["name"], []), run["result"])
            passed += good
            failed += bad
    print(passed, failed)


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""How many instructions a cycle takes: instructions.py BUILD [--json FILE] [--cycles N]

The floor and libredlock run under callgrind on five private servers, each once with N cycles
and once with 3 N; the difference, over 2 N, is the cost of one cycle, without start and end.
Only the program's own instructions count, not the kernel's. Under valgrind a program is far
slower than its servers, so that it reads more replies at once than normally.
"""
import collections
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

MANY = 64
TOP = 15
TRIES = 5


def one_run(quorum, name, words, lanes, cycles):
    """Callgrind's output about a lap without failures, not yet evaluated."""
    for _ in range(TRIES):
        path = lab.temporary("profile")
        racer = race.Racer(name, [
            "valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={path}",
            "--toggle-collect=lap_end*", "--collect-atstart=yes", *words], quorum)
        lap = racer.lap(lanes, f"{cycles}c")
        racer.finish()
        if lap["failed"] == 0:
            return path
    raise lab.Failed(f"{name} fails again and again with {lanes} in flight")


def functions(path):
    """{function: its own instructions} of a profile."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", path], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = collections.Counter()
    for count, name, library in re.findall(
            r"^ *([\d,]+) \([\d. ]+%\)  (.+?)(?: \[(?:.*/)?(.*)\])?$", text, re.M):
        name = " of ".join(filter(None, (name.rpartition(":")[2], library)))
        found[name] += int(count.replace(",", ""))
    return found


def measure(options, quorum, name, words, lanes):
    """{function: instructions in one cycle}, and "PROGRAM TOTALS"."""
    few, many = (functions(one_run(quorum, name, words, lanes, cycles))
                 for cycles in (options.cycles, 3 * options.cycles))
    return {name: (many[name] - few[name]) / (2 * options.cycles) for name in many}


def show(name, found):
    total = found.pop("PROGRAM TOTALS")
    print(f"\n{name}: {total:.0f} instructions in a cycle")
    for function in sorted(found, key=found.get, reverse=True)[:TOP]:
        print(f"{found[function]:10.1f}  {found[function] / total:6.1%}  {function}")
    return total


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    contenders = {"floor": [build / "bench/floor"],
                  "async": [build / "bench/cycle", "async", race.PATIENT]}
    figures = {}
    with lab.Quorum(5) as quorum:
        for lanes in (1, MANY):
            for name, words in contenders.items():
                entry = f"{name}_c{lanes}"
                figures[entry] = show(entry, measure(options, quorum, name, words,
                                                     lanes))
    print()
    for lanes in (1, MANY):
        ours, floor = figures[f"async_c{lanes}"], figures[f"floor_c{lanes}"]
        print(f"{lanes} in flight: {ours:.0f}, the floor {floor:.0f}: x {ours / floor:.2f}")
    race.write_json(options.json, figures)
    return 0


if __name__ == "__main__":
    race.main(run, "instructions", race.arguments_of_counts("instructions", 3000).parse_args())

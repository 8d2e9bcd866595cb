#!/usr/bin/env python3
"""coverage.py BUILD: the branches of the library that the simulator takes.

BUILD was built with coverage, and only the simulator has run. At least 85 % of the branches
must be taken, and every line of it is printed that has a branch which was not. Assertions are
left out: none of them may fail. Not counted: sync/, cli/ and io/, which it does not run.
"""
import collections
import json
import subprocess
import sys

LEAST = 85
ROOMS = ("core", "base", "net", "client", "lease", "admin")


def measure(build):
    run = subprocess.run(
        ["gcovr", "--root", ".", "--filter", f"src/({'|'.join(ROOMS)})/", "--branches", "--json",
         "--exclude-branches-by-pattern", r".*assert\(.*", build],
        check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)["files"]


def main(build):
    taken, total = collections.Counter(), collections.Counter()
    for file in measure(build):
        room = file["file"].split("/")[1]
        with open(file["file"], encoding="utf-8") as text:
            source = text.read().split("\n")
        for line in file["lines"]:
            counts = [branch["count"] for branch in line.get("branches", [])]
            total[room] += len(counts)
            taken[room] += sum(count > 0 for count in counts)
            if 0 in counts:
                print(f"{file['file']}:{line['line_number']}: {counts.count(0)} not taken: "
                      f"{source[line['line_number'] - 1].strip()}")
    for room in ROOMS:
        print(f"{taken[room]} of {total[room]} branches of src/{room}: "
              f"{100 * taken[room] / max(total[room], 1):.1f} %")
    percent = 100 * taken.total() / max(total.total(), 1)
    print(f"{taken.total()} of {total.total()} branches: {percent:.1f} %")
    return 0 if percent >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

#!/usr/bin/env python3
"""coverage.py BUILD: the branches of src/core that stories and simulator take.

BUILD was built with coverage, and has run. At least 95 % must be taken, and each line with
a branch that was not must stand below, with the reason; so must no other. Assertions are
left out: none of them may fail.
"""
import json
import subprocess
import sys

LEAST = 95

ENUMS = "the enumeration has no further value"
REASONS = {
    ("fault.c", "return i == len || text[i] == ' ';"): "no error of the model is a prefix of another",
    ("fault.c", "return fault < RL_FAULT_COUNT ? faults[fault].name : \"?\";"): "names are for people",
    ("fault.c", "return fault < RL_FAULT_COUNT ? faults[fault].text : \"?\";"): "there is no such fault",
    ("fence.c", "for (unsigned i = 0; i < n; i++)"): "who says a fence has greeted a node",
    ("lease.c", "switch (event->text) {"): ENUMS,
    ("lease.c", "switch (event->type) {"): ENUMS,
    ("lease_acquire.c", "switch (rl_round_result(&lease->round, lease->terms.q)) {"): ENUMS,
    ("lease_acquire.c", "if (cause == RL_CAUSE_CANCELLED || !lease->round.waiting)"):
        "the node that decides fails while others are connected",
    ("lease_acquire.c", "if (rl_lease_majority_is_gone(lease))"):
        "rare: a node that granted restarts while two others have yet to answer",
    ("lease_hold.c", "switch (late && result == RL_WON ? RL_LOST : result) {"):
        ENUMS + "; what is late was waited for by nobody, so it is lost or won",
    ("lease_hold.c", "return lease->decided || !lease->round.waiting;"):
        "a round that nobody is waited for is decided",
    ("lease_hold.c", "if (lease->state != RL_LEASE_HELD && lease->state != RL_LEASE_LOST)"):
        "a user disowns what it holds or has lost",
    ("lease_release.c", "switch (lease->state) {"): "a lease that was made is started at once",
    ("link.c", "switch (link->state) {"): ENUMS,
    ("link.c", "switch (event->type) {"): ENUMS,
    ("retry.c", "switch (retry->kind) {"): ENUMS,
    ("types.h", "return n >= RL_NODES_MAX ? UINT32_MAX : rl_bit(n) - 1;"): "there are five nodes",
}


def measure(build):
    run = subprocess.run(
        ["gcovr", "--root", ".", "--filter", "src/core/", "--branches", "--json",
         "--exclude-branches-by-pattern", r".*assert\(.*", build],
        check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)["files"]


def missed_lines(file, source):
    for line in file["lines"]:
        branches = line.get("branches", [])
        missed = sum(1 for branch in branches if branch["count"] == 0)
        if missed:
            yield line["line_number"], source[line["line_number"] - 1].strip(), missed


def main(build):
    taken = total = 0
    unexplained = set()
    explained = set()
    for file in measure(build):
        counts = [b["count"] for line in file["lines"] for b in line.get("branches", [])]
        total += len(counts)
        taken += sum(1 for count in counts if count > 0)
        with open(file["file"], encoding="utf-8") as text:
            source = text.read().split("\n")
        name = file["file"].rsplit("/", 1)[-1]
        for number, line, missed in missed_lines(file, source):
            reason = REASONS.get((name, line))
            (explained if reason else unexplained).add((name, line))
            print(f"{name}:{number}: {missed} not taken: {reason or 'NO REASON IS GIVEN'}\n    {line}")
    for name, line in sorted(set(REASONS) - explained):
        print(f"{name}: taken by now: {line}")
    percent = 100 * taken / max(total, 1)
    print(f"{taken} of {total} branches of src/core: {percent:.1f} %")
    return 0 if percent >= LEAST and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

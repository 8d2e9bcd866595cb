#!/usr/bin/env python3
"""Breaks each rule of docs/safety.md in a copy of one source, and sees the simulator find it.

mutate.py BUILD_DIR [--json FILE] [--only NAME] [--seeds N] [--tap]

The mutations are in mutations.toml. One is found if the simulator that has it breaks an
invariant that the mutation names, at some seed; and the one that does not have it passes up
to there. An assertion of the core that fails is no find: users may build without.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import mutations as table
import recipe


# --- playing ---

def play(program, seeds, first=1):
    """Until the first seed that breaks something: (seed, invariant), or (None, why not)."""
    words = [program, "--seeds", str(seeds), "--from", str(first), "--stop"]
    limit = 60 + seeds / 30  # a tenth of the usual speed
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, f"did not end in {limit:.0f} s"
    found = re.search(r"^seed (\d+): (\w+)", done.stdout, re.MULTILINE)
    if found:
        return int(found[1]), found[2]
    return None, "nothing" if done.returncode == 0 else f"ended by {done.returncode}"


LIMIT = 300  # seconds to shorten a run that breaks


def shortens(program, seed, what):
    """The simulator tells a shorter run than `seed` that breaks the same."""
    try:
        whole = subprocess.run([program, "--seed", str(seed)], capture_output=True, text=True,
                               timeout=LIMIT).stdout
        told = re.search(r"^the shortest .*\n +\S+ sim (--seed \d+ .*) --trace$", whole, re.MULTILINE)
        again = told and subprocess.run([program, *told[1].split()], capture_output=True,
                                        text=True, timeout=LIMIT).stdout
    except subprocess.TimeoutExpired:
        return False
    return bool(again) and re.search(rf"^seed {seed}: {what}\b", again, re.MULTILINE) is not None


TESTED = 16  # as a test, about: it may not take long
OTHERS_MAX = 20  # seeds that break something that the mutation does not name


def play_until(program, seeds, breaks):
    """Runs until one of `breaks`: what else a mutation breaks may be broken sooner."""
    first, others = 1, []
    while True:
        seed, what = play(program, seeds + 1 - first, first)
        if not seed or what in breaks or len(others) == OTHERS_MAX or seed >= seeds:
            break
        others.append(what)
        first = seed + 1
    if not seed and others:
        what = f"{what} after {len(others)} by {', '.join(sorted(set(others)))}"
    return seed, what


class Control:
    """The simulator as it is: asked no seed twice."""

    def __init__(self, program):
        self.program, self.passed, self.broken = program, 0, None
        self.lock = threading.Lock()

    def passes(self, seed):
        with self.lock:
            if not self.broken and seed > self.passed:
                broken, what = play(self.program, seed - self.passed, self.passed + 1)
                if broken or what != "nothing":
                    self.broken = (broken or self.passed + 1, what)
                self.passed = seed
            return not self.broken or seed < self.broken[0]


def embed(mutation, folder):
    """A folder with scripts.h, made of the scripts in lua/ with the mutation in one."""
    scripts = folder / "lua"
    shutil.copytree(recipe.ROOT / "lua", scripts)
    (scripts / mutation["source"].name).write_text(mutation["text"])
    whole = [path for path in sorted(scripts.glob("*.lua"))
             if not path.read_text().startswith("-- part")]
    recipe.run([sys.executable, recipe.ROOT / "lua/embed.py", folder / "scripts.h", *whole], folder)
    return folder


class Workshop:
    def __init__(self, build, folder, seeds):
        self.build = build
        self.units = {unit.source: unit for unit in recipe.units(build)}
        self.folder = pathlib.Path(folder)
        self.seeds = seeds
        self.control = Control(pathlib.Path(build).resolve() / "test/sim/sim")

    def users_of_scripts(self):
        return [unit for unit in self.units.values()
                if '#include "scripts.h"' in unit.source.read_text()]

    def make(self, mutation, name):
        folder = self.folder / name
        folder.mkdir()
        source = mutation["source"]
        if source.suffix == ".lua":
            changed = {unit: (unit.source, [embed(mutation, folder)])
                       for unit in self.users_of_scripts()}
        elif source in self.units:
            (folder / source.name).write_text(mutation["text"])
            changed = {self.units[source]: (folder / source.name, [])}
        else:
            table.fail(mutation, f"the simulator is not made of {source}")
        objects = [unit.object for unit in self.units.values() if unit not in changed]
        for number, (unit, (copy, first)) in enumerate(changed.items()):
            objects.append(folder / f"{number}.o")
            unit.compile(copy, objects[-1], flags=[*unit.flags, "-w"], first=first)
        recipe.link(unit.compiler, unit.flags, objects, folder / "sim", self.build)
        return folder / "sim"

    def judge(self, numbered):
        number, mutation = numbered
        row = {"rule": mutation["rule"], "mutation": mutation["name"], "invariant": None,
               "seed": None, "seeds_tried": 0, "found": False, "why": None}
        try:
            program = self.make(mutation, f"mutant-{number}")
        except SystemExit as failed:
            row["why"] = f"it cannot be built: {failed}"
            return row
        seed, what = play_until(program, self.seeds, mutation["breaks"])
        row["seed"], row["seeds_tried"] = seed, seed or self.seeds
        if not seed:
            row["why"] = f"not found: {what}"
            return row
        row["invariant"] = what
        if what not in mutation["breaks"]:
            row["why"] = f"found by {what}, not by {' or '.join(mutation['breaks'])}"
        elif not self.control.passes(seed):
            row["why"] = "without the mutation seed %d: %s" % self.control.broken
        elif number == 1 and not shortens(program, seed, what):
            row["why"] = f"seed {seed} cannot be shortened"
        else:
            row["found"] = True
        return row


# --- telling ---

def print_line(width, *words):
    print("{:<10} {:<{}} {:<9} {:>6} {:>6}".format(words[0], words[1], width, *words[2:]),
          flush=True)


def print_row(width, row):
    print_line(width, row["rule"], row["mutation"], row["invariant"] or "-", row["seed"] or "-",
               row["seeds_tried"])
    if row["why"]:
        print(f"    {row['why']}", flush=True)


def print_tap(number, row):
    print(f"{'ok' if row['found'] else 'not ok'} {number} - {row['rule']}: {row['mutation']}: "
          f"{row['why'] or row['invariant'] + ' at seed ' + str(row['seed'])}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="mutate.py")
    parser.add_argument("build")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", metavar="NAME", help="those whose rule, or name, contains this")
    parser.add_argument("--seeds", type=int, default=6000)
    parser.add_argument("--tap", action="store_true", help="as a test: some of those that are not rare")
    return parser.parse_args()


def main():
    asked = arguments()
    mutations = [one for one in table.read_table()
                 if (asked.only or "") in f"{one['rule']}: {one['name']}" and not (asked.tap and one["rare"])]
    if not mutations:
        raise SystemExit(f"no mutation is named {asked.only}")
    if asked.tap:
        mutations = mutations[::max(1, len(mutations) // TESTED)]
    begun, rows = time.monotonic(), []
    width = max(len(one["name"]) for one in mutations)
    if asked.tap:
        print(f"1..{len(mutations)}", flush=True)
    else:
        print_line(width, "rule", "mutation", "broken", "seed", "tried")
    with tempfile.TemporaryDirectory(prefix="redlock-mutants-") as folder:
        workshop = Workshop(asked.build, folder, asked.seeds)
        for row in recipe.side_by_side(workshop.judge, enumerate(mutations, 1)):
            rows.append(row)
            print_tap(len(rows), row) if asked.tap else print_row(width, row)
    found = sum(row["found"] for row in rows)
    seconds = time.monotonic() - begun
    if not asked.tap:
        print(f"in {seconds:.1f} s\n{len(rows)} mutations, {found} found")
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(
            {"mutations": len(rows), "found": found, "seconds": round(seconds, 1), "rows": rows}, indent=1) + "\n")
    sys.exit(found < len(rows))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The wrappers of redlock pipe on servers while all goes wrong: table.py BUILD
[--only WORD...] [--json FILE]

A column for each language that is found. faults.py has the faults; a cell says how many ms later
another program had the lock. Then: the conformance kit, and the wrapper's own tests on servers.
A cell that fails makes the exit code 1.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
import faults  # noqa: E402
from faults import ROOT, lab  # noqa: E402

LIMIT_S = 900       # for all
PROGRAM_S = 300     # for the kit, and for a wrapper's own tests
GO = ROOT / "contrib/go"
# Debian's package golang-1.19-go is not on PATH.
PATHS = {"go": "/usr/lib/go-1.19/bin"}
VERSION = {"node": "--version", "go": "version", "ruby": "--version"}
GO_ENV = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
KIT, OWN = "conformance kit", "its own tests on servers"


def arguments():
    words = argparse.ArgumentParser(prog="./dev try languages")
    words.add_argument("build", type=os.path.abspath, help=argparse.SUPPRESS)
    words.add_argument("--only", nargs="+", metavar="WORD", help="rows whose names have this")
    words.add_argument("--json", metavar="FILE")
    given = words.parse_args()
    given.rows = [row for row in (*faults.ROWS, KIT, OWN)
                  if not given.only or any(word in row for word in given.only)]
    return given


def environment(**more):
    return {**os.environ, **GO_ENV, "GOCACHE": str(ROOT / "build/go-cache"),
            "REDLOCK_COMMAND": lab.program, **more}


def run(*words, **more):
    """Its output; fails unless it exits with 0."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=PROGRAM_S, **more)
    lab.check(done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def find():
    """{language: (its program, version)} of those that are there."""
    found = {}
    for name, word in VERSION.items():
        program = shutil.which(name, path=f"{PATHS.get(name, '')}:{os.environ['PATH']}")
        if program:
            version = re.search(r"\d+\.\d+\.\d+", run(program, word))[0]
            found[name] = program, version
    return found


def driver(name, program):
    if name == "go":
        path = os.path.join(lab.folder, "driver")
        run(program, "build", "-buildvcs=false", "-o", path, "./driver", cwd=GO, env=environment())
        return [path]
    return [program, str(ROOT / {"node": "contrib/node/test/driver.js",
                                 "ruby": "contrib/pipe/driver.rb"}[name])]


def run_kit(words):
    lines = run(sys.executable, ROOT / "contrib/pipe/conform.py", *words).splitlines()
    return f"{sum(line.startswith('ok ') for line in lines)} of {len(lines) - 1}"


def run_own(name, program):
    if name == "ruby":
        run(sys.executable, ROOT / "test/cli/guide.py", lab.program, "ruby",
            env=environment(EXAMPLES=f"{options.build}/docs/examples"))
        return "passed"
    local = lab.program, "local", "-n", "3", "--"
    if name == "node":
        out = run(*local, program, "--test", ROOT / "contrib/node/test/servers.test.js",
                  env=environment())
        passed, skipped = (int(re.search(rf"^# {word} (\d+)", out, re.M)[1])
                           for word in ("pass", "skipped"))
    else:
        out = run(*local, program, "test", "-count=1", "-v", "-run", "Servers", ".", cwd=GO,
                  env=environment())
        passed, skipped = (len(re.findall(f"^--- {word}", out, re.M)) for word in ("PASS", "SKIP"))
    lab.check(passed and not skipped, f"{passed} passed, {skipped} skipped")
    return f"{passed} passed"


def play(row, name, program, words):
    """(what the cell says, whether it passed)"""
    try:
        if row == KIT:
            return run_kit(words), True
        if row == OWN:
            return run_own(name, program), True
        return f"{faults.play(row, words):.0f} ms", True
    except (lab.Failed, OSError, subprocess.TimeoutExpired) as failure:
        lab.say(f"{row}, {name}: {failure}")
        return "FAILED", False


def play_all():
    signal.signal(signal.SIGALRM, overdue)
    signal.alarm(LIMIT_S)
    found = find()
    words = {name: driver(name, program) for name, (program, _) in found.items()}
    table = {row: {} for row in options.rows}
    with concurrent.futures.ThreadPoolExecutor(max(1, len(found))) as pool:
        tasks = {pool.submit(play, row, name, found[name][0], words[name]): (row, name)
                 for row in options.rows for name in found}
        for task in concurrent.futures.as_completed(tasks):
            row, name = tasks[task]
            table[row][name] = task.result()
    return tell(found, table)


def tell(found, table):
    heads = [f"{name} {version}" for name, (_, version) in found.items()]
    print("| until another program has the lock | " + " | ".join(heads) + " |")
    print("|" + "---|" * (len(heads) + 1))
    for row, cells in table.items():
        print(f"| {row} | " + " | ".join(cells[name][0] for name in found) + " |")
    print(f"TTL {faults.TTL_S} s, suspended {faults.SUSPENDED_TTL_S} s. A cell with a time: nobody "
          "overlapped, and fences rose.\nGo reads its clock without libc: in its suspended machine "
          "only the pipe's timers lag.")
    print("missing:", ", ".join(name for name in VERSION if name not in found) or "none")
    failed = sum(not passed for cells in table.values() for _, passed in cells.values())
    print(f"{len(found)} languages, {len(table)} rows, {failed} cells failed")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"languages": {name: version for name, (_, version) in found.items()},
             "rows": {row: {name: cell[0] for name, cell in cells.items()}
                      for row, cells in table.items()}}, indent=1) + "\n")
    return int(failed > 0 or not found)


def overdue(*_):
    lab.say(f"it takes longer than {LIMIT_S} s")
    lab.kill_what_is_left()
    os._exit(1)


options = arguments()
lab.program = f"{options.build}/src/cli/redlock"
os.environ["CLOCK_SHIM"] = f"{options.build}/test/clockshim.so"
lab.run(play_all)

#!/usr/bin/env python3
"""Repeats the tests that have processes, sockets or threads, to find those that fail rarely.

Each run plays every such test once, or those named. Beside them run busy loops (--load), and
random threads of the tests are stopped (--stops), as on a machine that is short of cores.
build/flake/ keeps the results and the logs of failures: a run that was interrupted continues
where it was. The exit code is 1 if anything failed.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PURE = {"unit", "sim", "models", "slow"}  # suites with no process, socket or thread ...
SOCKETS = "sockets"  # ... except for their tests that are in this suite, too
SKIPPED = 77  # meson's exit code of a test that cannot run here
END_SECONDS = 5  # for a test that was terminated

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**6))"


class Test:
    def __init__(self, row):
        self.suite = row["suite"][0].partition(":")[2] or row["suite"][0]
        self.name = f"{self.suite}/{row['name']}"
        self.suites = {suite.partition(":")[2] for suite in row["suite"]}
        self.row = row

    def is_wanted(self, names):
        if names:
            return bool({self.name, self.row["name"], *self.suites} & set(names))
        return not self.suites & PURE or SOCKETS in self.suites


def tests_of(build, names):
    found = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                           stdout=subprocess.PIPE).stdout
    return [test for test in map(Test, json.loads(found)) if test.is_wanted(names)]


# --- one test ---

def failed_cases(protocol, code, out):
    """The names of the cases that failed; a name for a failed test without one."""
    if code == SKIPPED:
        return []
    failed = []
    if protocol == "tap":
        lines = re.findall(r"^(not )?ok\b *\d* *-? *(.*)$", out, re.M)
        failed = [text for bad, text in lines if bad and "# TODO" not in text]
        plan = re.search(r"^1\.\.(\d+)", out, re.M)
        if not plan or int(plan[1]) != len(lines):
            failed.append(f"(ended after {len(lines)} cases, exit {code})")
    if code != 0 and not failed:
        failed.append(f"(exit {code})")
    return failed


def end(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(END_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def play(test, build, running):
    """Runs it once: which of its cases failed, and its output."""
    row = test.row
    environment = {**os.environ, **row["env"], "MALLOC_PERTURB_": str(random.randint(1, 255))}
    with tempfile.TemporaryDirectory(prefix="redlock-flake-") as folder, \
            open(os.path.join(folder, "out"), "w+b") as out, \
            open(os.path.join(folder, "err"), "w+b") as err:
        process = subprocess.Popen(row["cmd"], cwd=row["workdir"] or build, stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   env={**environment, "TMPDIR": folder})
        running.add(process)
        try:
            process.wait(row["timeout"])
        except subprocess.TimeoutExpired:
            end(process)
        running.discard(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return failed_cases(row["protocol"], process.returncode, texts[0]), "".join(texts)


# --- what is kept ---

class State:
    """One line for each test that has ended; the first line has the build and the options."""

    def __init__(self, folder, about, fresh):
        self.folder, self.path = folder, folder / "results"
        self.lock = threading.Lock()
        self.results = {}
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.read(about)
        else:
            self.write(about)

    def read(self, about):
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        if lines[0] != about:
            sys.exit(f"{self.folder} has a run of other sources or options: add --fresh")
        for line in lines[1:]:
            self.results[line["run"], line["test"]] = line

    def write(self, line):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def add(self, run, test, failed, seconds, log):
        line = {"run": run, "test": test.name, "failed": failed, "seconds": round(seconds, 1)}
        if failed:
            name = f"{run}-{test.name.replace('/', '-')}.log"
            (self.folder / "logs" / name).write_text(log, encoding="utf-8")
        with self.lock:
            self.write(line)
            self.results[run, test.name] = line


def sources():
    """Changes whenever a file that a test can depend on does."""
    digest = hashlib.sha256()
    tops = [top for top in ROOT.iterdir() if top.name not in ("build", ".git")]
    for path in sorted(path for top in tops for path in (top, *top.rglob("*"))):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(bytes(path.relative_to(ROOT)) + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


# --- disturbers ---

def disturb(load, stops):
    words = [[sys.executable, "-c", BUSY]] * load
    if stops:
        words.append([sys.executable, ROOT / "test" / "stops.py", str(os.getpid()), str(stops)])
    return [subprocess.Popen(one, start_new_session=True) for one in words]


# --- runs ---

def play_runs(options, tests, state):
    """A slow test begins early, so that a run does not end by waiting for one."""
    running, over = set(), threading.Event()

    def one(run, test):
        if over.is_set():
            return
        begun = time.monotonic()
        failed, log = play(test, options.build, running)
        if over.is_set():
            return
        state.add(run, test, failed, time.monotonic() - begun, log)
        for text in failed:
            print(f"run {run}: {test.name}: {text}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            for run in range(1, options.runs + 1):
                left = [test for test in tests if (run, test.name) not in state.results]
                for done in [pool.submit(one, run, test) for test in left]:
                    done.result()
                print(summary(run, state), flush=True)
        except BaseException:
            over.set()
            for process in list(running):
                end(process)
            raise


def summary(run, state):
    lines = [line for (of, _), line in state.results.items() if of == run]
    bad = sum(bool(line["failed"]) for line in lines)
    return f"run {run}: {len(lines)} tests, {bad} failed, {sum(l['seconds'] for l in lines):.0f} s"


def table(state):
    """How often each test ran and which of its cases failed how often; whether none did."""
    lines = state.results.values()
    ran = collections.Counter(line["test"] for line in lines)
    failed = collections.Counter((line["test"], text) for line in lines for text in line["failed"])
    for (test, text), times in failed.most_common():
        print(f"{times:4} of {ran[test]:4}  {test}: {text}")
    runs = len({line["run"] for line in lines})
    print(f"{runs} runs, {len(ran)} tests, {sum(failed.values())} failures")
    if failed:
        print(f"logs: {os.path.relpath(state.folder / 'logs')}")
    return not failed


def arguments():
    parser = argparse.ArgumentParser(prog="./dev flake", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default=ROOT / "build" / "gcc", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these tests or suites")
    parser.add_argument("--runs", type=int, default=20, help="how often each test is played")
    parser.add_argument("--load", type=int, default=0, help="busy loops beside them")
    parser.add_argument("--stops", type=int, default=0, metavar="MS",
                        help="stop random threads of the tests, each for up to MS")
    parser.add_argument("--jobs", type=int, default=2 * len(os.sched_getaffinity(0)),
                        help="tests at a time (default: two for each core)")
    parser.add_argument("--state", type=pathlib.Path, default=ROOT / "build" / "flake",
                        help="folder of results and logs (default: build/flake)")
    parser.add_argument("--fresh", action="store_true", help="forget what has ended")
    return parser.parse_args()


def main():
    options = arguments()
    options.build = os.path.abspath(options.build)
    tests = tests_of(options.build, options.names)
    if not tests:
        sys.exit("there is no such test")
    about = {"sources": sources(), "load": options.load, "stops": options.stops,
             "tests": sorted(test.name for test in tests)}
    state = State(options.state, about, options.fresh)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    disturbers = disturb(options.load, options.stops)
    try:
        play_runs(options, tests, state)
    except KeyboardInterrupt:
        print("interrupted: the same command continues here", file=sys.stderr)
        table(state)
        sys.exit(128 + signal.SIGINT)
    finally:
        for process in disturbers:
            process.kill()
            process.wait()
    sys.exit(not table(state))


if __name__ == "__main__":
    main()

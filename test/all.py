#!/usr/bin/env python3
"""./dev all [ROW...]: runs each verb of the help text once, as short as is useful.

Prints a row as each verb ends: name, result, seconds, figure. A failure does not stop the
others. The exit code is 1 if a row failed. ROWs select the rows whose names begin so.
The output of each verb is in build/all/ROW.log, the table in build/all/table.txt.

A line of `./dev help`, try, bench or check without an entry in VERBS is an error: no verb can be
forgotten.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROW_SECONDS = 3600  # a verb that takes longer hangs
END_SECONDS = 10    # for a verb that hangs, from TERM to KILL
USAGE, UNAVAILABLE = 64, 69

# MISSED: a bench ran to its end and missed targets of speed or size. With so few laps on a
# busy machine that proves little, so it is shown and is not a failure: the full bench decides.
# A lock that was lost is a failure.
OK, MISSED, SKIPPED, FAILED = "ok", "missed", "skipped", "FAILED"
TARGET = re.compile(r"^missed: (.*)$", re.MULTILINE)
LOST = "lost is "


@dataclasses.dataclass
class Row:
    """The command for one line of the help text; an exit code of 0 is a success."""
    name: str
    figure: str = ""       # a pattern: its groups in the last match are shown, none is a failure
    command: str = ""      # for bash; without it: ./dev NAME
    unless: str = ""       # a pattern: where the output has it, the row is skipped
    in_copy: bool = False  # in a clone of the last commit, because it changes or removes files
    never: str = ""        # why it is not run


GROUPS = ("try", "bench", "check")  # without a name each prints its own lines of help
COUNTS = r"^(\d+ passed, \d+ failed)$"
STRESS = r"^(\d+ counted, .*)$"

# Each line of the help text as far as its description begins, and what is run for it.
VERBS = {
    "setup": [Row("setup")],
    **{f"{group} [NAME]": [Row(group)] for group in GROUPS},
    "build": [Row("build")],
    "demo": [Row("demo", figure=r"^(As told: .*)$")],
    "test": [Row("test", figure=COUNTS)],
    "test --all": [Row("test --all", figure=COUNTS)],
    "test --werror": [Row("test --werror fence", figure=COUNTS)],
    "test NAME...": [Row("test fence", figure=COUNTS)],
    "flake --runs N --load M": [Row("flake --runs 1 --load 1",
                                    figure=r"^(\d+ runs, \d+ tests, \d+ failures)$")],
    "sim --seeds N": [Row("sim --seeds 200", figure=r"(\d+ schedules) .* (\d+ violations)")],
    "sim --minutes M": [Row("sim --minutes 1", figure=r"(\d+ schedules) .* (\d+ violations)")],
    "sim --seed S": [Row("sim --seed 1 --trace", figure=r"(\d+ acquisitions), (\d+ events)")],
    "sim --mutations": [Row("sim --mutations --only 'a grant too few'",
                            figure=r"(\d+ mutations, \d+ found)")],
    "check slow": [Row("check slow", figure=COUNTS)],
    "try chaos": [Row("try chaos --seconds 60", figure=r"^(operations +\d+)$"),
                  Row("try chaos --self-test", figure=r"^(.* mistakes)$")],
    "try page": [Row("try page --cycles 100000", figure=r"^page: (\d+ checks failed.*)$")],
    "try frameworks": [Row("try frameworks", figure=r"^(\d+ passed)")],
    "try tracing": [Row("try tracing", figure=r"^tracing: (\d+ spans of locks.*)$")],
    "try jobs": [Row("try jobs --runs 5", figure=r"^(\w+ +\d+ of \d+ runs .*)$")],
    "try matrix": [Row("try matrix --release trixie --server valkey-8.1",
                       figure=r"^(\d+ of \d+ cells are green)$")],
    "try languages": [Row("try languages --only kill", figure=r"^(\d+ languages, .*)$")],
    "try torture": [Row("try torture --interface async --kind exclusive",
                    figure=r"^(all +\d+ failed.*)$")],
    "try fairness": [Row("try fairness --only philosophers --seconds 3",
                     figure=r"(least_served_share [\d.]+)")],
    "try election": [Row("try election --seconds 40", figure=r"^(terms +\d+)")],
    "try return": [Row("try return --tries 1 --only 'restart of one, memory' 'FLUSHALL of one'",
                       figure=r"^(\d+ faults, .* bounds missed)$")],
    "try once": [Row("try once --seconds 15", figure=r"^(once_periods +\d+)")],
    "try redisson": [Row("try redisson --alternations 50", figure=r"^(wake_p50_ms +[\d.]+)",
                     unless=r"^(redisson is skipped[,:].*)$")],
    "check lint": [Row("check lint", figure=r"^(\d+ sources, .*: 0 have warnings)$")],
    "check types": [Row("check types", figure=r"^(Type completeness score: [\d.]+%)$")],
    "check tsan": [Row("check tsan 2", figure=STRESS)],
    "check helgrind": [Row("check helgrind 2", figure=STRESS)],
    "check fuzz [TARGET...]": [Row("check fuzz resp --seconds 10",
                                   figure=r"^(resp: \d+ executions)"),
                               Row("check fuzz --oss-fuzz",
                                   figure=r"^oss-fuzz: (.* executions), 0 failed$")],
    "bench rounds": [Row("bench rounds", figure=r"^ +8 +1 +\d+ +(\d+\.\d+ %)")],
    "bench contention": [Row("bench contention --only alone,threads16 --seconds 1 --rounds 1",
                             figure=r"^(threads16_vs_ideal) .* ([\d.]+) *(?:missed)?$")],
    "bench takeover": [Row("bench takeover --times 3 --seconds 3", figure=r"(p50 [\d.]+ ms)")],
    "bench floor": [Row("bench floor", figure=r"^(async_c1_p50) +([\d.]+)")],
    "bench kinds": [Row("bench kinds", figure=r"^(shared_c64_throughput) +([\d.]+)")],
    "bench pipe": [Row("bench pipe --rounds 3", figure=r"^(node_p50) +([\d.]+)")],
    "bench loops": [Row("bench loops --rounds 20", figure=r"^(threads_p50) +([\d.]+)")],
    "bench tls": [Row("bench tls --rounds 3", figure=r"^(tls_c64_throughput) +([\d.]+)")],
    "bench list": [Row("bench list --locks 5000 --rounds 3 --seconds 0.3",
                       figure=r"^(listed_of_all +[\d.]+)")],
    "bench burst": [Row("bench burst --rounds 1 --busy 0", figure=r"^(10k_busy0 +hold) +([\d.]+) \(")],
    "bench asyncio": [Row("bench asyncio", figure=r"^(heartbeat_p99 +[\d.]+)")],
    "bench peers": [Row("bench peers --only redsync --rounds 1 --seconds 0.2",
                        figure=r"^(redsync_best) +([\d.]+) \(",
                        unless=r"^(redsync is skipped[,:].*)$")],
    "bench consensus": [Row("bench consensus --rounds 1 --seconds 0.3",
                            figure=r"^\| (etcd \| [\d.]+ \([\d.]+\))")],
    "bench servers": [Row("bench servers --rounds 1 --seconds 0.3",
                          figure=r"^(a fenced cycle in plain ones, .*: [\d.]+)")],
    "bench wan": [Row("bench wan", figure=r"^\| (7 \| 67 s \|.*) \|$")],
    "bench run": [Row("bench run --rounds 3", figure=r"^ *(200) .* ([\d.]+) \(.*\)$")],
    "bench scale": [Row("bench scale --leases 50000 --rounds 1",
                        figure=r"^memory of a lease +(\d+ bytes)")],
    "bench nodes": [Row("bench nodes --rounds 7", figure=r"^(hung_p99) +([\d.]+)")],
    "bench allocations": [Row("bench allocations --cycles 500",
                              figure=r"^(async_c64) .* ([\d.]+)$")],
    "bench gates": [Row("bench gates", figure=r"^(async_instructions +\d+)")],
    "bench instructions": [Row("bench instructions --cycles 500",
                               figure=r"^(64 in flight): .*: (x [\d.]+)$")],
    "check layers": [Row("check layers", figure=r"^(\d+ rooms, \d+ groups: .*)$")],
    "check traces": [Row("check traces --runs 100", figure=r"^(round: \d+ runs of \d+ steps, 0 refused)$")],
    "check coverage": [Row("check coverage", figure=r"^(\d+ of \d+ branches: .*)$")],
    "check abi": [Row("check abi", figure=r"^(compatible with the baseline)$")],
    "check proof [NAME...]": [Row("check proof validity_does_not_overflow", figure=COUNTS,
                                  unless=r"(no cbmc here)")],
    "check kubernetes": [Row("check kubernetes", figure=r"^(\d+ objects) ")],
    "check alerts": [Row("check alerts", figure=COUNTS)],
    "check abi --update": [Row("check abi --update", in_copy=True, figure=r"^(\d+ files changed)$",
                         command="./dev check abi --update && "
                                 "echo $(git diff --name-only | wc -l) files changed")],
    "format": [Row("format", in_copy=True, figure=r"^(\d+ files changed)$",
                   command="./dev format && echo $(git diff --name-only | wc -l) files changed")],
    "check upgrade [CASE...]": [Row("check upgrade", figure=r"^(ok \d+) - ")],
    "on RELEASE VERB...": [Row("on trixie demo", figure=r"^(As told: .*)$")],
    "package": [Row("package", figure=r"^(nothing is left after the purge)$")],
    "wheel": [Row("wheel", figure=r"^(\d+\s.*\.whl)$")],
    "release": [Row("release", figure=r"^(\d+ files)", in_copy=True,
                    command="./dev release --only archive node manual")],
    "static": [Row("static", figure=r"^(\d+\s.*/redlock)$")],
    "check wheel [RELEASE...]": [Row("check wheel", figure=r"^(\d+ releases: .*)$")],
    "check hardening": [Row("check hardening", figure=r"^(\d+ files, 0 lack something)$")],
    "check size": [Row("check size", figure=r"^(code lines: .*)$")],
    "check evidence": [Row("check evidence", figure=r"^(\d+ of \d+ runs are older.*)$")],
    "check words": [Row("check words")],
    "check install-test": [Row("on trixie check install-test")],
    "all [ROW...]": [Row("all", never="it prints this table")],
    "clean": [Row("clean", in_copy=True, figure=r"^(build/ is gone)$",
                  command="mkdir -p build/gcc && ./dev clean && [ ! -e build ] && "
                          "echo build/ is gone")],
}


def verbs_of_help(root):
    shown = "".join(subprocess.run(["./dev", what], cwd=root, check=True, capture_output=True,
                                   text=True).stdout for what in ("help", *GROUPS))
    return [re.split(r"\s{2,}", line)[0].removeprefix("./dev ")
            for line in shown.splitlines() if line.startswith("./dev ")]


def plan(verbs, entries):
    """The rows in the order of the help text, and what is wrong with the entries."""
    rows = [row for verb in verbs for row in entries.get(verb, [])]
    wrong = [f"./dev {verb}: a verb of the help text without an entry in test/all.py"
             for verb in verbs if verb not in entries]
    wrong += [f"./dev {verb}: an entry in test/all.py without a line in the help text"
              for verb in entries if verb not in verbs]
    return rows, wrong


def last_match(pattern, text):
    found = list(re.finditer(pattern, text, re.MULTILINE))
    return " ".join(found[-1].groups()) if found else ""


def judge(row, code, text):
    """Result and figure of a row that has run."""
    figure = last_match(row.figure, text) if row.figure else ""
    if code in (0, UNAVAILABLE) and row.unless and last_match(row.unless, text):
        return SKIPPED, last_match(row.unless, text)
    missed = TARGET.findall(text)
    is_lost = any(target.startswith(LOST) for target in missed)
    if code not in (0, 1) or (code == 1 and (is_lost or not missed)):
        return FAILED, f"{figure} (exit code {code})".strip()
    if row.figure and not figure:
        return FAILED, "the figure is missing"
    return (OK, figure) if code == 0 else (MISSED, "; ".join([figure, *missed]))


class All:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.folder = self.root / "build/all"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.running = None
        self.results = []

    def end(self):
        """Ends the running command, with all processes in its session."""
        if self.running and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGTERM)
            try:
                self.running.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.running.pid, signal.SIGKILL)
                self.running.wait()

    def run(self, row):
        log = self.folder / (re.sub(r"[^a-z0-9]+", "-", row.name.lower()).strip("-") + ".log")
        command = row.command or f"./dev {row.name}"
        if row.in_copy:
            command = f"git clone --quiet . build/all/copy && cd build/all/copy && {command}"
        with open(log, "w", encoding="utf-8") as output:
            self.running = subprocess.Popen(
                ["bash", "-c", command], cwd=self.root, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = self.running.wait(ROW_SECONDS)
            except subprocess.TimeoutExpired:
                return FAILED, f"it hung: ended after {ROW_SECONDS} s"
            finally:
                self.end()
                shutil.rmtree(self.folder / "copy", ignore_errors=True)
        return judge(row, code, log.read_text(encoding="utf-8", errors="replace"))

    def tell(self, line):
        print(line, flush=True)
        with open(self.folder / "table.txt", "a", encoding="utf-8") as table:
            print(line, file=table)

    def play(self, rows):
        (self.folder / "table.txt").unlink(missing_ok=True)
        width = max(len(row.name) for row in rows)
        self.tell(f"{'verb':{width}}  result   seconds  figure")
        begun = time.monotonic()
        for row in rows:
            at = time.monotonic()
            result, figure = (SKIPPED, row.never) if row.never else self.run(row)
            self.results.append(result)
            self.tell(f"{row.name:{width}}  {result:7}  {time.monotonic() - at:7.0f}  {figure}")
        counts = ", ".join(f"{self.results.count(result)} {result}"
                           for result in (OK, MISSED, SKIPPED, FAILED))
        self.tell(f"{len(rows)} rows in {(time.monotonic() - begun) / 60:.1f} minutes: {counts}")
        return int(FAILED in self.results)


def main(root, wanted, entries=VERBS):
    rows, wrong = plan(verbs_of_help(root), entries)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    rows = [row for row in rows if not wanted or row.name.startswith(tuple(wanted))]
    if not rows:
        print(f"./dev all: no row begins with {' or '.join(wanted)}", file=sys.stderr)
        return USAGE
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    everything = All(root)
    try:
        return everything.play(rows)
    except KeyboardInterrupt:
        return 1
    finally:
        everything.end()


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent.parent, sys.argv[1:]))

#!/usr/bin/env python3
"""./dev try matrix: the tests of the library and of the command, and chaos, on every server.

For each Debian a new bare root is built once (./dev on). There each server runs the suites
`integration` and `cli` and then ./dev try chaos. The servers are those of Debian's packages, each
with its own libraries. The result of a cell is kept in build/matrix; one that is green at this
commit is not run again.
A test that failed is run once more alone, without others beside it: what passes only then is
named in the table, because it failed by the load or by chance, and not by the server.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = ROOT / "build/matrix"
KIT = "kit"  # the folder of the servers and of Porcupine, in build/matrix here, in build there
LOGS = ROOT / "build/gcc/meson-logs"
RELEASES = ("bookworm", "trixie", "forky")
SERVERS = {  # where the package is: release of the root, suite, name
    "redis-7.0": ("bookworm", "bookworm", "redis-server"),
    "redis-8.0": ("trixie", "trixie", "redis-server"),
    "redis-8.6": ("forky", "experimental", "redis-server"),
    "valkey-8.1": ("trixie", "trixie", "valkey-server"),
    "valkey-9.1": ("forky", "forky", "valkey-server"),
}
CELL_SECONDS = 600
CHAOS_SECONDS = 60
CHAOS_ENDS = 90  # it takes so long to start and to check what it did
ENDS = 20        # from TERM to KILL
RESULT = "result of a cell: "


# --- inside a root ---

class Cell:
    def __init__(self, server):
        self.folder = ROOT / "build" / KIT / server
        self.end = time.monotonic() + CELL_SECONDS
        subprocess.run([HERE / "server", "link", self.folder], check=True)
        self.program = self.folder / "redis-server"

    def run(self, command, keep=0):
        """Its exit code, 124 if it took longer than what is left of the cell but `keep` s."""
        left = max(1, self.end - keep - time.monotonic())
        return subprocess.run(["timeout", f"--kill-after={ENDS}", f"{left:.0f}", "env",
                               f"REDIS_SERVER={self.program}", *command], check=False).returncode

    def test(self, *words):
        """The programs that failed; all of them if the results are missing."""
        code = self.run(["./dev", "test", *words], CHAOS_SECONDS + CHAOS_ENDS)
        logs = list(LOGS.glob("testlog*.json"))
        runs = [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []
        failed = [name_of(run["name"]) for run in runs
                  if run["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]
        return failed or (["all"] if code else [])

    def chaos(self):
        found = ROOT / "build/chaos.json"
        found.unlink(missing_ok=True)
        code = self.run([f"PATH={self.folder}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                         "python3", "test/chaos/chaos.py", "build/gcc/src/cli/redlock",
                         "build/gcc/test/chaos", "--porcupine", f"build/{KIT}/porcupine",
                         "--seconds", str(CHAOS_SECONDS), "--json", found])
        return {"code": code, **(json.loads(found.read_text()) if found.exists() else {})}


def name_of(test):
    """Without its suite and project, which each release of meson puts elsewhere."""
    return re.split(r"[ :]", test)[-1]


def count():
    """Passed cases, and the names of the skipped ones; none if the results are missing."""
    passed, skipped = 0, []
    file = next(LOGS.glob("testlog*.junit.xml"), None)
    for case in tree.parse(file).iter("testcase") if file else ():
        if case.find("skipped") is not None:
            skipped.append(f"{name_of(case.get('classname'))}: {case.get('name')}")
        elif case.find("failure") is None and case.find("error") is None:
            passed += 1
    return passed, skipped


def play(release, server):
    begun = time.monotonic()
    cell = Cell(server)
    version = subprocess.run([cell.program, "--version"], check=True, capture_output=True,
                             text=True).stdout
    version = "{0} {2}".format(*re.match(r"(\w+) (server) v=(\S+)", version).groups()).lower()
    print(f"== {release}, {server}: {version}", flush=True)
    if not version.replace(" ", "-").startswith(server + "."):
        sys.exit(f"the package is {version} now, not {server}: mend SERVERS in {__file__}")
    failed = cell.test("--suite", "integration", "--suite", "cli")
    passed, skipped = count()
    first = failed
    if failed and failed != ["all"]:
        failed = cell.test("--num-processes", "1", *failed)
    chaos = cell.chaos()
    print(RESULT + json.dumps({
        "release": release, "server": server, "version": version, "passed": passed,
        "failed": failed, "passed_alone": sorted(set(first) - set(failed)), "skipped": skipped,
        "chaos": chaos, "seconds": round(time.monotonic() - begun),
        "green": not failed and chaos["code"] == 0}), flush=True)


# --- outside ---

def fetch_server(name):
    """Into the kit, if it is not there."""
    folder = RESULTS / KIT / name
    if folder.exists():
        return
    release, suite, package = SERVERS[name]
    done = subprocess.run(["./dev", "on", release, "try", "matrix", "--pack", suite, package],
                          cwd=ROOT, check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(done.returncode)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)


def kept(release, server):
    """The result of a cell, or None."""
    file = RESULTS / f"{release}-{server}.json"
    return json.loads(file.read_text()) if file.exists() else None


def is_green(result, commit):
    return bool(result and result["green"] and result["commit"] == commit)


def run_cells(release, servers, commit):
    """In one root; its output goes to a log, too."""
    command = ["./dev", "on", "--with", RESULTS / KIT, release, "try", "matrix", "--play", release,
               *servers]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as inside, \
            open(RESULTS / f"{release}.log", "a", encoding="utf-8", buffering=1) as log:
        try:
            for line in inside.stdout:
                log.write(line)
                if not line.startswith(RESULT):
                    print(line, end="", flush=True)
                    continue
                result = {**json.loads(line.removeprefix(RESULT)), "commit": commit}
                (RESULTS / f"{release}-{result['server']}.json").write_text(
                    json.dumps(result, indent=1) + "\n")
        finally:
            inside.terminate()


def tell(cells, commit):
    """The table; is every cell green at this commit?"""
    print(f"{'release':<10}{'server':<15}{'tests':<16}{'chaos':<38}{'seconds':<9}commit")
    results = [kept(*cell) for cell in cells]
    everywhere = set.intersection(*(set(result["skipped"]) for result in results if result))\
        if any(results) else set()
    for (release, server), result in zip(cells, results):
        if not result:
            print(f"{release:<10}{server:<15}not run")
            continue
        chaos = result["chaos"]
        tests = f"{result['passed']} ok" if not result["failed"] else "FAILED"
        said = (f"{chaos.get('operations')} operations, {chaos.get('faults')} faults"
                if chaos["code"] == 0 else f"FAILED ({chaos['code']})")
        print(f"{release:<10}{result['version']:<15}{tests:<16}{said:<38}{result['seconds']:<9}"
              f"{result['commit']}")
        skipped_here = sorted(set(result["skipped"]) - everywhere)
        for what, names in (("failed", result["failed"]), ("passed alone", result["passed_alone"]),
                            ("skipped here", skipped_here)):
            if names:
                print(f"{'':<10}{what}: {', '.join(names)}")
    green = sum(is_green(result, commit) for result in results)
    print(f"{green} of {len(cells)} cells are green")
    return green == len(cells)


def main(arguments=None):
    words = argparse.ArgumentParser(prog="./dev try matrix", description=__doc__.split("\n")[0])
    words.add_argument("--release", action="append", choices=RELEASES)
    words.add_argument("--server", action="append", choices=SERVERS)
    words.add_argument("--json", metavar="FILE")
    words.add_argument("--play", nargs="+", help=argparse.SUPPRESS)  # RELEASE SERVER...
    options = words.parse_args(arguments)
    if options.play:
        for server in options.play[1:]:
            play(options.play[0], server)
        return 0
    cells = [(release, server) for release in options.release or RELEASES
             for server in options.server or SERVERS]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=False,
                            capture_output=True, text=True).stdout.strip()
    missing = [cell for cell in cells if not is_green(kept(*cell), commit)]
    for _, server in missing:
        fetch_server(server)
    for release in RELEASES:
        servers = [server for name, server in missing if name == release]
        if servers:
            run_cells(release, servers, commit)
    if options.json:
        results = [result for cell in cells if (result := kept(*cell))]
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0 if tell(cells, commit) else 1


if __name__ == "__main__":
    sys.exit(main())

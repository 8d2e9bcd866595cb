#!/usr/bin/env python3
"""./dev check lint: clang-tidy, shellcheck, luacheck, and both compilers' analysers find nothing.

usage: lint.py BUILD    with compile_commands.json, made for clang

clang-tidy (.clang-tidy has its checks) reads each file of src/ once, with the headers that it
includes; so do gcc -fanalyzer and clang --analyze, whose false findings are named in FALSE.
shellcheck reads each script of sh and bash; luacheck the scripts as they go over the wire.
"""
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lua"))
import embed  # noqa: E402
import variables  # noqa: E402

SHELL = re.compile(rb"#!.*\b(ba)?sh\b")
# Parts are spliced into the scripts: they declare names again, and set some that only other
# scripts read. lua/variables.py knows which of them are mistakes.
SPLICED = ("4", "211", "241", "311")
LUACHECK = ("luacheck", "--no-color", "--codes", "--std", "lua51", "--read-globals", "redis",
            "cjson", "KEYS", "ARGV", "--ignore", *SPLICED, "--no-max-line-length")

# The analysers of Debian 12: those of other releases have other false findings.
ANALYSERS = {
    "gcc": ("12", ["-fanalyzer", "-fdiagnostics-plain-output"]),
    "clang": ("14", ["--analyze", "-Xanalyzer", "-analyzer-output=text"]),
}
FINDING = re.compile(r"^(\S+\.[ch]):\d+:\d+: (?:warning|error): .*\[([\w.-]+)\]$", re.MULTILINE)
# Why findings are false ...
NEVER_OK = "a function of another file that refuses a call does not return REDLOCK_OK"
TRIED = "in this state a handle has made an attempt"
REMOVED = "LIST_REMOVE() and TAILQ_REMOVE() take the element from the head of its list"
# ... which are these: (where, what).
FALSE = {
    ("src/admin/inspect.c", "-Wanalyzer-malloc-leak"): "inspect_destroy() frees the tokens",
    ("src/admin/observe.c", "-Wanalyzer-null-dereference"): NEVER_OK,
    ("src/admin/observe.c", "-Wanalyzer-possible-null-dereference"): NEVER_OK,
    ("src/admin/observe.c", "core.NullDereference"): NEVER_OK,
    ("src/base/token.c", "-Wanalyzer-use-of-uninitialized-value"): "these bits are shifted out",
    ("src/cli/args.c", "-Wanalyzer-null-dereference"): "getopt_long() returns only what is in rows",
    ("src/cli/monitor/http.c", "unix.Malloc"): REMOVED,
    ("src/cli/run/keeper.c", "-Wanalyzer-malloc-leak"): "CMD's words, until exec",
    ("src/core/fenced/admission.c", "-Wanalyzer-null-dereference"):
        "without one roster admission_refuse() refuses",
    ("src/core/kind.c", "-Wanalyzer-null-dereference"): "there is a row for plain locks",
    ("src/lease/acquire.c", "core.CallAndMessage"): NEVER_OK,
    ("src/lease/acquire.c", "core.NullDereference"): NEVER_OK,
    ("src/lease/handle.c", "-Wanalyzer-null-dereference"): TRIED,
    ("src/lease/handle.h", "-Wanalyzer-null-dereference"): NEVER_OK,
    ("src/lease/handle.h", "core.NullDereference"): NEVER_OK,
    ("src/lease/request.c", "-Wanalyzer-null-dereference"): NEVER_OK,
    ("src/lease/result.c", "-Wanalyzer-null-dereference"): TRIED,
    ("src/lease/telemetry.h", "core.NullDereference"): NEVER_OK,
    ("src/lease/waiting.c", "-Wanalyzer-null-dereference"): TRIED,
    ("src/sync/key.c", "unix.Malloc"): REMOVED,
    ("src/sync/lock.c", "-Wanalyzer-null-dereference"): NEVER_OK,
    ("src/sync/lock.c", "core.NullDereference"): NEVER_OK,
    ("src/sync/observer.c", "unix.Malloc"): REMOVED,
}


def files():
    """Those of the tree; an unpacked archive has no git."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 0:
        return [ROOT / os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return [path for path in ROOT.rglob("*") if "build" not in path.relative_to(ROOT).parts]


def is_shell(path):
    if not path.is_file():
        return False
    with open(path, "rb") as text:
        return bool(SHELL.match(text.readline()))


def c_sources(build, folder):
    """Those of src/: {source: how it is compiled}. Many are compiled more than once: `folder` gets
    the first command of each."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT / "src"):
            commands.setdefault(path, entry)
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    return commands


def analyse(compiler, entry):
    """Findings, {(where, what)}, and what the compiler says of them."""
    words = shlex.split(entry["command"].replace(" -fcolor-diagnostics", ""))
    words = [compiler, *words[1:words.index("-MD")], *words[words.index("-c"):]]
    folder = pathlib.Path(entry["directory"])
    done = subprocess.run([*words, *ANALYSERS[compiler][1], "-o", os.devnull], cwd=folder,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return {(str((folder / where).resolve().relative_to(ROOT)), what)
            for where, what in FINDING.findall(done.stderr)}, done.stderr


def analysers(pool, entries):
    """The number of findings that are not in FALSE, or no longer found."""
    here = [compiler for compiler, (release, _) in ANALYSERS.items()
            if release == subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True,
                                         check=True).stdout.split(".")[0].strip()]
    found = set()
    for findings, text in pool.map(analyse, *zip(*itertools.product(here, entries))):
        if not findings <= FALSE.keys():
            print(text, end="", flush=True)
        found |= findings
    gone = FALSE.keys() - found if len(here) == len(ANALYSERS) else set()
    for where, what in gone:
        print(f"{where}: {what} is no longer found: test/lint.py")
    return len(found - FALSE.keys()) + len(gone)


def run(command, text=None):
    """What the command says if it fails."""
    done = subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode != 0 else ""


def main(build):
    commands = build / "lint"
    sources = c_sources(build, commands)
    shell = sorted(filter(is_shell, files()))
    lua = [path for path in sorted((ROOT / "lua").glob("*.lua")) if not variables.is_part(path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(run, ["clang-tidy", "--quiet", "-p", str(commands), str(path)])
                for path in sources]
        jobs += [pool.submit(run, [*LUACHECK, "--filename", str(path.relative_to(ROOT)), "-"],
                             embed.body(path) + "\n") for path in lua]
        jobs.append(pool.submit(run, ["shellcheck", "-S", "warning", *map(str, shell)]))
        wrong = analysers(pool, sources.values())
        for job in concurrent.futures.as_completed(jobs):
            wrong += bool(job.result())
            print(job.result(), end="", flush=True)
    print(f"{len(sources)} sources, {len(shell)} shell scripts, {len(lua)} Lua scripts: "
          f"{wrong} have warnings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

#!/usr/bin/env python3
"""The examples of the man pages on a private quorum, and the fields of their JSON. Speaks TAP.

usage: manual_examples.py REDLOCK

Each block under EXAMPLES of a page of section 1 is run by sh. Each field that a command prints
with --json is on its page, on redlock(1), or on the page to which OUTPUT refers.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REDLOCK = pathlib.Path(sys.argv[1]).resolve()
PAGES = {path.name.removesuffix(".1.scd"): path.read_text()
         for path in sorted((ROOT / "docs/man").glob("*.1.scd"))}
SECONDS = 60
# What an example has that cannot be run here, and what is run instead; None: nothing.
INSTEAD = {
    "redlock local -n 5 -- bash": None,
    ".example": None,
    "redlock admit --new": None,  # these nodes are admitted
    "redlock elect --observe": "timeout 2 redlock elect --observe",
}
REFERS = {"redlock-break": "redlock-status", "redlock-extend": "redlock-acquire"}
# Each command with --json, whatever it ends with.
JSON = {
    "redlock-run": ("redlock run --json a true 2>&1", "redlock run --json --fence a true 2>&1",
                    "redlock run --json -q --once-per 1d b true 2>&1"),
    "redlock-elect": ("timeout 1 redlock elect --json --observe a",),
    "redlock-acquire": ("redlock acquire --json a", "redlock acquire -n --json a",
                        "redlock acquire --json --and c d", "redlock acquire --json --slots 2 s"),
    "redlock-extend": ("redlock acquire e | redlock extend --json e",
                       "echo none | redlock extend --json a"),
    "redlock-release": ("echo none | redlock release --json a",),
    "redlock-status": ("redlock status --json a", "redlock status --json --slots 2 s",
                       "redlock status --json --and c d"),
    "redlock-list": ("redlock list --json",),
    "redlock-break": ("redlock break --json --yes a",),
    "redlock-check": ("redlock check --json", "redlock check --acl --json"),
    "redlock-admit": ("redlock admit --readmit --json",),
    "redlock-bench": ("redlock bench -n 10 --warmup 0 --json",),
    "redlock-pipe": ("true | redlock pipe --parent $$",),
    "redlock-local": ("timeout 1 redlock local -n 1 --json",),
}
numbers = iter(range(1, 1000))


def report(wrong, name, output=""):
    print(f"{'not ok' if wrong else 'ok'} {next(numbers)} - {name}")
    if wrong:
        print(wrong, output, sep="\n", file=sys.stderr)
    return bool(wrong)


def sh(script, folder):
    """Runs it on three new nodes that are admitted."""
    keeps = {name: value for name, value in os.environ.items()
             if not name.startswith("REDLOCK_")}
    environment = {**keeps, "PATH": f"{REDLOCK.parent}:{os.environ['PATH']}"}
    return subprocess.run([REDLOCK, "local", "-n", "3", "--", "sh", "-c", script], cwd=folder,
                          env=environment, timeout=SECONDS, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def examples(text):
    section = re.split(r"^# ", text.partition("\n# EXAMPLES\n")[2], flags=re.MULTILINE)[0]
    for block in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        yield block.replace("\\\\", "\\")


def run_examples(name, text, folder):
    failed = 0
    for block in examples(text):
        title = f"{name}: {block.splitlines()[0]}"
        matching = [words for words in INSTEAD if words in block]
        if "jq" in block and not shutil.which("jq"):
            print(f"ok {next(numbers)} - {title} # SKIP there is no jq")
            continue
        if any(INSTEAD[words] is None for words in matching):
            print(f"ok {next(numbers)} - {title} # SKIP needs other nodes or a terminal")
            continue
        for words in matching:
            block = block.replace(words, INSTEAD[words])
        done = sh(block, folder)
        expected = {0, 124} if "timeout" in block else {0}
        failed += report(done.returncode not in expected and f"exit {done.returncode}", title,
                         done.stdout + done.stderr)
    return failed


def fields(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def run_json(name, folder):
    before = ["redlock acquire -t 1m a >/dev/null"] if name == "redlock-list" else []
    done = sh("\n".join([*before, *JSON[name], "true"]), folder)
    objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    objects = [part for part in objects if part.get("schema") == f"{name.replace('-', '.')}/1"]
    other = REFERS.get(name, name)
    assert f"*{other}*(1)" in PAGES[name] or other == name
    page = PAGES[name] + PAGES[other] + PAGES["redlock"]
    said = set(re.findall(r"\*(\w+)\*", page))
    missing = {field for part in objects for field in fields(part)} - said
    wrong = (f"not on the page: {sorted(missing)}" if missing
             else "" if objects else "no JSON")
    return report(wrong, f"{name}: {len(objects)} objects of --json",
                  done.stdout + done.stderr)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PAGES.items():
            failed += run_examples(name, text, folder)
        for name in PAGES:
            if name not in ("redlock", "redlock-wait", "redlock-monitor"):  # they print no JSON
                failed += run_json(name, folder)
    print(f"1..{next(numbers) - 1}")
    sys.exit(failed > 0)


main()

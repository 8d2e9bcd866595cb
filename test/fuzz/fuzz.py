#!/usr/bin/env python3
"""./dev check fuzz [TARGET...] [--seconds N]: libFuzzer, with the targets of test/fuzz.

Without a target it lists them. Each one begins with its corpus in the tree and what earlier runs
have found, in build/fuzz/corpus. Prints the executions, and the lines of the fuzzed files that no
input reaches. An input that breaks something is kept, named, and makes the exit code 1.
"""
import argparse
import collections
import configparser
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECONDS_MAX_INPUT = 20  # an input that takes longer hangs
USAGE = 64
LINES_MAX = 20          # of a file, to be named


def targets():
    """{name: what its first comment says}"""
    texts = {path.stem: path.read_text() for path in sorted(HERE.glob("*.c"))}
    return {name: re.match(r"/\*\s*(?:\* )?(.*?)[.]?(?: \*/|\n)", text)[1]
            for name, text in texts.items() if "\nint LLVMFuzzerTestOneInput(" in text}


def options(name):
    """Those of libFuzzer for this target, from TARGET.options, which OSS-Fuzz reads, too."""
    parser = configparser.ConfigParser()
    found = parser.read(HERE / f"{name}.options")
    return [f"-{key}={value}" for key, value in parser["libfuzzer"].items()] if found else []


def fuzzed(name):
    """The sources of the headers that the target includes; none: all of the client."""
    names = re.findall(r'^#include "((?:\w+/)+\w+)\.h"', (HERE / f"{name}.c").read_text(),
                       re.MULTILINE)
    return [path for name in names if (path := ROOT / "src" / f"{name}.c").exists()]


def missed_lines(program, profile, sources):
    """{source: (lines, those that were not reached)}"""
    merged = profile.with_suffix(".profdata")
    subprocess.run(["llvm-profdata", "merge", "-o", merged, profile], check=True)
    text = subprocess.run(["llvm-cov", "export", "-format=lcov", program,
                           f"-instr-profile={merged}"],
                          check=True, capture_output=True, text=True).stdout
    found = {}
    for part in text.split("end_of_record"):
        if not (file := re.search(r"^SF:(.*)$", part, re.MULTILINE)):
            continue
        source = pathlib.Path(os.path.normpath(file[1]))
        lines = re.findall(r"^DA:(\d+),(\d+)", part, re.MULTILINE)
        if source in sources or (not sources and source.suffix == ".c" and
                                 source.is_relative_to(ROOT / "src")):
            found[source] = (len(lines), [number for number, count in lines if count == "0"])
    return found


def show_lines(found, by_room):
    if not by_room:
        for source, (count, missed) in found.items():
            rest = f": {' '.join(missed[:LINES_MAX])}" if missed else ""
            print(f"  {source.relative_to(ROOT)}: {len(missed)} of {count} lines not reached{rest}"
                  + (" ..." if len(missed) > LINES_MAX else ""))
        return
    rooms = collections.defaultdict(lambda: [0, 0])
    for source, (count, missed) in found.items():
        room = rooms[source.parent.relative_to(ROOT)]
        room[0] += count
        room[1] += len(missed)
    for room, (count, missed) in sorted(rooms.items()):
        print(f"  {room}/: {missed} of {count} lines not reached")


def run(build, name, seconds):
    program = build / "test/fuzz" / f"fuzz-{name}"
    kept = build / "corpus" / name
    profile = build / f"{name}.profraw"
    kept.mkdir(parents=True, exist_ok=True)
    words = [program, f"-timeout={SECONDS_MAX_INPUT}", "-verbosity=0", "-print_final_stats=1",
             f"-artifact_prefix={build}/{name}-", *options(name), kept,
             HERE / "corpus" / name]
    env = {**os.environ, "LLVM_PROFILE_FILE": str(profile)}
    begun = time.monotonic()
    done = subprocess.run([*words, f"-max_total_time={seconds}"], env=env, text=True,
                          errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          check=False)
    took = time.monotonic() - begun
    if done.returncode != 0:
        print(done.stderr[-8000:], file=sys.stderr)
        print(f"{name}: a finding after {took:.0f} s: play the input by"
              f" {program} FILE; once it is mended, it belongs into test/fuzz/corpus/{name}")
        return False
    executions = int(re.search(r"number_of_executed_units: (\d+)", done.stderr)[1])
    print(f"{name}: {executions} executions in {took:.0f} s, no finding", flush=True)
    subprocess.run([*words, "-runs=0"], env=env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    sources = fuzzed(name)
    show_lines(missed_lines(program, profile, sources), by_room=not sources)
    return True


def main():
    parser = argparse.ArgumentParser(prog="./dev check fuzz")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("target", nargs="*")
    parser.add_argument("--seconds", type=int, default=120, help="for each target; default: 120")
    try:
        args = parser.parse_args()
    except SystemExit as end:
        return USAGE if end.code else 0
    known = targets()
    if unknown := set(args.target) - set(known):
        print(f"no target {' '.join(sorted(unknown))}; ./dev check fuzz lists them",
              file=sys.stderr)
        return USAGE
    if not args.target:
        for name, text in known.items():
            print(f"{name:<12} {text}")
        return 0
    programs = [f"test/fuzz/fuzz-{name}" for name in args.target]
    subprocess.run(["ninja", "-C", args.build, "--quiet", *programs], check=True)
    return 0 if all([run(args.build.resolve(), name, args.seconds) for name in args.target]) else 1


if __name__ == "__main__":
    sys.exit(main())

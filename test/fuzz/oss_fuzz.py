#!/usr/bin/env python3
"""./dev check fuzz --oss-fuzz: plays OSS-Fuzz's build of test/fuzz, without its image.

usage: oss_fuzz.py FOLDER    builds below FOLDER

Once with each sanitizer of oss-fuzz/project.yaml oss-fuzz/build.sh has to make each target, which
needs no library but those of the compiler and plays more inputs than its corpus has.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import fuzz

INPUTS = 2000
# What OSS-Fuzz's image sets, besides SRC, WORK and OUT.
COMMON = "-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=fuzzer-no-link"
CHECKS = ("array-bounds,bool,builtin,enum,integer-divide-by-zero,null,object-size,return,"
          "returns-nonnull-attribute,shift,signed-integer-overflow,unreachable,vla-bound")
SANITIZERS = {
    "address": "-fsanitize=address -fsanitize-address-use-after-scope",
    "undefined": f"-fsanitize={CHECKS} -fno-sanitize-recover={CHECKS}",
}
# Those that the C library and the compiler have.
LIBRARIES = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
             "librt.so.1", "libresolv.so.2", "libgcc_s.so.1", "libstdc++.so.6"}


def build(folder, sanitizer):
    """The folder that build.sh filled."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("src", "work", "out"):
        (folder / name).mkdir(parents=True)
    (folder / "src/libredlock").symlink_to(fuzz.ROOT)
    flags = f"{COMMON} {SANITIZERS[sanitizer]}"
    env = {**os.environ, "CC": "clang", "CXX": "clang++", "CFLAGS": flags, "CXXFLAGS": flags,
           "LIB_FUZZING_ENGINE": "-fsanitize=fuzzer", "SRC": str(folder / "src"),
           "WORK": str(folder / "work"), "OUT": str(folder / "out")}
    done = subprocess.run(["bash", "-eu", fuzz.HERE / "oss-fuzz/build.sh"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout[-8000:])
    return folder / "out"


def play(out, name):
    """The executions, or an exception."""
    needed = subprocess.run(["ldd", out / name], capture_output=True, text=True, check=True).stdout
    others = set(re.findall(r"^\s+(lib\S+|linux\S+)", needed, re.MULTILINE)) - LIBRARIES
    if others:
        raise ValueError(f"needs {' '.join(sorted(others))}")
    corpus = out.parent / "corpus" / name
    with zipfile.ZipFile(out / f"{name}_seed_corpus.zip") as seeds:
        seeds.extractall(corpus)
    done = subprocess.run([out / name, f"-runs={INPUTS}", "-seed=1", "-print_final_stats=1",
                           *fuzz.options(name), corpus], cwd=out.parent, text=True,
                          errors="replace", capture_output=True, check=False)
    found = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode != 0 or not found or int(found[1]) < INPUTS:
        raise ValueError(done.stderr[-4000:])
    return int(found[1])


def main(folder):
    names, played, wrong = fuzz.targets(), 0, 0
    for sanitizer in re.search(r"^sanitizers: \[(.*)\]", (fuzz.HERE / "oss-fuzz/project.yaml")
                               .read_text(), re.MULTILINE)[1].split(", "):
        out = build(folder / sanitizer, sanitizer)
        for name in names:
            try:
                played += play(out, name)
            except (OSError, ValueError) as error:
                wrong += 1
                print(f"{sanitizer}: {name}: {error}", file=sys.stderr)
    print(f"oss-fuzz: {len(names)} targets, {played} executions, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

#!/usr/bin/env python3
"""A seed means the same to every compiler: same_trace.py BUILD_DIR

The simulator is made by gcc and clang, with and without optimisation, as far as they are
there; all must print the same hash of their traces. If one reads what nobody has written,
or computes what C leaves open, this shows it.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import recipe

SEEDS = 300
COMPILERS = ("gcc", "clang")
LEVELS = ("-O0", "-O2")


def plain_flags(unit):
    """Flags of the source itself; the rest belongs to another compiler."""
    return [flag for flag in unit.flags if flag.startswith(("-I", "-D", "-std"))]


def make(build, units, compiler, level, folder):
    objects = []
    for number, unit in enumerate(units):
        objects.append(folder / f"{compiler}{level}-{number}.o")
        unit.compile(unit.source, objects[-1], [compiler], [*plain_flags(unit), level])
    program = folder / f"sim-{compiler}{level}"
    recipe.link([compiler], [], objects, program, build)
    return program


def main(build):
    units = recipe.units(build)
    configurations = [(compiler, level) for compiler in COMPILERS if shutil.which(compiler)
                      for level in LEVELS]
    if len(configurations) < 2:
        print("1..0 # SKIP neither gcc nor clang is there")
        return 0

    def hash_of(configuration):
        with tempfile.TemporaryDirectory(prefix="redlock-sim-") as folder:
            program = make(build, units, *configuration, pathlib.Path(folder))
            done = subprocess.run([program, "--hash", str(SEEDS)], capture_output=True, text=True)
            return done.stdout.strip() or f"nothing, and ended by {done.returncode}"

    failed = 0
    print(f"1..{len(configurations)}", flush=True)
    results = recipe.side_by_side(hash_of, configurations)
    for number, (configuration, got) in enumerate(zip(configurations, results), 1):
        first = got if number == 1 else first
        same = got == first and len(got) == 16
        failed += not same
        print(f"{'ok' if same else 'not ok'} {number} - {' '.join(configuration)}: {got}",
              flush=True)
    return failed > 0


sys.exit(main(*sys.argv[1:]))

#!/usr/bin/env python3
"""Proves the functions of this folder with CBMC, and sees that two planted mistakes are
refuted: prove.py [NAME...]. Takes cbmc, which Debian 13 has: ./dev on trixie check proof."""

import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UNAVAILABLE = 69
TIME_LIMIT = 600
MEMORY_MAX = 8 << 30  # a proof that grows beyond it fails, and not the machine

# What each file proves; the rest of the library is not needed.
SOURCES = {
    "clock": ["clock.c"],
    "fence": ["fence.c"],
    "kind": ["kind.c", "fault.c"],
    "marker": [],  # it includes marker.c, whose parts are private
    "quorum": ["quorum.c"],
    "validity": ["quorum.c"],
}

# A proof that cannot fail proves nothing: file, the line as it is, the mistake, and the
# proof that must refute it.
MISTAKES = [
    ("clock.c", "rl_time_add_sat(clock->base, rl_max(step, 0))", "clock->base + (step << 20)",
     "clock_takes_any_reading"),
    ("marker.c", "reader->at < reader->end ? hex_value", "reader->at <= reader->end ? hex_value",
     "marker_ids_are_read_within_their_text"),
]


def proofs():
    """(name, file, options) of each proof."""
    pattern = re.compile(r"/\* cbmc: (.*) \*/\nvoid proof_(\w+)\(void\)")
    for file in sorted(SOURCES):
        text = (HERE / f"{file}.c").read_text()
        found = pattern.findall(text)
        assert len(found) == text.count("void proof_"), f"{file}.c: a proof lacks its options"
        for options, name in found:
            yield name, file, options.split()


def make_scripts(header):
    """What kind.c includes, as the build makes it."""
    names = dict.fromkeys(re.findall(r"&rl_script_(\w+)",
                                     (ROOT / "src/core/kind.c").read_text()))
    subprocess.run([sys.executable, ROOT / "lua/embed.py", header,
                    *[ROOT / f"lua/{name}.lua" for name in names]], check=True)


def prove(name, file, options, core, generated):
    """The output of CBMC and the seconds it took; the proof holds if it ends so."""
    command = ["cbmc", str(HERE / f"{file}.c"), *[str(core / c) for c in SOURCES[file]],
               "-I", str(core.parent), "-I", str(ROOT / "include"), "-I", str(generated),
               "--function", f"proof_{name}", "--signed-overflow-check",
               "--unwinding-assertions", "--drop-unused-functions", *options]
    begin = time.monotonic()
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=TIME_LIMIT, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                   (MEMORY_MAX, MEMORY_MAX)))
        output = run.stdout
    except subprocess.TimeoutExpired:
        output = f"no result within {TIME_LIMIT} s\n"
    return output, time.monotonic() - begin


def holds(output):
    return output.rstrip().endswith("VERIFICATION SUCCESSFUL")


def is_refuted(output):
    return output.rstrip().endswith("VERIFICATION FAILED")


def what_failed(output):
    return [line for line in output.splitlines() if line.endswith("FAILURE")] or \
        output.splitlines()[-3:]


def plant(mistake, folder):
    """A copy of src/core with the mistake."""
    file, line, wrong, _ = mistake
    core = pathlib.Path(folder) / "src" / "core"
    shutil.copytree(ROOT / "src" / "core", core)
    text = (core / file).read_text()
    assert text.count(line) == 1, f"{file} does not have this line once: {line}"
    (core / file).write_text(text.replace(line, wrong))
    return core


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="of a proof; without one: all, and the mistakes")
    wanted = parser.parse_args().name
    if not shutil.which("cbmc"):
        print("prove.py: no cbmc here; Debian 13 has it: ./dev on trixie check proof",
              file=sys.stderr)
        return UNAVAILABLE
    known = {name: (file, options) for name, file, options in proofs()}
    for name in wanted:
        if name not in known:
            sys.exit(f"prove.py: no proof {name}; there are {', '.join(known)}")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as generated:
        generated = pathlib.Path(generated)
        make_scripts(generated / "scripts.h")
        for name in wanted or known:
            output, seconds = prove(name, *known[name], ROOT / "src" / "core", generated)
            print(f"{'proved' if holds(output) else 'FAILED'} {seconds:6.1f} s  {name}",
                  flush=True)
            passed += holds(output)
            failed += not holds(output)
            if not holds(output):
                print(*what_failed(output), sep="\n")
        for mistake in [] if wanted else MISTAKES:
            name = mistake[3]
            with tempfile.TemporaryDirectory() as folder:
                output, seconds = prove(name, *known[name], plant(mistake, folder), generated)
            print(f"{'refuted' if is_refuted(output) else 'NOT REFUTED'} {seconds:6.1f} s  "
                  f"{mistake[0]}: {mistake[2]}", flush=True)
            passed += is_refuted(output)
            failed += not is_refuted(output)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

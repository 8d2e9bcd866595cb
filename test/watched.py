#!/usr/bin/env python3
"""Runs a test under valgrind or with the sanitizers' logs kept, and fails on any finding.

Criterion runs each test in its own process and hides the exit code of that process:
a leak is reported as a passed test. So the findings go to files, and these decide.
Criterion's own leaks are suppressed by name; lanes/bite.py checks that planted mistakes
are found all the same.
Usage: watched.py valgrind|sanitizers PROGRAM [ARGUMENT...]
"""
import os
import subprocess
import sys
import tempfile

LANES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lanes")

# A forked child must leave its events where they are: the loop is its parent's. And a test
# with its own allocator must be called before valgrind's.
VALGRIND = ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--num-callers=30", "--trace-children=yes",
            "--trace-children-skip=*redis-server*", "--child-silent-after-fork=yes",
            "--soname-synonyms=somalloc=nouserintercepts",
            f"--suppressions={LANES}/valgrind.supp"]
# A cancelled thread ends without a return from its functions: what ASan had marked of its stack
# stays marked, and its own signal stack would be reported.
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:use_sigaltstack=0",
    "LSAN_OPTIONS": f"suppressions={LANES}/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
CASE_SECONDS = {"valgrind": "3000", "sanitizers": "1500"}  # these are slower


def run(tool, command, folder):
    log = os.path.join(folder, "log")
    environment = dict(os.environ, REDLOCK_WATCHED=tool, REDLOCK_CASE_SECONDS=CASE_SECONDS[tool])
    if tool == "valgrind":
        command = VALGRIND + [f"--log-file={log}.%p"] + command
    else:
        for name, options in SANITIZERS.items():
            environment[name] = f"log_path={log}:{options}"
    return subprocess.run(command, env=environment).returncode


def complaints(folder):
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), errors="replace") as log:
            text = log.read()
        if text.strip():
            yield text


def main():
    tool, command = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="redlock-watched-") as folder:
        code = run(tool, command, folder)
        for text in complaints(folder):
            print(text, file=sys.stderr)
            code = code or 1
    sys.exit(code)


if __name__ == "__main__":
    main()

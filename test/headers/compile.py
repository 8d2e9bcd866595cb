#!/usr/bin/env python3
"""Each public header alone, and all of them twice, in both orders, as C11 and as C++17, with
all warnings.

Speaks TAP. A missing compiler is skipped. A warning fails the test only
with --werror: newer compilers warn of more.
"""
import pathlib
import shutil
import subprocess
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wundef"]
if "--werror" in sys.argv:
    WARNINGS += ["-Werror"]
C_HEADERS = ["redlock.h", "admin.h", "faults.h", "stats.h", "sync.h"]
LANGUAGES = {
    "c": (["gcc", "clang"], ["-std=c11", "-Wstrict-prototypes"], C_HEADERS),
    "c++": (["g++", "clang++"], ["-std=c++17", "-Wold-style-cast"], C_HEADERS + ["redlock.hpp"]),
}


def compile_headers(compiler, language, words, headers):
    text = "".join(f"#include <redlock/{header}>\n" for header in headers)
    done = subprocess.run(
        [compiler, "-x", language, *words, *WARNINGS, f"-I{INCLUDE}", "-fsyntax-only", "-"],
        input=text + "int main(void) { return 0; }\n", text=True, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


def main():
    plan, failed = [], 0
    for language, (compilers, words, headers) in LANGUAGES.items():
        each = [[header] for header in headers]
        for compiler in compilers:
            plan += [(compiler, language, words, some)
                     for some in [*each, headers * 2, headers[::-1] * 2]]
    print(f"1..{len(plan)}")
    for number, (compiler, language, words, headers) in enumerate(plan, 1):
        name = f"{number} - {compiler} {' '.join(headers)}"
        if not shutil.which(compiler):
            print(f"ok {name} # SKIP there is no {compiler}")
            continue
        code, messages = compile_headers(compiler, language, words, headers)
        print(messages, file=sys.stderr, end="")
        failed += code != 0
        print(f"{'not ok' if code else 'ok'} {name}")
    sys.exit(failed > 0)


main()

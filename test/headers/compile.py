#!/usr/bin/env python3
"""Each public header alone, and all of them twice, in both orders, as C11 and as C++17, with
all warnings. The headers keep the program's macros. In a program that is compiled with
-fvisibility=hidden, all shared objects have the same numbers of threads in redlock.hpp.

Speaks TAP. A missing compiler is skipped. A warning fails the test only
with --werror: newer compilers warn of more.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wundef"]
if "--werror" in sys.argv:
    WARNINGS += ["-Werror"]
C_HEADERS = ["redlock.h", "admin.h", "faults.h", "kinds.h", "reasons.h",
             "settings.h", "stats.h", "sync.h"]
LANGUAGES = {
    "c": (["gcc", "clang"], ["-std=c11", "-Wstrict-prototypes"], C_HEADERS),
    "c++": (["g++", "clang++"], ["-std=c++17", "-Wold-style-cast"], C_HEADERS + ["redlock.hpp"]),
}


def compile_headers(compiler, language, words, headers):
    text = "".join(f"#include <redlock/{header}>\n" for header in headers)
    done = subprocess.run(
        [compiler, "-x", language, *words, *WARNINGS, f"-I{INCLUDE}", "-fsyntax-only", "-"],
        input="#define X 1\n" + text + "int main(void) { return X - 1; }\n", text=True, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


def hidden_numbers(compiler):
    """The symbols of redlock::mutex::this_thread() that each shared object has for itself."""
    text = ("#include <redlock/redlock.hpp>\n"
            "void lock(redlock::mutex &mutex) { mutex.lock(); }\n")
    with tempfile.TemporaryDirectory() as folder:
        compiled = f"{folder}/hidden.o"
        subprocess.run([compiler, "-x", "c++", "-std=c++17", "-fvisibility=hidden",
                        f"-I{INCLUDE}", "-c", "-", "-o", compiled],
                       input=text, text=True, check=True)
        listed = subprocess.run(["readelf", "-sW", compiled], text=True, check=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
    found = [line for line in listed if "11this_threadEvE" in line and "OBJECT" in line]
    return [line for line in found if " DEFAULT " not in line] if found else ["none"]


def main():
    plan, failed = [], 0
    for language, (compilers, words, headers) in LANGUAGES.items():
        each = [[header] for header in headers]
        for compiler in compilers:
            plan += [(compiler, language, words, some)
                     for some in [*each, headers * 2, headers[::-1] * 2]]
    cxx = LANGUAGES["c++"][0]
    print(f"1..{len(plan) + len(cxx)}")
    for number, (compiler, language, words, headers) in enumerate(plan, 1):
        name = f"{number} - {compiler} {' '.join(headers)}"
        if not shutil.which(compiler):
            print(f"ok {name} # SKIP there is no {compiler}")
            continue
        code, messages = compile_headers(compiler, language, words, headers)
        print(messages, file=sys.stderr, end="")
        failed += code != 0
        print(f"{'not ok' if code else 'ok'} {name}")
    for number, compiler in enumerate(cxx, len(plan) + 1):
        name = f"{number} - {compiler} -fvisibility=hidden"
        if not shutil.which(compiler):
            print(f"ok {name} # SKIP there is no {compiler}")
            continue
        hidden = hidden_numbers(compiler)
        print(*hidden, sep="\n", file=sys.stderr)
        failed += bool(hidden)
        print(f"{'not ok' if hidden else 'ok'} {name}")
    sys.exit(failed > 0)


main()

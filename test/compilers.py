#!/usr/bin/env python3
"""All of src/ compiles without a warning: at each optimisation, by clang, for i386, with musl.

usage: compilers.py BUILD    Speaks TAP. Nothing is linked or run.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
SYSTEM = pathlib.Path("/usr/include")
# What the library and the command include besides the C library; musl-gcc searches no /usr/include.
OTHERS = ("hiredis", "event2", "openssl", "jansson.h", "jansson_config.h", "linux", "asm",
          "asm-generic")
OURS = ("src/librl_core.a.p/", "src/librl_inside.a.p/", "src/cli/redlock.p/")
NOT_FOR_OTHERS = ("-m", "-O", "-MD", "-fdiagnostics", "-D_FORTIFY_SOURCE")
WITH_VALUE = ("-MQ", "-MF", "-o")


def headers(folder):
    """Makes `folder` show the headers of OTHERS, also those that depend on the machine."""
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True,
                             check=True).stdout.strip()
    for name in OTHERS:
        for place in (SYSTEM, SYSTEM / machine):
            if (place / name).is_dir():
                shutil.copytree(place / name, folder / name, dirs_exist_ok=True)
            elif (place / name).exists():
                shutil.copy(place / name, folder / name)


def compilations():
    """Per source file the words of its command without the compiler and its own options."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if not entry["output"].startswith(OURS):
            continue
        words, kept = shlex.split(entry["command"])[1:], []
        while words:
            word = words.pop(0)
            if word in WITH_VALUE:
                words.pop(0)
            elif not word.startswith(NOT_FOR_OTHERS) and word != f"-I{SYSTEM}":
                kept.append(word)
        yield kept


def failures(compiler, *options):
    """Messages of the compiler about each file that it refuses."""
    def compile_one(words):
        done = subprocess.run([*compiler, *words, *options, "-Werror", "-o", os.devnull],
                              cwd=BUILD, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode != 0 else ""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(compile_one, sources) if text]


def works(compiler):
    """This compiler is here, with a C library."""
    if not shutil.which(compiler[0]):
        return False
    return subprocess.run([*compiler, "-fsyntax-only", "-xc", "-"], input="#include <stdio.h>\n",
                          capture_output=True, text=True, check=False).returncode == 0


sources = list(compilations())
with tempfile.TemporaryDirectory() as made:
    headers(pathlib.Path(made))
    musl = ("-isystem", made, "-fsyntax-only", "-URL_HAS_SEM_CLOCKWAIT")
    i386 = ("-idirafter", made, "-idirafter", str(SYSTEM), "-O2")
    cases = [(("gcc",), ("-O0",)), (("gcc",), ("-Os",)), (("gcc",), ("-O3",)),
             (("clang",), ("-O3",)), (("gcc", "-m32"), i386), (("musl-gcc",), musl)]
    print(f"1..{len(cases)}")
    for number, (compiler, options) in enumerate(cases, 1):
        name = " ".join((*compiler, *(word for word in options if word.startswith("-O"))))
        if not works(compiler):
            print(f"ok {number} - {name} # SKIP it is not installed")
            continue
        found = failures(compiler, *options)
        for text in found:
            print("# " + text.replace("\n", "\n# "))
        print(f"{'not ok' if found else 'ok'} {number} - {name}", flush=True)

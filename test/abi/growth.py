#!/usr/bin/env python3
"""May the structs that rule 9 of redlock.h lets grow do so? Speaks TAP.

usage: growth.py BUILD_DIR, with nodes in REDLOCK_NODES

Compiles the library once more with include/redlock in which each of these structs has a member
more, and program.c with both. Then the old program runs with the new library, and the new
program with the old one. The table of rule 9 has each struct of the headers, once.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from abi import table  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).with_name("program.c")
HEADERS = {path.name: path.read_text() for path in (ROOT / "include/redlock").glob("*.h")}
STRUCT = re.compile(r"^\} redlock_(\w+);", re.MULTILINE)
PARTS = ("src/librl_inside.a.p/", "src/librl_core.a.p/")
LONGEST_RUN_S = 120


def structs():
    return [name for text in HEADERS.values() for name in re.findall(
        r"^typedef struct redlock_(\w+) \{", text, re.MULTILINE)]


def grown(text, names):
    return STRUCT.sub(lambda end: "    int64_t grown;\n" * (end[1] in names) + end[0], text)


def words_of(command):
    """What a file needs to be compiled, without the folder of the public headers."""
    return [word for word in shlex.split(command)
            if word[:2] in ("-I", "-D") and word != "-I../../include" or
            word.startswith(("-std=", "-fsanitize"))]


def compile_library(commands, folder, include, sanitized):
    def compile_one(number, one):
        made = folder / f"{number}.o"
        subprocess.run([*compiler(one["command"]), f"-I{include}", *words_of(one["command"]),
                        "-D_Static_assert(...)=", "-w", "-fPIC", "-fvisibility=hidden", "-c",
                        one["file"], "-o", made], cwd=one["directory"], check=True)
        return made

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, range(len(commands)), commands))
    subprocess.run([*compiler(commands[0]["command"]), "-shared", *objects, "-lhiredis",
                    "-levent_core", "-levent_extra", "-ldl", "-pthread", *sanitized,
                    "-Wl,-soname,libredlock.so.1",
                    f"-Wl,--version-script={ROOT / 'src/redlock.map'}",
                    "-o", folder / "libredlock.so.1"], check=True)


def compiler(command):
    words = shlex.split(command)
    return words[:2] if words[0].endswith("ccache") else words[:1]


def compile_program(path, include, folder, *words):
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror",
                    f"-I{include}", PROGRAM, "-o", path, folder / "libredlock.so.1", "-levent_core",
                    *words], check=True)


def run(program, library, *words):
    return subprocess.run([program, *words, *os.environ["REDLOCK_NODES"].split(",")], check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": str(library)},
                          timeout=LONGEST_RUN_S).returncode == 0


def main(build):
    kinds = table()
    listed = sorted(name for names in kinds.values() for name in names)
    results = [("the table has each struct once", listed == sorted(structs()))]
    if not results[0][1]:
        print(*set(listed) ^ set(structs()), file=sys.stderr)
    old = build / "src"
    with tempfile.TemporaryDirectory() as name:
        new = pathlib.Path(name)
        include = new / "include"
        (include / "redlock").mkdir(parents=True)
        for header, text in HEADERS.items():
            (include / "redlock" / header).write_text(
                grown(text, kinds["sized"] + kinds["owned"]))
        commands = [one for one in json.loads((build / "compile_commands.json").read_text())
                    if one["output"].startswith(PARTS)]
        words = [word for word in words_of(commands[0]["command"]) if "sanitize" in word]
        compile_program(new / "old", ROOT / "include", old, *words)
        compile_program(new / "new", include, old, "-DGROWN", *words)
        compile_library(commands, new, include, words)
        results += [("the old program with the new library", run(new / "old", new, "of:")),
                    ("the new program with the old library", run(new / "new", old, "no:", "old")),
                    ("the new program with the new library", run(new / "new", new, "nn:"))]
    print(f"1..{len(results)}")
    for number, (what, right) in enumerate(results, 1):
        print("ok" if right else "not ok", number, "-", what)
    sys.exit(not all(right for _, right in results))


main(pathlib.Path(sys.argv[1]).resolve())

#!/usr/bin/env python3
"""Do programs that were built with the baseline's headers run with this library?

usage: abi.py LIBREDLOCK.SO   compares the library with the baseline, by abidiff
       abi.py --update        makes include/redlock the baseline

The baseline is a copy of the public headers without comments. Where two are compared, each is
compiled into a library of empty functions, by the compiler of this machine: so neither a
compiler nor a format of abidiff is part of the baseline. Accepted are new functions, new
enumerators, and new members at the end of a struct that rule 9 of redlock.h does not call frozen.
Every other difference is an error.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include/redlock"
BASELINE = HERE / "baseline/redlock"
SONAME = "libredlock.so.1"
VERSIONS = "REDLOCK_1 { global: redlock_*; local: *; };\n"
FUNCTION = re.compile(r"^(REDLOCK_API [^;{]+\));", re.MULTILINE)
STRUCT = re.compile(r"(?<=typedef struct )(\w+) \{(.*?)(?=\} \1;)", re.DOTALL)
ABIDIFF_ERRORS = 1 | 2  # bits of its exit code: it failed, or was called wrongly


def table():
    """{"sized": [structs without redlock_] ...}, as rule 9 of redlock.h has them."""
    rule = re.search(r"^ \*  9\. Growth\..*?\*/", (INCLUDE / "redlock.h").read_text(),
                     re.MULTILINE | re.DOTALL)[0]
    text = re.sub(r"^ \*", "", rule, flags=re.MULTILINE)
    return {kind: re.findall(r"\w+", re.search(rf"^ +{kind} +([\w,\s]+?)(?=\n +\w+  |\n\n)", text,
                                               re.MULTILINE)[1])
            for kind in ("sized", "owned", "frozen")}


def compiler(*words, **more):
    return subprocess.run([os.environ.get("CC", "cc"), *words], check=True, text=True, **more)


def read(folder):
    """{name: the text of the header, without comments}"""
    return {header.name: re.sub(r" +$", "", compiler(
        "-w", "-fpreprocessed", "-dD", "-E", "-P", header, stdout=subprocess.PIPE).stdout,
        flags=re.MULTILINE) for header in folder.glob("*.h")}


def compiled(headers, *words):
    """What the compiler prints of a file that includes all headers."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**headers, "versions": VERSIONS}.items():
            pathlib.Path(folder, name).write_text(text)
        return compiler("-x", "c", "-", "-w", "-I.", *words, cwd=folder, stdout=subprocess.PIPE,
                        input="".join(f'#include "{name}"\n' for name in sorted(headers))).stdout


def empty_library(path, headers):
    """Compiles the headers; each declaration of a public function becomes a definition."""
    compiled({name: FUNCTION.sub(r"\1 { __builtin_trap(); }", text)
              for name, text in headers.items()}, "-g", "-shared", "-fPIC", "-o", path,
             f"-Wl,-soname,{SONAME},--version-script=versions")


def enumerators(headers):
    """Their names: to abidiff another name of the same value is harmless since 3.0."""
    return {name for body in re.findall(r"\benum \w+ *\{(.*?)\}", compiled(headers, "-E", "-P"),
                                        re.DOTALL) for name in re.findall(r"REDLOCK_\w+", body)}


def without_growth(headers, baseline):
    """Structs lose the members that they have after those of the baseline."""
    old = dict(match.groups() for text in baseline.values() for match in STRUCT.finditer(text))
    frozen = {f"redlock_{name}" for name in table()["frozen"]}

    def trimmed(match):
        name, members = match.groups()
        kept = " ".join(old.get(name, "").split())
        grew = name in old and " ".join(members.split()).startswith(kept)
        return f"{name} {{{old[name]}" if grew and name not in frozen else match[0]

    return {name: STRUCT.sub(trimmed, text) for name, text in headers.items()}


def is_same(old, new):
    """Whether `new` has what `old` has; prints what differs."""
    code = subprocess.run(["abidiff", "--no-added-syms", old, new], check=False).returncode
    if code < 0 or code & ABIDIFF_ERRORS:
        sys.exit(f"abidiff failed: exit code {code}")
    return code == 0


def is_compatible(headers, baseline):
    gone = enumerators(baseline) - enumerators(headers)
    if gone:
        print("enumerators that are gone:", *sorted(gone))
        return False
    with tempfile.TemporaryDirectory() as folder:
        old, new = (pathlib.Path(folder, name) for name in ("old.so", "new.so"))
        empty_library(old, baseline)
        empty_library(new, without_growth(headers, baseline))
        return is_same(old, new)


def is_built_from(library, headers):
    with tempfile.TemporaryDirectory() as folder:
        empty_library(pathlib.Path(folder, SONAME), headers)
        return is_same(pathlib.Path(folder, SONAME), library)


def main(word):
    headers = read(INCLUDE)
    if word == "--update":
        for name, text in headers.items():
            (BASELINE / name).write_text(text)
        return
    if not is_compatible(headers, read(BASELINE)):
        sys.exit("Programs that use this library would have to be built again. "
                 "./dev check abi --update makes the present headers the baseline.")
    if not is_built_from(word, headers):
        sys.exit(f"{word} is not what the headers declare")
    print("compatible with the baseline")


if __name__ == "__main__":
    main(sys.argv[1])

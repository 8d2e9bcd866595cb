#!/usr/bin/env python3
"""Four lists of the public functions are equal: the declarations in include/redlock, the version
script src/redlock.map, debian/libredlock1.symbols, and what a built library exports.

usage: symbols.py LIBREDLOCK.SO   compares them
       symbols.py --update        writes the version script and Debian's list by the headers
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAP = ROOT / "src/redlock.map"
DEBIAN = ROOT / "debian/libredlock1.symbols"
NODE = "REDLOCK_1"  # the version of all symbols
DEBIAN_HEAD = """\
libredlock.so.1 libredlock1 #MINVER#
* Build-Depends-Package: libredlock-dev
"""


def declared():
    text = "".join(path.read_text() for path in (ROOT / "include/redlock").glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return set(re.findall(r"^REDLOCK_API [^;(]*?\b(\w+)\(", text, re.MULTILINE))


def mapped():
    return set(re.findall(r"^    ([^;]+);$", MAP.read_text(), re.MULTILINE))


def packaged():
    """{symbol: the first release that has it}"""
    text = DEBIAN.read_text() if DEBIAN.exists() else ""
    return dict(re.findall(rf"^ (\w+)@{NODE} (\S+)$", text, re.MULTILINE))


def exported(library):
    shown = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout
    return {line.split()[-1].removesuffix(f"@@{NODE}") for line in shown.splitlines()}


def update():
    functions, since = declared(), packaged()
    release = re.search(r"version: '(\S+)'", (ROOT / "meson.build").read_text())[1]
    lines = "".join(f"    {name};\n" for name in sorted(functions))
    MAP.write_text("/* The functions of the public headers: test/abi/symbols.py --update */\n"
                   f"{NODE} {{\n  global:\n{lines}  local: *;\n}};\n")
    DEBIAN.write_text(DEBIAN_HEAD + "".join(
        f" {name}@{NODE} {since.get(name, release)}\n" for name in [NODE, *sorted(functions)]))


def compare(library):
    lists = {MAP.relative_to(ROOT): mapped(),
             DEBIAN.relative_to(ROOT): set(packaged()) - {NODE},
             library: exported(library) - {NODE}}
    wrong = [f"{name} is {kind} {place}" for place, found in lists.items()
             for kind, names in (("missing in", declared() - found),
                                 ("no public function, but in", found - declared()))
             for name in sorted(names)]
    if wrong:
        sys.exit("\n".join([*wrong, "./dev check abi --update writes the lists by the headers"]))
    print(f"{len(declared())} public functions")


if sys.argv[1:] == ["--update"]:
    update()
else:
    compare(sys.argv[1])

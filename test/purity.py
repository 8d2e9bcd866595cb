#!/usr/bin/env python3
"""The core makes every decision and has no side effects: purity.py CC SOURCE_ROOT

Fails if the core, compiled as users compile it, calls anything outside itself but the
compiler's own helpers, or includes anything but standard C headers, itself and its scripts.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SYMBOLS = {
    "memcpy", "memmove", "memset", "memcmp", "bcmp",  # compilers call them implicitly
    "__assert_fail", "__stack_chk_fail",
    "__popcountdi2", "__divti3",  # arithmetic that the machine lacks
}
HEADERS = {
    "assert.h", "limits.h", "stdalign.h", "stdbool.h", "stddef.h", "stdint.h", "string.h",
}
# made by the build; public and only tables
MADE = {"scripts.h", "redlock/faults.h", "redlock/kinds.h", "redlock/reasons.h"}


def foreign_includes(core):
    for path in sorted(core.rglob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(?:<(.+)>|"(.+)"|(.+))', line)
            if not match:
                continue
            system, own, other = match.groups()
            if other or (system and system not in HEADERS) or (
                    own and own not in MADE and not (path.parent / own).is_file()
                    and not (core.parent / own).is_file()):
                yield f"{path.name}:{number}: {line.strip()}"


def foreign_symbols(cc, root, scratch):
    scripts = [path for path in sorted((root / "lua").glob("*.lua"))
               if not path.read_text().startswith("-- part:")]
    subprocess.run([sys.executable, root / "lua/embed.py", scratch / "scripts.h", *scripts],
                   check=True)
    sources = sorted((root / "src/core").rglob("*.c"))
    assert sources, "no core"
    objects = [scratch / (source.stem + ".o") for source in sources]
    for source, target in zip(sources, objects):
        subprocess.run([*cc, "-std=c11", "-O2", "-I", scratch, "-I", root / "src", "-I", root / "include",
                        "-c", source, "-o", target],
                       check=True)
    whole = scratch / "core.o"
    subprocess.run(["ld", "-r", "-o", whole, *objects], check=True)
    listed = subprocess.run(["nm", "-u", whole], check=True, capture_output=True, text=True)
    undefined = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    return sorted(undefined - SYMBOLS)


def main(*arguments):
    *cc, root = arguments
    root = pathlib.Path(root)
    with tempfile.TemporaryDirectory() as scratch:
        symbols = foreign_symbols(cc, root, pathlib.Path(scratch))
    includes = list(foreign_includes(root / "src/core"))
    for symbol in symbols:
        print(f"the core calls {symbol}")
    for include in includes:
        print(f"the core includes {include}")
    return 1 if symbols or includes else 0


sys.exit(main(*sys.argv[1:]))

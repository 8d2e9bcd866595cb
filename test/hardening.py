#!/usr/bin/env python3
"""./dev check hardening: what the ELF files that were built have against exploits: FILE...

A file is position-independent, its stack is not executable, its relocations are read-only after
the start (full RELRO), and it has checks of stack frames and of buffers (_FORTIFY_SOURCE). CET
is only shown: a file has what all that is linked into it has, Debian's crt*.o, too. The exit
code is 1 if a file lacks one of the others. In a static file the checks of frames and buffers may
be those of the libraries.
"""
import os
import pathlib
import re
import subprocess
import sys

# Of the output of readelf and nm.
NEEDED = {
    "PIE": r"^ +Type: +DYN ",
    "stack not executable": r"GNU_STACK.* RW +0x\w+$",
    "RELRO": r"GNU_RELRO",
    "BIND_NOW": r"Flags:.* NOW\b",
    "stack protector": r"\b__stack_chk_fail\b",
    "fortify": r"\b__\w+_chk\b",
}
CET = r"x86 feature: (.*)"


def dump(path):
    """A file that is not stripped has more symbols than the dynamic ones."""
    return "".join(subprocess.run([*words, path], capture_output=True, text=True, check=True,
                                  env={**os.environ, "LC_ALL": "C"}).stdout
                   for words in (("readelf", "-hldnW"), ("nm",), ("nm", "-D")))


def main(paths):
    faults = 0
    for path in paths:
        text = dump(path)
        missing = [name for name, pattern in NEEDED.items()
                   if not re.search(pattern, text, re.MULTILINE)]
        cet = re.search(CET, text)
        print(f"{path}: {'lacks ' + ', '.join(missing) if missing else ', '.join(NEEDED)}; "
              f"CET {cet[1] if cet else 'not marked'}")
        faults += bool(missing)
    print(f"{len(paths)} files, {faults} lack something")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main([path for path in sys.argv[1:] if pathlib.Path(path).exists()]))

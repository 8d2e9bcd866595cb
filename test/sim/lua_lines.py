#!/usr/bin/env python3
"""The lines of lua/ that no script executes in N seeds: lua_lines.py SIM N [--from S]

The simulator counts the lines of each script that it is sent. A part is in several scripts; a
line of it is reached if one of them executes it.
"""
import hashlib
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
LUA = pathlib.Path(__file__).resolve().parents[2] / "lua"
sys.path.insert(0, str(LUA))
import embed  # noqa: E402
import variables  # noqa: E402

MISSED = re.compile(r"script (\w+), line (\d+) is never executed: ")


def sources(path):
    """Each line of a script, in its order: (file, line, text)."""
    for number, line in enumerate(map(str.strip, path.read_text().splitlines()), 1):
        if line.startswith(variables.WITH):
            yield from sources(path.parent / line.removeprefix(variables.WITH))
        elif line and not line.startswith("--"):
            yield path.name, number, line


def main(sim, *words):
    run = subprocess.run([sim, "--lua-lines", *words], stdout=subprocess.PIPE, text=True)
    missed = {(script, int(line)) for script, line in MISSED.findall(run.stdout)}
    if not re.search(r"of \d+ scripts$", run.stdout):
        sys.exit(run.stdout)
    lines, reached = set(), set()
    for path in LUA.glob("*.lua"):
        if path.read_text().startswith(variables.PART):
            continue
        script = hashlib.sha1(embed.body(path).encode()).hexdigest()[:8]
        for i, line in enumerate(sources(path), 1):
            lines.add(line)
            if (script, i) not in missed:
                reached.add(line)
    # Lua jumps over the end of a loop or a branch that it leaves otherwise.
    left = sorted(line for line in lines - reached if line[2] != "end")
    for name, number, text in left:
        print(f"lua/{name}:{number} is never executed: {text}")
    print(f"{len(lines) - len(left)} of {len(lines)} lines of lua/")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

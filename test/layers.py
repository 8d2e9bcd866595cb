#!/usr/bin/env python3
"""Calls and includes go down the table of rooms in docs/architecture.md: layers.py BUILD

Two views of src/, each of which can miss what the other finds: the #include lines, and the
symbols that one object needs and another defines. A room may use itself and the rooms of its
row, and those that share the row; and of a header in its row, the functions named after it.
Files that call each other in a circle must be one of the groups that the document lists.
"""
import collections
import functools
import itertools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
DOCUMENT = ROOT / "docs" / "architecture.md"
PUBLIC = "public headers"


# --- the document ---

def read_rooms(text):
    """{room: what it may use}, from the rows "| `core/` | ... |" and "| `cli/main.c` | ... |"."""
    rooms = {}
    for names, uses in re.findall(r"^\| (`[^|]*(?:/|\.c)`) \| ([^|]*) \|$", text, re.MULTILINE):
        row = re.findall(r"`([^`]*?)/?`", names)
        for name in row:
            rooms[name] = set(re.findall(r"`([^`]+)`", uses)) | set(row) | (
                {PUBLIC} if PUBLIC in uses else set())
    return rooms


def read_groups(text):
    """[files of a group], from the lines "- group NAME: `a.c`, `b.c`"."""
    lines = re.findall(r"^- group [^:]+: ((?:.|\n  )+)", text, re.MULTILINE)
    return [set(re.findall(r"`([^`]+\.c)`", line)) for line in lines]


# --- the sources ---

def room_of(path, rooms):
    file = str(path.relative_to(SRC))
    return file if file in rooms else str(path.parent.relative_to(SRC))


def included(path, name):
    """The project's file that the line names; None: it is generated, or public."""
    return next((found for found in ((folder / name).resolve() for folder in
                                     (path.parent, SRC, SRC / "cli")) if found.is_file()), None)


def includes():
    """(using file, used file or PUBLIC) for each #include of ours."""
    for path in sorted(SRC.rglob("*.[ch]")):
        for name in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(), re.MULTILINE):
            if name.startswith("redlock/"):
                yield path, PUBLIC
            elif found := included(path, name):
                yield path, found


def objects(build):
    """{source: object} of the library and the command."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return {(build / entry["file"]).resolve(): build / entry["output"]
            for entry in entries if re.match(r"src/(librl_\w+\.a|cli/redlock)\.p/", entry["output"])}


@functools.cache
def symbols(path):
    """The symbols that it defines, and needs."""
    lines = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    defined, needed = set(), set()
    for line in lines.splitlines():
        *_, kind, name = line.split()
        if kind == "U":
            needed.add(name)
        elif kind.isupper():
            defined.add(name)
    return defined, needed


def calls(build):
    """(using file, used file, symbol) for each symbol of the library that crosses files."""
    found = {source: symbols(path) for source, path in objects(build).items()}
    home = {name: source for source, (defined, _) in found.items() for name in defined}
    for source, (_, needed) in sorted(found.items()):
        for name in sorted(needed):
            if name in home and home[name] != source:
                yield source, home[name], name


def inline_home():
    """{function: file} of the headers' inline functions: the file with the header's name."""
    home = {}
    for path in SRC.rglob("*.h"):
        source = path.with_suffix(".c")
        for name in re.findall(r"^static inline [^;{]*?\b(\w+)\(", path.read_text(), re.MULTILINE):
            home[name] = source if source.exists() else path
    return home


def inline_calls():
    """Calls of inline functions, which leave no symbol."""
    home = inline_home()
    for path in sorted(SRC.rglob("*.[ch]")):
        source = path.with_suffix(".c")
        user = source if source.exists() else path
        for name in sorted(set(re.findall(r"\b(\w+)\(", path.read_text()))):
            if home.get(name, user) != user:
                yield user, home[name], name


# --- the rules ---

def header_of(used):
    return used if used == PUBLIC else str(used.relative_to(SRC))


def prefixes(uses, other):
    """Functions of single headers of a room: rl_hand_over_ for lease/hand_over.h."""
    return [f"rl_{use[len(other) + 1:-2]}_" for use in uses
            if use.startswith(other + "/") and use.endswith(".h")]


def wrong_uses(rooms, build):
    """Lines about what goes up, or sideways."""
    for user, used in includes():
        room, other = room_of(user, rooms), used if used == PUBLIC else room_of(used, rooms)
        if other != room and other not in rooms[room] and header_of(used) not in rooms[room]:
            yield f"{user.relative_to(ROOT)} includes {used if used == PUBLIC else used.name} " \
                  f"of {other}, which {room} may not use"
    for user, used, name in calls(build):
        room, other = room_of(user, rooms), room_of(used, rooms)
        is_public = name.startswith("redlock_") and PUBLIC in rooms[room]
        is_public |= any(name.startswith(prefix) for prefix in prefixes(rooms[room], other))
        if other != room and other not in rooms[room] and not is_public:
            yield f"{user.relative_to(ROOT)} calls {name}() of {other}, which {room} may not use"


def circles(edges):
    """The sets of files that reach each other (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for node in list(edges):
        if node not in index:
            visit(node)
    return found


def wrong_circles(groups, build):
    edges = collections.defaultdict(set)
    for user, used, name in itertools.chain(calls(build), inline_calls()):
        if not name.startswith("redlock_"):
            edges[user].add(used)
            edges[used]
    for circle in circles(edges):
        names = {str(path.relative_to(SRC)) for path in circle}
        if not any(names <= group for group in groups):
            yield f"these files call each other in a circle: {', '.join(sorted(names))}"


def main(build):
    text = DOCUMENT.read_text()
    rooms, groups = read_rooms(text), read_groups(text)
    missing = {room_of(path, rooms) for path in SRC.rglob("*.c")} - set(rooms)
    wrong = [f"{DOCUMENT.name} has no row for {room}/" for room in sorted(missing)]
    if not missing:
        wrong = [*wrong_uses(rooms, build), *wrong_circles(groups, build)]
    print("\n".join(wrong) or f"{len(rooms)} rooms, {len(groups)} groups: every use goes down")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

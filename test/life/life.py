#!/usr/bin/env python3
"""The files that one plain lock enters, in order: life.py REDLOCK LIFE [--check]

Runs LIFE on one private redis-server. LIFE prints the functions of the library that are
entered and left while it acquires a key and releases it. Prints each call that comes from
outside of the library, and the files of src/ that it enters, in the order of their first
entry; then the calls that go up the table of rooms. These are callbacks: layers.py forbids
direct calls. --check: compares these lines with docs/architecture.md instead of printing them.
A file that time alone makes the client enter (BY_TIME) is left out.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import layers

WIDTH = 92
BY_TIME = {"base/system_clock.c"} # the second clock is read again after 250 us (core/clock.h)
TRIES = 5 # a machine that stalls for seconds lets a timer of the client fire in between


def trace(redlock, life):
    """[(True if it enters, address)]"""
    lines = subprocess.run([redlock, "local", "-n", "1", "--", life], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [(what == "enter", address) for what, address in map(str.split, lines)]


def places(life, addresses):
    """{address: (function, file below src/)}; the file is None outside of src/."""
    lines = subprocess.run(["addr2line", "-f", "-e", life, *addresses], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    found = {}
    for address, function, place in zip(addresses, lines[::2], lines[1::2]):
        file = re.search(r"/src/([a-z_/]+\.[ch]):", place)
        found[address] = function, file and file[1]
    return found


def follow(steps, place, rooms):
    """[(function called from outside, [files])], and the pairs of files that go up.

    A function of a system header, which a compiler may leave hooked, counts as its caller's.
    """
    found, up, stack = [], [], []
    for enters, address in steps:
        if not enters:
            stack.pop()
            continue
        function, file = place[address]
        file = file or stack[-1]
        if not stack:
            found.append((function, []))
        elif goes_up(rooms, stack[-1], file) and (stack[-1], file) not in up:
            up.append((stack[-1], file))
        stack.append(file)
        if file.endswith(".c") and file not in {*found[-1][1], *BY_TIME}:
            found[-1][1].append(file)
    return found, up


def goes_up(rooms, user, used):
    room, other = str(pathlib.Path(user).parent), str(pathlib.Path(used).parent)
    return room != other and other not in rooms[room]


def wrap(words):
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) >= WIDTH:
            lines.append(line)
            line = "  "
        line += f" {word}" if line else word
    return "\n".join([*lines, line.rstrip(",")]) + "\n"


def describe(found, up):
    """The lines of the document."""
    return "".join(
        [wrap([f"{number}.", f"`{function}()`:", *(f"`{file}`," for file in files)])
         for number, (function, files) in enumerate(found, 1)] +
        [wrap(["-", "Callbacks:", *(f"`{user}` to `{used}`," for user, used in up)])])


def play(redlock, life):
    steps = trace(redlock, life)
    rooms = layers.read_rooms(layers.DOCUMENT.read_text())
    return describe(*follow(steps, places(life, sorted({step[1] for step in steps})), rooms))


def main(redlock, life, check=None):
    if not check:
        print(play(redlock, life), end="")
        return 0
    document = layers.DOCUMENT.read_text()
    for _ in range(TRIES):
        text = play(redlock, life)
        if text in document:
            return 0
    print(f"{layers.DOCUMENT} does not have these lines:\n{text}", end="")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

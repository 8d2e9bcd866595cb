#!/usr/bin/env python3
"""Makes the pictures of a terminal, docs/session.svg and docs/top.svg: pictures.py REDLOCK

session.svg: the first lines of "Sixty seconds" in README.md, typed into a shell of `redlock
local`. top.svg: `redlock top`, while some clients have locks on five private servers.
"""
import html
import os
import pathlib
import re
import sys
import time

DOCS = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(DOCS.parent / "test/cli"))
import lab  # noqa: E402
from lab import case, on, redlock, start  # noqa: E402
from readme_lines import session_lines  # noqa: E402
from terminal import Terminal  # noqa: E402

ROWS, COLUMNS, TOP_COLUMNS, LINE, WIDTH = 14, 80, 104, 18, 8.4
PROMPT = "$ "
TYPING_SECONDS = 0.3
LOCKS = (("--fence", "orders"), ("--shared", "report"), ("--shared", "report"),
         ("--and", "account:7", "account:3"), ("--slots", "3", "gpu"), ("--slots", "3", "gpu"),
         ("nightly@20417",))


def draw(lines, name):
    columns = max(map(len, lines))
    rows = "\n".join(f'<text x="12" y="{(i + 1) * LINE + 8}" xml:space="preserve"'
                     f'{" fill=" + chr(34) + "#fff" + chr(34) if line.startswith(PROMPT) else ""}>'
                     f"{html.escape(line)}</text>" for i, line in enumerate(lines))
    (DOCS / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{int(columns * WIDTH + 24)}" '
        f'height="{len(lines) * LINE + 24}">\n'
        f'<rect width="100%" height="100%" rx="6" fill="#1b1f24"/>\n'
        f'<g font-family="monospace" font-size="14" fill="#aab4bf">\n{rows}\n</g></svg>\n')


@case("session.svg")
def _(quorum):
    shown = []
    with Terminal([lab.program, "local", "-n", "5", "--", "bash", "--norc", "--noprofile"],
                  {"PATH": f"{os.path.dirname(lab.program)}:{os.environ['PATH']}",
                   "PS1": PROMPT, "TERM": "dumb"}) as terminal:
        terminal.resize(ROWS, 2 * COLUMNS)
        terminal.expect(r"\$ $")
        for line in session_lines():
            time.sleep(TYPING_SECONDS)  # the job gets its lock meanwhile
            terminal.type(line + "\n")
            shown.append(PROMPT + terminal.expect(r"(?s)(.+\n)\$ $")[1])
        terminal.type("exit\n")
        terminal.end(0)
    draw("".join(shown).splitlines(), "session.svg")


@case("top.svg")
def _(quorum):
    redlock("admit", "--new", "--at-once", "--max-ttl", "10m", env=on(quorum)).expect(0)
    for index, words in enumerate(LOCKS):
        config = lab.write(lab.temporary("config"), "")
        redlock("acquire", "-n", "-t", f"{3 + index}m", *words,
                env=on(quorum, REDLOCK_CONFIG=config)).expect(0)
    waiters = [start("run", "orders", "--", "true", env=on(quorum)) for _ in range(3)]
    with Terminal([lab.program, "top"], on(quorum)) as terminal:
        terminal.resize(ROWS, TOP_COLUMNS)
        screen = terminal.expect(r"(?s)\x1b\[H(redlock top: 6 locks, 1 of them(?:(?!\x1b\[H).)*)\x1b\[J")[1]
        terminal.type("\x03")
        terminal.end(130)
    for waiter in waiters:
        waiter.terminate()
        waiter.communicate()
    draw(re.split(r"\x1b\[K\n?", screen)[:-1], "top.svg")


lab.main()

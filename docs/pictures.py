#!/usr/bin/env python3
"""Makes docs/session.svg, the picture of a terminal: pictures.py REDLOCK

It shows the first lines of "Sixty seconds" in README.md, typed into a shell of `redlock local`.
"""
import html
import os
import pathlib
import sys
import time

DOCS = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(DOCS.parent / "test/cli"))
import lab  # noqa: E402
from lab import case  # noqa: E402
from readme_lines import session_lines  # noqa: E402
from terminal import Terminal  # noqa: E402

ROWS, COLUMNS, LINE, WIDTH = 14, 80, 18, 8.4
PROMPT = "$ "
TYPING_SECONDS = 0.3


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


lab.main()

#!/usr/bin/env python3
"""Makes the picture of `redlock top` in docs/kinds.md: top.py REDLOCK OUT.svg

Some clients take locks on five private servers; the picture is what a terminal of 80 columns
shows then.
"""
import html
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test/cli"))
import lab  # noqa: E402
from lab import case, on, redlock, start  # noqa: E402
from terminal import Terminal  # noqa: E402

ROWS, COLUMNS, LINE, WIDTH = 14, 80, 18, 8.4
LOCKS = (("--fence", "orders"), ("--shared", "report"), ("--shared", "report"),
         ("--and", "account:7", "account:3"), ("--slots", "3", "gpu"), ("--slots", "3", "gpu"),
         ("nightly@20417",))


def draw(lines, path):
    rows = "".join(f'<text x="12" y="{(i + 1) * LINE + 8}" xml:space="preserve">'
                   f"{html.escape(line)}</text>" for i, line in enumerate(lines))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{int(COLUMNS * WIDTH + 24)}" '
        f'height="{len(lines) * LINE + 24}"><rect width="100%" height="100%" rx="6" fill="#1b1f24"/>'
        f'<g font-family="monospace" font-size="14" fill="#d7dde3">{rows}</g></svg>\n')


@case("the picture")
def _(quorum):
    redlock("admit", "--new", "--at-once", "--max-ttl", "10m", env=on(quorum)).expect(0)
    for index, words in enumerate(LOCKS):
        config = lab.write(lab.temporary("config"), "")
        redlock("acquire", "-n", "-t", f"{3 + index}m", *words,
                env=on(quorum, REDLOCK_CONFIG=config)).expect(0)
    waiters = [start("run", "orders", "--", "true", env=on(quorum)) for _ in range(3)]
    with Terminal([lab.program, "top"], on(quorum)) as terminal:
        terminal.resize(ROWS, COLUMNS)
        screen = terminal.expect(r"(?s)\x1b\[H(redlock top: 6 locks, 1 of them(?:(?!\x1b\[H).)*)\x1b\[J")[1]
        terminal.type("\x03")
        terminal.end(130)
    for waiter in waiters:
        waiter.terminate()
        waiter.communicate()
    draw(re.split(r"\x1b\[K\n?", screen)[:-1], out)


out = pathlib.Path(sys.argv.pop(2)).resolve()
lab.program = sys.argv[1]
lab.main()

"""The constants of the scripts: embed.py writes the value where a line has the name.

A name stands for its text, also inside a string.
"""
import pathlib
import re

KINDS = pathlib.Path(__file__).resolve().parent.parent / "src/core/kind.c"
ROW = re.compile(r'\.mark = "(\w)(:?)",(?:\s+\.word = "\w+",)?(\s+\.is_fenced = true,)?')


def letters(kinds):
    """How the tokens of the rows of kinds[] begin: one letter, of some with a colon."""
    rows = ROW.findall(kinds)
    assert len(rows) == kinds.count(".mark ="), f"{KINDS}: a mark is no letter, or a letter and a colon"
    return {
        "LETTERS": "".join(sorted({letter for letter, colon, _ in rows if not colon})),
        "COLON_LETTERS": "".join(sorted({letter for letter, colon, _ in rows if colon})),
        "FENCED_LETTERS": "".join(sorted({letter for letter, _, fenced in rows if fenced})),
    }


VALUES = {
    # A waiter that was notified stays in the queue, behind all others: its score grows by this.
    "NOTIFIED": "4e15",
    # A node stores a fence for so long after the last command, ms.
    "FENCE_LIFE": "'86400000'",
    # A fence is at most so far ahead of a node's clock, us.
    "AHEAD_MAX": "5000000",
    **letters(KINDS.read_text()),
}
NAME = re.compile(rf"\b(?:{'|'.join(VALUES)})\b")


def put_into(line):
    return NAME.sub(lambda name: VALUES[name[0]], line)

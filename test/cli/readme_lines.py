"""The lines to type of README.md."""
import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def lines_to_type(section, word):
    """The lines of the block of this section that has the word."""
    text = README.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    [block] = [block for block in blocks if word in block]
    return [line[4:] for line in block.splitlines()]


def session_lines():
    return lines_to_type("Sixty seconds", "redlock status backup")

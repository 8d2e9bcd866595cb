#!/usr/bin/env python3
"""The tables of lua/README.md are those of the files: lua_tables.py [--update]

They are made of the scripts and parts in lua/, of the table of kinds in src/core/kind.c, and of
docs/protocol.md, which says what each script gets and replies.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lua"))
import variables  # noqa: E402

README = ROOT / "lua/README.md"
FILES = sorted((ROOT / "lua").glob("*.lua"))
KINDS = (ROOT / "src/core/kind.c").read_text()
PROTOCOL = (ROOT / "docs/protocol.md").read_text()
MANY = 4  # files that are named one by one


def parts_of(path):
    return re.findall(rf"^ *{variables.WITH}(\w+)\.lua$", path.read_text(), re.M)


def uses():
    """{script: {command: kinds}}, by the rows of kinds[]."""
    found = {}
    for row in re.findall(r"\{\n\s+\.type = REDLOCK_KIND_(.*?)\n    \}", KINDS, re.S):
        kind = row.partition(",")[0].lower()
        kind = f"fenced {kind}" if "is_fenced" in row and kind != "election" else kind
        for command, script in re.findall(r"\[RL_CMD_(\w+)\] = &rl_script_(\w+)", row):
            found.setdefault(script, {}).setdefault(command, []).append(kind)
    return found


def use(commands):
    """What every kind shares is in the rows of the exclusive ones alone."""
    return "; ".join(command if command in ("BREAK", "INSPECT", "LIST", "MARKER", "NOTE_HOLD", "OBSERVE")
                     else f"{command}: {', '.join(kinds)}" for command, kinds in commands.items())


def section(name):
    """(arguments, replies) of a script."""
    text = PROTOCOL.partition(f"\n### {name}\n")[2].partition("\n##")[0]
    arguments = " ".join(re.search(r"EVALSHA SHA1 \S+ ((?:.*\n)(?: +.*\n)*)", text)[1].split())
    same = re.search(r"As (\w+), with the same replies", text)
    if same:
        return arguments, section(same[1])[1]
    replies = re.findall(r"^\| (.*?) \|", text.partition("| reply | meaning |\n|---|---|\n")[2]
                         .partition("\n\n")[0], re.M)
    return arguments, " or ".join(replies)


def row(*cells):
    return f"| {' | '.join(cells)} |\n"


def scripts():
    yield row("script", "sent for", "keys and arguments", "replies", "parts")
    yield "|---|---|---|---|---|\n"
    sent = uses()
    for path in FILES:
        if not variables.is_part(path):
            arguments, replies = section(path.stem)
            yield row(path.stem, use(sent[path.stem]), f"`{arguments}`", replies,
                      ", ".join(parts_of(path)))


def parts():
    yield row("part", "reads", "sets", "in", "what it does")
    yield "|---|---|---|---|---|\n"
    for path in filter(variables.is_part, FILES):
        first, _, rest = path.read_text().partition("\n")
        reads, sets = (names or "" for names in variables.HEADER.fullmatch(first).groups())
        comment = re.match(r"(?:-- (?!with ).*\n)*", rest)[0].replace("-- ", "").replace("\n", " ")
        users = [other.stem for other in FILES if path.stem in parts_of(other)]
        yield row(path.stem, reads, sets, ", ".join(users) if len(users) <= MANY else f"{len(users)} files",
                  re.match(r"(.*?)[.:;](?: |$)", comment)[1])


def made():
    """The text of README.md with the tables as they should be."""
    text = README.read_text()
    for table in (scripts, parts):
        lines = list(table())
        head = re.escape(lines[0])
        text, count = re.subn(rf"{head}(?:\|.*\n)*", lambda _: "".join(lines), text)
        if count != 1:
            sys.exit(f"{README}: there is no table {lines[0]}")
    return text


def main():
    wanted, text = made(), README.read_text()
    if sys.argv[1:] == ["--update"]:
        README.write_text(wanted)
    elif wanted != text:
        wrong = set(text.splitlines()) ^ set(wanted.splitlines())
        print(*sorted(wrong), "test/lua_tables.py --update writes the tables of lua/README.md", sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

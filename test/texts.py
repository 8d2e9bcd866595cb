#!/usr/bin/env python3
"""Lists the texts that the library and the command can print, and judges them.

texts.py SOURCE_ROOT [--list]   The library names no option of the command (`--ttl`), the
command no field of the C interface (`margin_ms`). The command prints by src/cli/writer.h,
which no reader can stop. A message has at most 160 characters
besides what is put into it; a help and the lines of the recorder have more. A test with
servers names each fault and each reason, or its text.
"""
import pathlib
import re
import sys

# What C and the preprocessor read, and no user.
NOT_PRINTED = re.compile(r"#\s*(include|error|define\s+RL_\w+_H)|_Static_assert|assert\(|asm")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
MEMBER = re.compile(r"^    [\w ]+?[ *]+(\w+_\w+)(?:\[\w+\])?;", re.M)
PLACEHOLDER = re.compile(r"%[-+ #0]*(\*|\d+)?(\.(\*|\d+))?(hh|h|ll|l|j|z|t)?[a-zA-Z%]")
MOST = 160


def without_comments(text):
    def blank(match):
        return match[0] if match[0].startswith('"') else "\n" * match[0].count("\n")
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def statements(path):
    """The literals of a file, those that follow each other joined: number of line, text."""
    parts, begin = [], 0
    for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
        if NOT_PRINTED.search(line):
            continue
        found = list(LITERAL.finditer(line))
        continues = parts and re.match(r'\s*"', line)
        if parts and not continues:
            yield begin, "".join(parts)
            parts = []
        for at, match in enumerate(found):
            adjacent = at > 0 and not line[found[at - 1].end():match.start()].strip()
            if parts and not adjacent and not (at == 0 and continues):
                yield begin, "".join(parts)
                parts = []
            begin = begin if parts else number
            parts.append(match[1])
        if parts and line[found[-1].end():].strip(" \\"):
            yield begin, "".join(parts)
            parts = []
    if parts:
        yield begin, "".join(parts)


def texts(root, folders, but=()):
    for folder in folders:
        for path in sorted((root / folder).rglob("*.[ch]")):
            if not any(path.is_relative_to(root / each) for each in but):
                for number, text in statements(path):
                    yield f"{path.relative_to(root)}:{number}", text


def library(root):
    return texts(root, ("src", "include/redlock"), but=("src/cli",))


def command(root):
    """Those with a space: no names of JSON, of options, of the environment."""
    return ((where, text) for where, text in texts(root, ("src/cli",)) if " " in text)


def fields(root):
    """The members of public structs whose names are no English words."""
    headers = (root / "include/redlock").glob("*.h")
    return {name for header in headers for name in MEMBER.findall(header.read_text())}


def too_long(text):
    is_message = text.count("\\n") < 2 and "=%" not in text
    return is_message and len(PLACEHOLDER.sub("", text)) > MOST


PRINTS = re.compile(r"\b(v?printf|puts|putchar|stdout|stderr)\b(?=[(,;)])")


def printing(root):
    """What prints itself."""
    for path in sorted((root / "src/cli").rglob("*.c")):
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if PRINTS.search(LITERAL.sub('""', line)):
                yield f"{path.relative_to(root)}:{number}: {line.strip()}"


ROW = re.compile(r'^    X\((\w+),(?: NULL,| "[^"]*",)*\s*(?:\\\n\s*)?"([^"]*)"', re.M)
# How a test names one.
NAMED = {"faults": r'FAULT_{0}\b|\bF\({0}\)|["=]{1}"',
         "reasons": r'REASON_{0}\b|[ (]{0}[,)]|"{0}"'}
UNNAMED = {
    "faults.h: MASTERDOWN": "a replica is found at the greeting",
    "faults.h: CROSSSLOT": "a cluster node is found at the greeting",
    "faults.h: WRONGTYPE": "a value of another type is another owner's lock",
    "faults.h: MEMORY": "integration/memory.c does not choose which allocation fails",
}


def unnamed(root):
    """The faults and reasons that no test with servers names."""
    tests = [path.read_text() for folder in ("test/integration", "test/cli", "python/tests")
             for path in sorted((root / folder).iterdir()) if path.suffix in (".c", ".py")]
    for header, mark in NAMED.items():
        rows = ROW.findall((root / f"include/redlock/{header}.h").read_text())
        assert len(rows) > 30, rows
        for name, text in rows:
            named = re.compile(f"{mark.format(name, name.lower())}|"
                               f"{re.escape(text.removeprefix('TLS: '))}")
            if not any(named.search(test) for test in tests):
                yield f"{header}.h: {name}"


def main():
    root = pathlib.Path(sys.argv[1])
    of_structs = fields(root)
    assert {"ttl_ms", "margin_ms", "max_ttl_ms", "tls_ca_file"} <= of_structs, of_structs
    assert len([*library(root)]) > 300 and len([*command(root)]) > 200, "texts are missing"
    if "--list" in sys.argv[2:]:
        for where, text in [*library(root), *command(root)]:
            if " " in text:
                print(f"{where}: {text}")
        return
    wrong = [f"{where}: an option of the command: {text}"
             for where, text in library(root) if OPTION.search(text)]
    wrong += [f"{where}: a field of the C interface: {text}"
              for where, text in command(root) if of_structs & set(re.findall(r"\w+", text))]
    wrong += [f"{where}: more than {MOST} characters: {text}"
              for where, text in [*library(root), *command(root)] if too_long(text)]
    wrong += [f"{row}: no test with servers names it"
              for row in unnamed(root) if row not in UNNAMED]
    wrong += [f"{line}: print by cli_print() or cli_say()" for line in printing(root)]
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()

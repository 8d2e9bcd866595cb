#!/usr/bin/env python3
"""How large this tree is, by its folders: ./dev check size

Code: the lines of src, lua and Python's package that are neither blank nor comment; a docstring
is a comment. Test: all lines of its programs, but for the ABI baseline, which is a copy. Words:
those of all .md and .scd, as wc(1) counts them.
"""
import collections
import io
import pathlib
import re
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ("src", "lua", "python/redlock_quorum")
LANGUAGES = {".c", ".h", ".cpp", ".hpp", ".js", ".lua", ".py", ".go", ".java"}
STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
COMMENTS = {".lua": re.compile(STRING + r"|--[^\n]*"),
            ".js": re.compile(STRING + r"|`(?:\\.|[^`\\])*`|//[^\n]*|/\*.*?\*/", re.S)}
C_COMMENTS = re.compile(STRING + r"|//[^\n]*|/\*.*?\*/", re.S)
BETWEEN = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
NOTHING = {tokenize.COMMENT, tokenize.NL}


def python_lines(text):
    """The numbers of the lines with code."""
    found, begins = set(), True  # a statement begins
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NOTHING:
            continue
        if token.type not in BETWEEN and not (begins and token.type == tokenize.STRING):
            found.update(range(token.start[0], token.end[0] + 1))
        begins = token.type in BETWEEN
    return found


def code_lines(path):
    text = path.read_text()
    if path.suffix == ".py":
        return len(python_lines(text))
    text = COMMENTS.get(path.suffix, C_COMMENTS).sub(
        lambda match: match[0] if match[0][0] in "\"'`" else "", text)
    return sum(1 for line in text.splitlines() if line.strip())


def lines(path):
    return len(path.read_text().splitlines())


def words(path):
    return len(path.read_text().split())


def files(folder, suffixes):
    """No build is there: those are in build/."""
    return (path for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in suffixes and path.is_file() and "baseline" not in path.parts
            and not any(part.startswith(".") or part == "build"
                        for part in path.relative_to(ROOT).parts))


def measure(paths, count):
    """{folder: count}"""
    found = collections.Counter()
    for path in paths:
        found[str(path.parent.relative_to(ROOT))] += count(path)
    return found


def show(what, part, found):
    of_it = sum(count for folder, count in found.items() if f"{folder}/".startswith(part))
    print(f"{what}: {sum(found.values())}, of which {part}: {of_it}")
    for folder, count in sorted(found.items()):
        print(f"  {count:6} {folder}")


def main():
    code = (path for folder in CODE for path in files(folder, LANGUAGES))
    show("code lines", "src/cli/", measure(code, code_lines))
    show("lines of test", "test/sim/", measure(files("test", LANGUAGES), lines))
    show("words of documents", "docs/", measure(files("", {".md", ".scd"}), words))


if __name__ == "__main__":
    main()

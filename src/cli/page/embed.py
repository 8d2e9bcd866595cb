#!/usr/bin/env python3
"""Turns the page into C: embed.py OUT.h PAGE.html STYLE.css SCRIPT.js...

One document with its style and its scripts inside, without their comments and indentation, and
the Content-Security-Policy that allows nothing else: it has their hashes.
"""
import base64
import hashlib
import pathlib
import re
import sys

BYTES_IN_LINE = 24
NO_DATA = "null"  # the server's page asks for its data


def stripped(path):
    """Comments are lines of their own: "// ..." of a script, "/* ... */" of a style."""
    text = re.sub(r"^\s*/\*.*?\*/$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = map(str.strip, text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def character(byte):
    """A plain char may be signed."""
    return str(byte) if byte < 128 else rf"'\x{byte:02x}'"


def main(out, html, css, *scripts):
    style = stripped(pathlib.Path(css))
    script = "".join(stripped(pathlib.Path(name)) for name in scripts)
    policy = ("default-src 'none'; connect-src 'self'; img-src data:; "
              f"style-src {digest(style)}; script-src {digest(script)}; "
              "base-uri 'none'; form-action 'none'")
    # A <meta> may not have frame-ancestors.
    page = pathlib.Path(html).read_text()
    for name, text in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script)):
        before, after = page.split(f"@{name}@")
        page = before + text + after
    before, after = page.encode().split(b"@DATA@")
    data = before + NO_DATA.encode() + after
    rows = [data[i:i + BYTES_IN_LINE] for i in range(0, len(data), BYTES_IN_LINE)]
    pathlib.Path(out).write_text("\n".join([
        "/* Made by src/cli/page/embed.py. */",
        "#ifndef CLI_PAGE_MADE_H", "#define CLI_PAGE_MADE_H", "",
        f"#define PAGE_DATA_AT  {len(before)}",
        f"#define PAGE_DATA_LEN {len(NO_DATA)}",
        f'#define PAGE_POLICY   "{policy}; frame-ancestors \'none\'"', "",
        "const char cli_page[] = {",
        *("    " + ",".join(map(character, row)) + "," for row in rows),
        "};", "", "#endif", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])

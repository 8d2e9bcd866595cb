#!/usr/bin/env python3
"""Turns Lua scripts into C: embed.py OUT.h FILE.lua...

Beside OUT.h it writes each script as a file that can be read: its parts are in it, and the
comments.
"""
import hashlib
import pathlib
import sys

sys.dont_write_bytecode = True
import constants  # noqa: E402
import variables  # noqa: E402


def expand(path, indent=""):
    """The lines, with those of a part below the line that names it."""
    for line in path.read_text().splitlines():
        code = line.strip()
        yield indent + (line if code.startswith("--") else constants.put_into(line))
        if code.startswith(variables.WITH):
            yield from expand(path.parent / code.removeprefix(variables.WITH),
                              indent + line[:line.index(code)])


def body(path):
    """The script as its bytes go over the wire: without comments and indentation."""
    variables.check(path)
    lines = map(str.strip, expand(path))
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def write(path, lines):
    """A file that does not change keeps its time, so that nothing is built again."""
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(out, *files):
    out = pathlib.Path(out)
    # A compiler need not support strings above 4,095 bytes; all that we know do.
    text = ["/* Made by lua/embed.py. */", "#ifndef RL_SCRIPTS_H", "#define RL_SCRIPTS_H", "",
            "#pragma GCC diagnostic push",
            '#pragma GCC diagnostic ignored "-Woverlength-strings"', ""]
    for bit, path in enumerate(map(pathlib.Path, files)):
        script = body(path)
        quoted = script.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        sha1 = hashlib.sha1(script.encode()).hexdigest()
        text += [
            f"static const struct rl_script rl_script_{path.stem} = {{",
            f'    "{quoted}",',
            f"    {len(script)},",
            f'    "{sha1}",',
            f"    {bit},",
            "};",
            "",
        ]
        write(out.parent / path.name, expand(path))
    write(out, [*text, "#pragma GCC diagnostic pop", "", "#endif"])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except variables.Mistake as mistake:
        sys.exit(f"lua/{mistake}")

#!/usr/bin/env python3
"""Turns Lua scripts into C: embed.py OUT.h FILE.lua..."""
import hashlib
import pathlib
import sys

sys.dont_write_bytecode = True
import variables  # noqa: E402


def lines_of(path):
    """Without comments and indentation; a line that names a part stands for it."""
    for line in map(str.strip, path.read_text().splitlines()):
        if line.startswith(variables.WITH):
            yield from lines_of(path.parent / line.removeprefix(variables.WITH))
        elif line and not line.startswith("--"):
            yield line


def body(path):
    """The script as its bytes go over the wire."""
    variables.check(path)
    return "\n".join(lines_of(path))


def main(out, *files):
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
    text += ["#pragma GCC diagnostic pop", "", "#endif", ""]
    pathlib.Path(out).write_text("\n".join(text))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except variables.Mistake as mistake:
        sys.exit(f"lua/{mistake}")

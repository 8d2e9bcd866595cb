#!/usr/bin/env python3
"""Turns Lua scripts into C: embed.py OUT.h FILE.lua..."""
import hashlib
import pathlib
import sys


PRELUDE = "-- with "


def body(path):
    """The script without comment lines and indentation: its bytes go over the wire.

    It begins with others, if its first lines say so.
    """
    lines = path.read_text().splitlines()
    names = [line.removeprefix(PRELUDE) for line in lines if line.startswith(PRELUDE)]
    preludes = [(path.parent / name).read_text().splitlines() for name in names]
    lines = (line.strip() for line in sum(preludes, []) + lines)
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def main(out, *files):
    text = ["/* Made by lua/embed.py. */", "#ifndef RL_SCRIPTS_H", "#define RL_SCRIPTS_H", ""]
    for path in map(pathlib.Path, files):
        script = body(path)
        quoted = script.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        sha1 = hashlib.sha1(script.encode()).hexdigest()
        text += [
            f"static const struct rl_script rl_script_{path.stem} = {{",
            f'    "{quoted}",',
            f"    {len(script)},",
            f'    "{sha1}",',
            "};",
            "",
        ]
    text += ["#endif", ""]
    pathlib.Path(out).write_text("\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])

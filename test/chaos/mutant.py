#!/usr/bin/env python3
"""Builds the library, the command and the clients with mistakes of test/sim/mutations.toml in
them, in a copy of the tree: mutant.py FOLDER NAME...
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/sim"))
import mutations  # noqa: E402

TARGETS = ("src/cli/redlock", "src/libredlock.so.1", "test/clockshim.so", "chaos-programs")


def copy(folder):
    """Of the files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def main(folder, names):
    tree, build = folder / "tree", folder / "build"
    shutil.rmtree(folder, ignore_errors=True)
    copy(tree)
    found = [one for one in mutations.read_table() if one["name"] in names]
    if len(found) != len(names):
        raise SystemExit(f"not all of {names} are in {mutations.TABLE}")
    for one in found:
        (tree / one["source"].relative_to(ROOT)).write_text(one["text"])
    setup = ["meson", "setup", build, tree, "-Dman=disabled", "-Dman_html=disabled"]
    for words in (setup, ["ninja", "-C", build, "--quiet", *TARGETS]):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])

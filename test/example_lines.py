#!/usr/bin/env python3
"""Do the lines in README.md and docs/examples/README.md build the examples? Speaks TAP.

usage: example_lines.py BUILD_DIR

Installs the library into a temporary folder, then runs each line that begins with cc or c++,
as it is printed, in a copy of the examples. Each C and C++ file must be in such a line.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = pathlib.Path("docs/examples")
PAGES = {"README.md": ".", "docs/examples/README.md": EXAMPLES}  # page: where its lines are run


def install(build, folder):
    """The environment in which pkg-config finds the installed library."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet",
                    "--destdir", folder], check=True, stdout=sys.stderr)
    [description] = folder.rglob("redlock.pc")
    text, count = re.subn(r"^prefix=", f"prefix={folder}", description.read_text(), flags=re.M)
    if count != 1:
        sys.exit(f"{description} has {count} prefixes")
    description.write_text(text)
    return {**os.environ, "PKG_CONFIG_PATH": str(description.parent)}


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        installed, tree = pathlib.Path(folder, "installed"), pathlib.Path(folder, "tree")
        environment = install(build, installed)
        shutil.copytree(ROOT / EXAMPLES, tree / EXAMPLES)
        lines = [(page, line) for page in PAGES
                 for line in re.findall(r"^    (c(?:c|\+\+) .*)$", (ROOT / page).read_text(), re.M)]
        sources = sorted(path.name for path in (ROOT / EXAMPLES).glob("*.c*"))
        failed = 0
        print(f"1..{len(lines) + len(sources)}")
        for number, (page, line) in enumerate(lines, 1):
            done = subprocess.run(line, shell=True, cwd=tree / PAGES[page], env=environment,
                                  text=True, stderr=subprocess.PIPE)
            print(done.stderr, file=sys.stderr, end="")
            failed += done.returncode != 0
            print(f"{'not ok' if done.returncode else 'ok'} {number} - {page}: {line}")
        words = {word for page, line in lines if page != "README.md" for word in line.split()}
        for number, source in enumerate(sources, len(lines) + 1):
            failed += source not in words
            print(f"{'ok' if source in words else 'not ok'} {number} - a line has {source}")
    sys.exit(failed > 0)


main(sys.argv[1])

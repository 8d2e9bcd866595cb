#!/usr/bin/env python3
"""Do the lines of the pages build the programs of docs/examples and docs/guide? Speaks TAP.

usage: example_lines.py BUILD_DIR

Installs the library into a temporary folder, then runs each line that begins with cc or c++,
as it is printed, in a copy of both folders. A line whose program was not built, because what
it needs is not installed, is skipped.
Each C and C++ file of a folder must be in a line of a page of that folder.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from installed import install

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("docs/examples", "docs/guide")
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for folder in FOLDERS
                        for page in sorted((ROOT / folder).glob("*.md")))]


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        installed, tree = pathlib.Path(folder, "installed"), pathlib.Path(folder, "tree")
        _, environment = install(build, installed)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, tree / name)
        lines = [(page, line) for page in PAGES
                 for line in re.findall(r"^    (c(?:c|\+\+) .*)$", (ROOT / page).read_text(), re.M)]
        sources = [(name, path.name) for name in FOLDERS
                   for path in sorted((ROOT / name).iterdir()) if path.suffix in (".c", ".cpp")]
        failed = 0
        print(f"1..{len(lines) + len(sources)}")
        for number, (page, line) in enumerate(lines, 1):
            program = re.search(r"-o (\S+)", line)[1]
            if not any(pathlib.Path(build, name, program).exists() for name in FOLDERS):
                print(f"ok {number} - {page}: {line} # SKIP not built")
                continue
            done = subprocess.run(line, shell=True, cwd=(tree / page).parent, env=environment,
                                  text=True, stderr=subprocess.PIPE)
            print(done.stderr, file=sys.stderr, end="")
            failed += done.returncode != 0
            print(f"{'not ok' if done.returncode else 'ok'} {number} - {page}: {line}")
        words = {(str(pathlib.Path(page).parent), word) for page, line in lines
                 for word in line.split()}
        for number, source in enumerate(sources, len(lines) + 1):
            failed += source not in words
            print(f"{'ok' if source in words else 'not ok'} {number} - "
                  f"a line has {'/'.join(source)}")
    sys.exit(failed > 0)


main(sys.argv[1])

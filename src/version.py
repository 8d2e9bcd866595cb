#!/usr/bin/env python3
"""Prints the version of this tree: that of a release only if the tree is the release.

usage: version.py [--python | --debian | --dist]

  1.0.0                 the commit with the tag v1.0.0, unchanged
  1.0.0-dev+g0123456    another commit
  1.0.0-dev             a tree without git

--python: as PEP 440 spells it, 1.0.0.dev0+g0123456; --debian: 1.0.0~dev+g0123456, which is
older than 1.0.0. The number is that of redlock.h alone. --dist: `meson dist` writes the version
into its archive, which has no git: the file .tarball-version is read first, and
debian/changelog gets the version of the packages.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ".tarball-version"
DEBIAN = "debian/changelog"
DEV = {"": "-dev", "--python": ".dev0", "--debian": "~dev"}


def git(*words):
    """Its output; "" without git. With --git-dir it looks neither at who owns the clone nor at
    a repository around this tree."""
    try:
        done = subprocess.run(["git", f"--git-dir={ROOT}/.git", f"--work-tree={ROOT}", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version():
    if (ROOT / FILE).is_file():
        return (ROOT / FILE).read_text().strip()
    header = (ROOT / "include/redlock/redlock.h").read_text()
    number = re.search(r'^#define REDLOCK_VERSION +"(.+)"$', header, re.MULTILINE)[1]
    tag = f"v{number}"
    # Not --dirty, which locks the index: a `git commit` at the same time would fail.
    if git("describe", "--tags", "--exact-match", "--match", tag) == tag and not git(
            "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"):
        return number
    commit = git("rev-parse", "HEAD")[:7]
    return f"{number}-dev" + (f"+g{commit}" if commit else "")


def spelled(form):
    return version().replace("-dev", DEV[form])


def main(form=""):
    if form == "--dist":
        tree = pathlib.Path(os.environ["MESON_PROJECT_DIST_ROOT"])
        (tree / FILE).write_text(version() + "\n")
        log = (tree / DEBIAN).read_text()
        (tree / DEBIAN).write_text(re.sub(r"\(.*?\)", f"({spelled('--debian')})", log, count=1))
    elif form in DEV:
        print(spelled(form))
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])

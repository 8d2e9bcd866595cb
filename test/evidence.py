#!/usr/bin/env python3
"""Which recorded long runs are older than what they prove: ./dev check evidence

Reads the table of docs/report.md, "The latest long runs": run, commit, date, proves, result.
A run is older if a later commit changed one of the folders or files that it proves. That is no
failure: the exit code is 1 only if a row is wrong.
"""
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = "| run | commit | date | proves | result |\n|---|---|---|---|---|\n"


class Mistake(Exception):
    pass


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def rows(text):
    """The cells of each row."""
    _, found, table = text.partition(HEAD)
    if not found:
        raise Mistake(f"no table begins so:\n{HEAD}")
    for line in re.match(r"(?:\|.*\n)*", table)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or not all(cells):
            raise Mistake(f"not five cells: {line}")
        yield cells


def check(root, commit, date, proves):
    """The folders; raises Mistake."""
    folders = re.findall(r"`([^`]+)`", proves)
    if not folders or re.sub(r"`[^`]+`|[, ]", "", proves):
        raise Mistake(f"not `FOLDER`, `FOLDER`: {proves}")
    for folder in folders:
        if not (root / folder).exists():
            raise Mistake(f"there is no {folder}")
    try:
        day = datetime.date.fromisoformat(date)
    except ValueError:
        raise Mistake(f"not YYYY-MM-DD: {date}") from None
    # An unpacked archive has no history, a shallow clone not all of it.
    if git(root, "rev-parse", "--is-shallow-repository") == "false":
        if git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
            raise Mistake(f"{commit} is no commit of this branch")
        committed = git(root, "log", "-1", "--format=%cs", commit)
        if day < datetime.date.fromisoformat(committed):
            raise Mistake(f"the run of {date} is before its commit {commit}, of {committed}")
    return folders


def age(root, commit, folders):
    """What was changed since, as a text; empty: nothing."""
    later = (git(root, "log", "--format=%h %cs %s", f"{commit}..HEAD", "--", *folders) or "").splitlines()
    return f"later commits: {len(later)}, the last: {later[0]}" if later else ""


def main(root):
    older = count = 0
    for run, commit, date, proves, _ in rows((root / "docs/report.md").read_text()):
        try:
            folders = check(root, commit, date, proves)
        except Mistake as mistake:
            raise Mistake(f"{run}: {mistake}") from None
        since = age(root, commit, folders)
        count += 1
        older += bool(since)
        print(f"{'older' if since else 'current'}: {run}, {commit} of {date}" + (f"; {since}" if since else ""))
    print(f"{older} of {count} runs are older than what they prove")


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]) if sys.argv[1:] else ROOT)
    except Mistake as mistake:
        sys.exit(f"docs/report.md: {mistake}")

#!/usr/bin/env python3
"""The rules of contrib/prometheus and their unit tests, by promtool. Without it: skipped."""
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "contrib/prometheus"
SKIPPED = 77  # to meson

if not shutil.which("promtool"):
    print("skipped: there is no promtool (Debian's package prometheus)")
    sys.exit(SKIPPED)
for words in ["check", "rules", "redlock.rules.yml"], ["test", "rules", "redlock.test.yml"]:
    if subprocess.run(["promtool", *words], cwd=FOLDER).returncode != 0:
        sys.exit(1)

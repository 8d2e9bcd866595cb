#!/usr/bin/env python3
"""The rules of contrib/prometheus, their unit tests, and the expressions of contrib/grafana, by
promtool. Without it: skipped."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

CONTRIB = pathlib.Path(__file__).resolve().parent.parent / "contrib"
FOLDER = CONTRIB / "prometheus"
SKIPPED = 77  # to meson

if not shutil.which("promtool"):
    print("skipped: there is no promtool (Debian's package prometheus)")
    sys.exit(SKIPPED)


def expressions():
    """Those of the dashboard, without Grafana's variables."""
    board = json.loads((CONTRIB / "grafana/redlock.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


def write_rules(file):
    """Promtool checks expressions only in rules."""
    rules = [{"record": f"of_the_dashboard:{number}", "expr": text} for number, text in enumerate(expressions())]
    json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)  # which is YAML, too
    file.flush()


for words in ["check", "rules", "redlock.rules.yml"], ["test", "rules", "redlock.test.yml"]:
    if subprocess.run(["promtool", *words], cwd=FOLDER).returncode != 0:
        sys.exit(1)
with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
    write_rules(file)
    if subprocess.run(["promtool", "check", "rules", file.name]).returncode != 0:
        sys.exit(1)

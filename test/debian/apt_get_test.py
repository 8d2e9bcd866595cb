#!/usr/bin/env python3
"""test/debian/apt-get waits while another apt-get has a lock. Skipped without apt-get."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77  # an exit code for meson
SECONDS = 120
APT_GET = pathlib.Path(__file__).resolve().parent / "apt-get"
CONFIG = """
Dir "{0}/";
Dir::Cache "{0}/";
Dir::Etc "{0}/";
Dir::State "{0}/";
Dir::State::status "{0}/status";
APT::Sandbox::User "";
"""


def expect_patience(root, lock, command):
    """It waits for this lock, which the command needs, and succeeds when it is free."""
    environment = {**os.environ, "APT_CONFIG": str(root / "apt.conf")}
    with open(root / lock, "w", encoding="ascii") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        process = subprocess.Popen([APT_GET, command], stderr=subprocess.PIPE, text=True,
                                   env=environment)
        said = process.stderr.readline()
    said += process.communicate(timeout=SECONDS)[1]
    if process.returncode != 0 or not said.startswith("waiting until another apt-get ends\n"):
        sys.exit(f"{command}: exit code {process.returncode}: {said}")


def main():
    if not shutil.which("apt-get"):
        print("skipped: there is no apt-get")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("apt.conf.d", "sources.list.d", "preferences.d", "lists/partial",
                     "archives/partial"):
            (root / name).mkdir(parents=True)
        for name in ("status", "sources.list"):
            (root / name).touch()
        (root / "apt.conf").write_text(CONFIG.format(folder))
        expect_patience(root, "lists/lock", "update")
        expect_patience(root, "archives/lock", "clean")


if __name__ == "__main__":
    main()

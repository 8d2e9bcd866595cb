#!/usr/bin/env python3
"""Which cells ./dev try matrix runs: matrix.py, with a ./dev that only says what it did."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import matrix  # noqa: E402

# Two cells: the second one's result is in the file `second`.
DEV = """#!/bin/sh
echo "$*" >>calls
case "$*" in *--pack*) exec tar -c dev ;; esac
echo some output
cat first
[ ! -e stop ] || exit 1
cat second
"""


def result(server, green=True):
    return matrix.RESULT + json.dumps({
        "release": "trixie", "server": server, "version": server, "passed": 7,
        "failed": [] if green else ["hold"], "passed_alone": [], "skipped": [],
        "chaos": {"code": 0, "operations": 5, "faults": 3}, "seconds": 1, "green": green}) + "\n"


class Matrix(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = matrix.ROOT = pathlib.Path(scratch.name)
        matrix.RESULTS = self.root / "build/matrix"
        (self.root / "dev").write_text(DEV)
        (self.root / "dev").chmod(0o755)
        (self.root / "first").write_text(result("redis-8.0"))
        (self.root / "second").write_text(result("valkey-8.1"))

    def play(self):
        """The exit code, the last line, and the servers of the cells that were run."""
        (self.root / "calls").write_text("")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = matrix.main(["--release", "trixie", "--server", "redis-8.0",
                                "--server", "valkey-8.1", "--json", str(self.root / "json")])
        calls = (self.root / "calls").read_text().splitlines()
        played = [line.split("--play trixie ")[1] for line in calls if "--play" in line]
        return code, said.getvalue().splitlines()[-1], played

    def test_a_green_cell_is_not_run_again(self):
        self.assertEqual(self.play(), (0, "2 of 2 cells are green", ["redis-8.0 valkey-8.1"]))
        self.assertEqual(self.play(), (0, "2 of 2 cells are green", []))
        self.assertEqual([cell["server"] for cell in json.loads((self.root / "json").read_text())],
                         ["redis-8.0", "valkey-8.1"])

    def test_a_cell_that_was_green_at_another_commit_is_run_again(self):
        self.play()
        kept = matrix.RESULTS / "trixie-valkey-8.1.json"
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "commit": "another"}))
        (self.root / "stop").touch()
        self.assertEqual(self.play(), (1, "1 of 2 cells are green", ["valkey-8.1"]))
        (self.root / "stop").unlink()
        self.assertEqual(self.play(), (0, "2 of 2 cells are green", ["valkey-8.1"]))

    def test_nothing_passed_where_the_results_are_missing(self):
        matrix.LOGS = self.root
        self.assertEqual(matrix.count(), (0, []))

    def test_a_cell_that_failed_is_run_again(self):
        (self.root / "second").write_text(result("valkey-8.1", green=False))
        self.assertEqual(self.play()[:2], (1, "1 of 2 cells are green"))
        (self.root / "second").write_text(result("valkey-8.1"))
        self.assertEqual(self.play(), (0, "2 of 2 cells are green", ["valkey-8.1"]))

    def test_a_run_that_was_stopped_goes_on_where_it_was(self):
        (self.root / "stop").touch()
        self.assertEqual(self.play()[:2], (1, "1 of 2 cells are green"))
        (self.root / "stop").unlink()
        self.assertEqual(self.play(), (0, "2 of 2 cells are green", ["valkey-8.1"]))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""test/evidence.py: which runs are older than what they prove, and which rows are wrong."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import evidence  # noqa: E402

SCRIPT = pathlib.Path(evidence.__file__)
DATE = "2026-11-27T12:00:00Z"


class Evidence(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.git("init", "-q")
        self.first = self.commit("lua", "docs")
        self.second = self.commit("src")

    def git(self, *words):
        environment = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin",
                       "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        return subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                              env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, *folders):
        for folder in folders:
            (self.root / folder).mkdir()
            (self.root / folder / "file").write_text("text")
        self.git("add", ".")
        self.git("commit", "-q", "-m", f"{folders[0]}: begin")
        return self.git("rev-parse", "--short", "HEAD")

    def run_on(self, *lines, head=evidence.HEAD):
        (self.root / "docs/report.md").write_text(head + "".join(f"{line}\n" for line in lines) + "\nmore\n")
        return subprocess.run([sys.executable, SCRIPT, self.root], capture_output=True, text=True, check=False)

    def test_tells_which_runs_are_older(self):
        done = self.run_on(f"| seeds | {self.first} | 2026-11-27 | `lua`, `src` | none |",
                           f"| proofs | {self.first} | 2026-11-28 | `lua` | hold |")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"older: seeds, {self.first} of 2026-11-27; later commits: 1, the last: "
                                      f"{self.second} 2026-11-27 src: begin\n"
                                      f"current: proofs, {self.first} of 2026-11-28\n"
                                      "1 of 2 runs are older than what they prove\n")

    def test_refuses_a_row_that_is_wrong(self):
        for line, message in (
                (f"| seeds | {self.first} | 2026-11-27 | `lua` |", "not five cells"),
                ("| seeds | several | 2026-11-27 | `lua` | none |", "several is no commit"),
                (f"| seeds | {self.first} | November | `lua` | none |", "not YYYY-MM-DD"),
                (f"| seeds | {self.first} | 2026-11-26 | `lua` | none |", "before its commit"),
                (f"| seeds | {self.first} | 2026-11-27 | lua | none |", "not `FOLDER`"),
                (f"| seeds | {self.first} | 2026-11-27 | `moon` | none |", "there is no moon")):
            with self.subTest(message):
                done = self.run_on(line)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(message, done.stderr)
        self.assertIn("no table", self.run_on(head="").stderr)


if __name__ == "__main__":
    unittest.main()

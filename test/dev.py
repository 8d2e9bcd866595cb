#!/usr/bin/env python3
"""What ./dev builds upon: the counts of its tests (count.py)."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

# Programs that end in each way that meson knows; `watched` passes its cases and fails.
PROJECT = """
project('counted')
sh = find_program('sh')
foreach name, words : {
  'good': 'exit 0', 'bad': 'exit 1', 'skipped': 'exit 77', 'hangs': 'sleep 1000',
}
  test(name, sh, args: ['-c', words], suite: 'plain', timeout: name == 'hangs' ? 1 : 60)
endforeach
foreach name, words : {
  'cases': 'echo 1..3; echo ok 1; echo not ok 2; echo ok 3 \\'#\\' SKIP',
  'watched': 'echo 1..2; echo ok 1; echo ok 2; exit 1',
}
  test(name, sh, args: ['-c', words], protocol: 'tap', suite: 'tap', timeout: 60)
endforeach
add_test_setup('lane', env: 'A=1')
"""


class Count(unittest.TestCase):
    """The results are those of meson itself, whatever its release writes."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        source = pathlib.Path(cls.scratch.name)
        (source / "meson.build").write_text(PROJECT)
        cls.build = source / "build"
        cls.logs = cls.build / "meson-logs"
        cls.meson("setup", cls.build, source)

    @staticmethod
    def meson(*words):
        subprocess.run(["meson", *words], check=False, stdout=subprocess.DEVNULL)

    def setUp(self):
        for log in self.logs.glob("testlog*"):
            log.unlink()

    def run_tests(self, *words):
        self.meson("test", "-C", self.build, "--quiet", *words)

    def count(self):
        return subprocess.run([sys.executable, HERE / "count.py", self.logs],
                              capture_output=True, text=True, check=False)

    def test_each_way_to_end(self):
        self.run_tests()
        # Passed: good, one of cases, two of watched. Failed: bad, hangs, one of cases, watched.
        self.assertEqual(self.count().stdout, "4 4\n")

    def test_a_setup_names_the_results(self):
        self.run_tests("--setup", "lane", "good")
        self.assertEqual(self.count().stdout, "1 0\n")

    def test_a_program_that_fails_after_its_cases(self):
        self.run_tests("watched")
        self.assertEqual(self.count().stdout, "2 1\n")

    def test_results_of_two_runs_are_an_error(self):
        self.run_tests("good")
        self.run_tests("--setup", "lane", "good")
        self.assertNotEqual(self.count().returncode, 0)

    def test_a_missing_result_is_an_error(self):
        done = self.count()
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")

    def test_half_a_result_is_an_error(self):
        self.run_tests("good")
        next(self.logs.glob("testlog*.json")).unlink()
        self.assertNotEqual(self.count().returncode, 0)


if __name__ == "__main__":
    unittest.main()

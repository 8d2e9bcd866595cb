#!/usr/bin/env python3
"""What ./dev depends on: the counts of its tests (count.py), and ./dev all (all.py)."""
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import size  # noqa: E402
import all as everything  # noqa: E402

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


class Size(unittest.TestCase):
    def count(self, suffix, text):
        with tempfile.NamedTemporaryFile("w", suffix=suffix) as file:
            file.write(text)
            file.flush()
            return size.code_lines(pathlib.Path(file.name))

    def test_neither_blank_nor_comment(self):
        self.assertEqual(self.count(".c", '/* a\n   b */\nint c; // d\n\nchar *e = "/*";\nf();\n'), 3)
        self.assertEqual(self.count(".js", "const a = `//\nb`; /* c */\n// d\n"), 2)
        self.assertEqual(self.count(".lua", "-- a\nlocal b = '--'\n\nreturn b -- c\n"), 2)
        self.assertEqual(self.count(".py", '#!a\n"""b\nc"""\nd = f(  # e\n    "g")\n\ndef h():\n'
                                           '    """i"""\n    return """j\nk"""\n'), 5)


# A ./dev whose verbs do what the rows below expect.
DEV = """#!/bin/sh
case $1 in
help) printf '%s\\n' './dev good         x' './dev bad N        x' './dev far          x' \\
  './dev other --all  x' './dev missed       x' './dev lost         x' ;;
good) echo '1 of 2'; echo '3 of 4' ;;
bad) echo '5 of 6'; exit 1 ;;
missed) echo 'missed: speed is 1, wanted 2'; echo '7 of 8'; exit 1 ;;
lost) echo 'missed: speed is 1, wanted 2'; echo 'missed: lost is 1, wanted 0'; exit 1 ;;
far) echo 'far is skipped: no way'; exit 69 ;;
other) : >other; exit 0 ;;
esac
"""
FIGURE = r"^(\d) of (\d)$"


def entries(**changes):
    return {
        "good": [everything.Row("good", figure=FIGURE)],
        "bad N": [everything.Row("bad 1", figure=FIGURE)],
        "far": [everything.Row("far", unless=r"^(far is skipped.*)$")],
        "other --all": [everything.Row("other --all")],
        "missed": [everything.Row("missed", figure=FIGURE)],
        "lost": [everything.Row("lost")],
        **changes,
    }


class All(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "dev").write_text(DEV)
        (self.root / "dev").chmod(0o755)

    def play(self, table, wanted=()):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = everything.main(self.root, wanted, table)
        self.said = said.getvalue()
        return code

    def row(self, name):
        """Its result and its figure."""
        found = [line for line in self.said.splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(found), 1, self.said)
        words = found[0].removeprefix(name).split()
        return words[0], " ".join(words[2:])

    def test_a_failure_does_not_stop_the_others(self):
        code = self.play(entries())
        self.assertEqual(code, 1)
        self.assertEqual(self.row("good"), ("ok", "3 4"))
        self.assertEqual(self.row("bad 1"), ("FAILED", "5 6 (exit code 1)"))
        self.assertEqual(self.row("far"), ("skipped", "far is skipped: no way"))
        self.assertEqual(self.row("other --all"), ("ok", ""))
        self.assertEqual(self.row("missed"), ("missed", "7 8; speed is 1, wanted 2"))
        self.assertEqual(self.row("lost"), ("FAILED", "(exit code 1)"))
        self.assertEqual((self.root / "build/all/bad-1.log").read_text(), "5 of 6\n")
        self.assertEqual((self.root / "build/all/table.txt").read_text(), self.said)

    def test_what_is_skipped_or_missed_is_no_failure(self):
        code = self.play(entries(), wanted=["good", "far", "missed"])
        self.assertEqual(code, 0)
        self.assertNotIn("bad", self.said)

    def test_a_figure_that_is_missing_is_a_failure(self):
        code = self.play(entries(good=[everything.Row("good", figure="(nothing)")]),
                         wanted=["good"])
        self.assertEqual((code, self.row("good")), (1, ("FAILED", "the figure is missing")))

    def test_a_verb_without_an_entry_is_an_error(self):
        table = entries()
        del table["other --all"]
        code = self.play(table)
        self.assertEqual(code, 1)
        self.assertIn("./dev other --all: a verb of the help text without an entry", self.said)
        self.assertFalse((self.root / "build").exists(), "something has run")

    def test_an_entry_without_a_verb_is_an_error(self):
        code = self.play(entries(gone=[everything.Row("gone")]))
        self.assertEqual(code, 1)
        self.assertIn("./dev gone: an entry", self.said)

    def test_no_row_begins_so(self):
        self.assertEqual(self.play(entries(), wanted=["nothing"]), everything.USAGE)

    def test_every_verb_that_dev_knows_is_in_the_help_text(self):
        text = (HERE.parent / "dev").read_text()
        shown = everything.verbs_of_help(HERE.parent)
        known = set(re.findall(r"^([\w-]+)\)", text.split('case "${1:-help}" in')[1], re.MULTILINE))
        self.assertEqual(known, {verb.split()[0] for verb in shown})
        for group in everything.GROUPS:
            body = text.split(f"\n{group}() {{\n")[1].split("\n}\n")[0]
            labels = " ".join(re.findall(r"^  ([a-z][\w |-]*)\)", body, re.MULTILINE))
            self.assertEqual(set(re.findall(r"[\w-]+", labels)),
                             {verb.split()[1] for verb in shown if verb.startswith(f"{group} ")}
                             - {"[NAME]"})

    def test_the_help_fits_one_screen(self):
        for group in ("help", *everything.GROUPS):
            done = subprocess.run([HERE.parent / "dev", group], capture_output=True, text=True,
                                  check=True)
            self.assertLessEqual(len(done.stdout.splitlines()), 24, group)

    def test_an_unknown_name_of_a_group_is_a_usage_error(self):
        for words in (["nothing"], *([group, "nothing"] for group in everything.GROUPS)):
            done = subprocess.run([HERE.parent / "dev", *words], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (everything.USAGE, ""), words)

    def test_every_verb_of_the_help_text_has_an_entry(self):
        _, wrong = everything.plan(everything.verbs_of_help(HERE.parent), everything.VERBS)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()

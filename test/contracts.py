#!/usr/bin/env python3
"""contracts.toml names a test for each rule of the public headers and each code of a function.

The headers list codes after "Results: " (of a callback) and "Errors: " (returned), at the end
of the comment on a function, a member `on_lost` or a mode of admission.
"""
import pathlib
import re
import tomllib
import unittest

TEST = pathlib.Path(__file__).resolve().parent
HEADERS = {path.name: path.read_text()
           for path in sorted((TEST.parent / "include/redlock").glob("*.h*"))}
TABLE = tomllib.loads((TEST / "contracts.toml").read_text())
RULES = TABLE.pop("rules")
CODES = set(re.findall(r"^    X\((\w+), \d+,", HEADERS["redlock.h"], re.MULTILINE))
COMMENT = r"/\*((?:(?!\*/).)*)\*/\s*"
NAMED = (r"(?:REDLOCK_API [\w *]*?\b(redlock_\w+)\(|(redlock_\w+_fn) \*on_lost;"
         r"|(REDLOCK_ADMIT_\w+))")


def lists(comment):
    """The lists of codes in a comment: their kind, and a text of codes and functions."""
    text = re.sub(r"\([^()]*\)", "", comment.replace("()", ""))
    return re.findall(r"\b(Results|Errors): (.*?)(?=\b(?:Results|Errors): |\Z)", text, re.DOTALL)


def read_headers():
    """What each function, and so on, may return or report: {(name, kind): codes}."""
    said, others = {}, []
    for text in HEADERS.values():
        for comment, *names in re.findall(COMMENT + NAMED, text, re.DOTALL):
            name = "".join(names)
            for kind, listed in lists(comment):
                said[name, kind] = set(re.findall(r"\b[A-Z_]+\b", listed)) & CODES
                others += [(name, kind, other)
                           for other in re.findall(r"those of (redlock_\w+)", listed)]
    for name, kind, other in others:  # in the order of the headers
        said[name, kind] |= said[other, kind]
    return said


SAID = read_headers()
ROWS = {(name, kind): rows for name, kinds in TABLE.items() for kind, rows in kinds.items()}


class Contracts(unittest.TestCase):
    def test_each_function_lists_its_codes(self):
        for text in HEADERS.values():
            for name in re.findall(r"^REDLOCK_API redlock_code (\w+)\(", text, re.MULTILINE):
                with self.subTest(name):
                    self.assertTrue(SAID.get((name, "Errors")))

    def test_each_code_has_a_test(self):
        self.assertEqual(sorted(ROWS), sorted(SAID))
        for pair, codes in SAID.items():
            with self.subTest(pair):
                tested = " ".join(ROWS[pair].values()).split()
                self.assertEqual(sorted(tested), sorted(codes))

    def test_each_rule_has_a_test(self):
        rules = [f"{name} {number}" for name, text in HEADERS.items()
                 for number in re.findall(r"^ \*  (\d+)\. ", text, re.MULTILINE)]
        self.assertEqual(sorted(RULES), sorted(rules))

    def test_each_test_exists(self):
        rows = [(test, codes.split()) for row in ROWS.values() for test, codes in row.items()]
        for rule, tests in RULES.items():
            self.assertTrue(tests, rule)
            rows += [(test, []) for test in tests]
        for test, codes in rows:
            with self.subTest(test):
                file, _, name = test.partition(" ")
                text = (TEST / file).read_text()
                self.assertTrue(
                    re.search(rf'^Test\(\w+, {name}\)|^    {{"{name}",', text, re.MULTILINE))
                for code in codes:
                    self.assertTrue(re.search(rf"\b(REDLOCK_)?{code}\b", text), code)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Does abi.py tell growth from changes? Each row edits the baseline. Skipped without abidiff."""
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
import abi  # noqa: E402

SKIPPED = 77  # an exit code for meson

# (what, text of the baseline, text in its place)
GROWTH = [
    ("a function more", "REDLOCK_API const char *redlock_version(void);",
     "REDLOCK_API const char *redlock_version(void);\nREDLOCK_API void redlock_more(void);"),
    ("an option more", "    void *trace_arg;\n", "    void *trace_arg;\n    int64_t more[4];\n"),
    ("an error that grows", "} redlock_error;", "    int more;\n} redlock_error;"),
    ("a code more", "typedef enum redlock_code {", "#define MORE REDLOCK_MORE = 99,\n"
     "typedef enum redlock_code { MORE"),
]
CHANGES = [
    ("a function less", "REDLOCK_API const char *redlock_version(void);", ""),
    ("another argument", "redlock_code_name(redlock_code code)", "redlock_code_name(long code)"),
    ("another result", "REDLOCK_API const char *redlock_version", "REDLOCK_API int redlock_version"),
    ("an option less", "    bool durable;\n", ""),
    ("an option in the middle", "    const char *username;\n",
     "    int64_t more;\n    const char *username;\n"),
    ("another type of an option", "uint32_t drift_ppm;", "int64_t drift_ppm;"),
    ("another value of a code", "X(TAKEN, 1,", "X(TAKEN, 98,"),
    ("a code less", "X(TAKEN, 1,", "X(TAKE, 1,"),
    ("a key that grows", "} redlock_key;", "    int more;\n} redlock_key;"),
    ("another callback", "typedef void redlock_lease_fn(", "typedef int redlock_lease_fn("),
]


class Abi(unittest.TestCase):
    def check(self, rows, compatible):
        baseline = abi.read(abi.BASELINE)
        name = "redlock.h"
        for what, text, other in rows:
            with self.subTest(what):
                self.assertEqual(baseline[name].count(text), 1, text)
                changed = {**baseline, name: baseline[name].replace(text, other)}
                self.assertEqual(abi.is_compatible(changed, baseline), compatible)

    def test_growth_is_accepted(self):
        self.check(GROWTH, True)

    def test_changes_are_errors(self):
        self.check(CHANGES, False)


if __name__ == "__main__":
    if not shutil.which("abidiff"):
        print("abidiff is missing")
        sys.exit(SKIPPED)
    unittest.main()

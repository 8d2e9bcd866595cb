#!/usr/bin/env python3
"""docs/protocol.md is about the scripts that there are: their arguments, errors and bounds."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lua"))
import embed  # noqa: E402
import variables  # noqa: E402

PAGE = (ROOT / "docs/protocol.md").read_text()
SCRIPTS = {path.stem: embed.body(path) for path in sorted((ROOT / "lua").glob("*.lua"))
           if not variables.is_part(path)}
# The code below a heading that is the name of a script.
COMMANDS = dict(re.findall(r"^### ([a-z_]+)\n\n    EVALSHA SHA1 (.*(?:\n     +.*)*)$", PAGE, re.MULTILINE))


def used(script, name):
    """The largest index of KEYS or ARGV in it; ARGV[#ARGV] is one more argument."""
    indexes = [int(index) for index in re.findall(rf"\b{name}\[(\d+)\]", script)]
    return max(indexes, default=0) + (f"{name}[#{name}]" in script)


class Protocol(unittest.TestCase):
    def test_each_script_has_a_section(self):
        self.assertEqual(sorted(COMMANDS), sorted(SCRIPTS))

    def test_arguments_are_those_of_the_script(self):
        for name, script in SCRIPTS.items():
            with self.subTest(name):
                keys, *words = re.findall(r"[^\s\[\]]+", COMMANDS[name])
                counted = 1 if words[0] == "SET" else int(keys)
                if words[0] != "SET":
                    self.assertEqual(counted, used(script, "KEYS"), "KEYS")
                self.assertEqual(len(words) - counted, used(script, "ARGV"), "ARGV")

    def test_each_error_of_a_script_has_a_row(self):
        for name, script in SCRIPTS.items():
            section = PAGE.partition(f"### {name}\n")[2].partition("\n##")[0]
            for error in re.findall(r"error_reply\('(\w+)", script):
                with self.subTest(name, error=error):
                    self.assertIn(f"`{error}`", section)
                    self.assertIn(f"\n| `{error}` | ", PAGE)

    def test_bounds_are_those_of_the_scripts(self):
        text = "".join(SCRIPTS.values())
        for bound, shown in (("now + 5000000", "5 s"), ("> 1000000", "1 s"),
                             ("'86400000'", "24 h"), ("+ 60000", "60 s"),
                             ("= 0, 10000", "10,000")):
            with self.subTest(bound):
                self.assertIn(bound, text)
                self.assertIn(shown, PAGE)

    def test_keys_are_those_of_the_sources(self):
        sources = "".join(path.read_text() for folder in ("src", "lua")
                          for path in (ROOT / folder).rglob("*.[chl]*"))
        for name in ("!fence", "!intent", "!queue", "!marker", "!term", "!watch", "!wake:"):
            with self.subTest(name):
                self.assertIn(name, sources)
                self.assertIn(name, PAGE)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""lua/embed.py refuses a script or a part that uses a variable otherwise than it declares, and puts
values in the place of constants."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lua"))
import constants  # noqa: E402
import embed  # noqa: E402
import variables  # noqa: E402

SCRIPT = """-- A comment.
local now = redis.call('TIME')
if ARGV[1] then
  -- with part.lua
  return late
end
return now
"""
PART = """-- part: reads now; sets late
local late = now - tonumber(ARGV[1])
"""

# The mistake, script, part, and text of the message.
MISTAKES = (
    ("a part reads what its first line does not name",
     SCRIPT, PART.replace("reads now; ", ""), "reads now, which part.lua does not declare"),
    ("a part reads what is not set before it",
     SCRIPT.replace("local now = redis.call('TIME')\n", "").replace("return now", "return 0"),
     PART, "reads now, which is not set before"),
    ("what a part reads is set behind it",
     "-- with part.lua\nlocal now = 1\nreturn late + now\n", PART, "reads now"),
    ("a script reads what nothing sets", SCRIPT + "return missing\n", PART, "reads missing"),
    ("a script reads what a part sets, in another block",
     SCRIPT.replace("return now", "return late"), PART, "reads late, which is not set before"),
    ("a script reads a variable in its own value", "local x = x\nreturn x\n", PART, "reads x"),
    ("a part sets what its first line does not name",
     SCRIPT, PART.replace("; sets late", ""), "sets late, which part.lua does not declare"),
    ("a part changes what its first line only reads",
     SCRIPT, PART + "now = 0\n", "sets now, which part.lua does not declare"),
    ("a script sets a global variable", SCRIPT.replace("return now", "late = now"), PART,
     "sets late, which no `local` declares"),
    ("a part declares that it reads what it does not read",
     SCRIPT, PART.replace("reads now", "reads now, ttl"), "declares that it reads ttl"),
    ("a part declares that it sets what it does not set",
     SCRIPT, PART.replace("sets late", "sets late, ttl"), "declares that it sets ttl"),
    ("a script declares what it does not read",
     "local ttl = 1\n" + SCRIPT, PART, "declares ttl, and does not read it"),
    ("a script declares without a value", "local ttl\n" + SCRIPT + "return ttl\n", PART,
     "declares ttl, and does not set it"),
    ("a script declares more than it has values",
     "local a, b, ttl = 1, {2, 3}\nreturn a + b + ttl\n", PART,
     "declares ttl, and does not set it"),
    ("a part replaces a variable of the script",
     SCRIPT.replace("  -- with", "  local late = 0\n  -- with"), PART, "declared already"),
    ("a part does not begin with what it reads and sets",
     SCRIPT, "-- A comment.\n" + PART, "its first line is not"),
    ("a part is used as a script", PART, PART, "a part is no script"),
)


class Variables(unittest.TestCase):
    def embed(self, script, part):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "part.lua").write_text(part)
            (folder / "script.lua").write_text(script)
            return embed.body(folder / "script.lua")

    def test_splices_what_is_right(self):
        self.assertEqual(self.embed(SCRIPT, PART).splitlines(), [
            "local now = redis.call('TIME')", "if ARGV[1] then",
            "local late = now - tonumber(ARGV[1])", "return late", "end", "return now"])

    def test_refuses_each_mistake(self):
        for what, script, part, message in MISTAKES:
            with self.subTest(what), self.assertRaises(variables.Mistake) as caught:
                self.embed(script, part)
            with self.subTest(what):
                self.assertIn(message, str(caught.exception))

    def test_nested_part_reads_through_the_outer_one(self):
        outer = "-- part: sets late\n-- with inner.lua\n"
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "part.lua").write_text(outer)
            (folder / "inner.lua").write_text(PART)
            (folder / "script.lua").write_text(SCRIPT)
            with self.assertRaisesRegex(variables.Mistake, "part.lua does not declare"):
                embed.body(folder / "script.lua")
            (folder / "part.lua").write_text(outer.replace("sets", "reads now; sets"))
            embed.body(folder / "script.lua")

    def test_every_part_is_used(self):
        files = sorted((ROOT / "lua").glob("*.lua"))
        text = "".join(path.read_text() for path in files)
        for path in filter(variables.is_part, files):
            self.assertIn(f"{variables.WITH}{path.name}\n", text)


class Constants(unittest.TestCase):
    def test_a_value_takes_the_place_of_the_name(self):
        self.assertEqual(constants.put_into("since % NOTIFIED, NOTIFIED_TWICE, '^[FENCED_LETTERS]:'"),
                         "since % 4e15, NOTIFIED_TWICE, '^[fg]:'")

    def test_each_is_used_and_none_is_written_out(self):
        lines = [line for path in (ROOT / "lua").glob("*.lua") for line in path.read_text().splitlines()
                 if not line.strip().startswith("--") and path.name != "note_hold.lua"]
        for name, value in constants.VALUES.items():
            with self.subTest(name):
                self.assertTrue(any(constants.put_into(line) != line and name in line for line in lines))
                if "LETTERS" not in name:
                    self.assertFalse([line for line in lines if value in line])

    def test_letters_are_those_of_the_table_of_kinds(self):
        kinds = constants.KINDS.read_text()
        toys = """
    {
        .type = REDLOCK_KIND_TOY,
        .mark = "y",
        .word = "TOYS",
    },
    {
        .type = REDLOCK_KIND_TOY,
        .mark = "z:",
        .is_fenced = true,
    },
"""
        before, after = constants.letters(kinds), constants.letters(kinds + toys)
        self.assertEqual(after, {"LETTERS": before["LETTERS"] + "y",
                                 "COLON_LETTERS": before["COLON_LETTERS"] + "z",
                                 "FENCED_LETTERS": before["FENCED_LETTERS"] + "z"})
        with self.assertRaises(AssertionError):
            constants.letters(kinds + '.mark = "toy",')


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Each row of mutations.toml applies; one that is ambiguous or stale is refused."""
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LUA = HERE.parents[1] / "lua"
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(LUA)]
import embed  # noqa: E402
import mutations  # noqa: E402
import variables  # noqa: E402

FIRST = """#define LONGEST \\
    5
int prototype(int a);
static const char *const names[] = {
    "one",
};

static int step(int a)
{
    if (a > 1)
        return a;
    return 0;
}

int step_later(int a)
{
    return 0;
}
"""
SECOND = FIRST.replace("a > 1", "a > 2").replace("names", "others").replace("LONGEST", "SHORTEST")
SCRIPT = """if found then
  return 1
end
return 0
"""
FILES = {"src/core/first.c": FIRST, "src/second.c": SECOND, "lua/look.lua": SCRIPT}

# The definition, its file, the change, and the file with it; or why not.
RIGHT = (
    ("step", "src/core/first.c", "-if (a > 1)\n-    return a;\n+if (a)\n+    return 2;\n",
     FIRST.replace("a > 1", "a").replace("return a", "return 2")),
    ("step", "src/second.c", "         if (a > 2)\n+        a++;\n",
     SECOND.replace("(a > 2)\n", "(a > 2)\n    a++;\n")),
    ("LONGEST", "src/core/first.c", "-5\n+6\n", FIRST.replace("5", "6")),
    ("names", "src/core/first.c", "-\"one\",\n", FIRST.replace("    \"one\",\n", "")),
    ("look.lua", "lua/look.lua", "-return 1\n+return 2\n", SCRIPT.replace("return 1", "return 2")),
)
WRONG = (
    ("step", "-return 0;\n", "stand in step 2 times"),
    ("step", "-return 9;\n", "stand in step 0 times"),
    ("step", "+return 9;\n", "not all with +"),
    ("prototype", "-return 0;\n", "nothing is named prototype"),
    ("step", "return 0;\n", "begin with -, + or a space"),
)


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def patch(self, where, change):
        return mutations.patched({"name": "a row", "in": where, "change": change}, self.root)

    def test_changes(self):
        for where, source, change, wanted in RIGHT:
            with self.subTest(where=where, source=source):
                self.assertEqual(self.patch(where, change), (self.root / source, wanted))

    def test_refusals(self):
        for where, change, why in WRONG:
            with self.subTest(why=why):
                with self.assertRaises(SystemExit) as failed:
                    self.patch(where, change)
                self.assertIn(why, str(failed.exception))

    def test_the_table(self):
        rows = mutations.read_table()
        self.assertTrue(rows)
        self.expect_scripts([row for row in rows if row["source"].suffix == ".lua"])

    def expect_scripts(self, rows):
        """lua/embed.py must take each script with the change in it or in one of its parts."""
        lua = self.root / "whole"
        shutil.copytree(LUA, lua)
        scripts = [path for path in lua.glob("*.lua") if not variables.is_part(path)]
        with_parts = {path: {path.name, *(line.strip().removeprefix(variables.WITH)
                                          for line in embed.expand(path))} for path in scripts}
        for row in rows:
            changed = lua / row["source"].name
            changed.write_text(row["text"])
            for path in scripts:
                if changed.name in with_parts[path]:
                    with self.subTest(row["name"], script=path.name):
                        embed.body(path)
            changed.write_text(row["source"].read_text())


if __name__ == "__main__":
    unittest.main()

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

# Each command that scripts call, and each that the library sends by itself.
CALLED = set(re.findall(r"redis\.p?call\('(\w+)'", "".join(SCRIPTS.values())))
SENT = set(re.findall(r'(?:word\(|PUT\(\w+, |\{)"([A-Z]{3,})"', "".join(
    path.read_text() for room in ("core", "net", "client", "admin")
    for path in sorted((ROOT / "src" / room).rglob("*.c")) if path.name != "acl.c")))
# The rows of acl.c: a command, its purpose, and the uses that need it.
RIGHTS = re.findall(r'^    \{"([A-Z|]+)", (RL_TO_\w+), ([\w |]+), \{', (ROOT / "src/admin/acl.c").read_text(),
                    re.MULTILINE)
PURPOSES = {
    "RL_TO_CONNECT": "each connection", "RL_TO_LOCK": "each lock",
    "RL_TO_LOCK_SETS": "locks of several keys",
    "RL_TO_TELL_TIME": "fenced and shared locks, check",
    "RL_TO_WAIT": "queues, shared locks", "RL_TO_SUBSCRIBE": "notifications",
    "TO_SELECT": "a database other than 0",
    "REDLOCK_ACL_REDISSON": "Redisson's layout (`--redisson`)",
    "REDLOCK_ACL_LIST": "list, admit (`--list`)",
}


def rights():
    """The table of the page."""
    lines = ["| command | sent by | needed for |", "|---|---|---|"]
    for name, purpose, uses in RIGHTS:
        command = name.partition("|")[0]
        senders = [sender for sender, commands in (("client", SENT), ("scripts", CALLED))
                   if command in commands]
        needs = [purpose] if uses == "0" else uses.split(" | ")
        lines.append(f"| `{name.replace('|', ' ')}` | {', '.join(senders)} | "
                     f"{', '.join(PURPOSES[need] for need in needs)} |")
    return "\n".join(lines) + "\n"


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

    def test_rights_are_those_of_check_acl(self):
        shown = PAGE.partition("### Rights\n")[2].partition("\n##")[0]
        table = "".join(line + "\n" for line in shown.splitlines() if line.startswith("|"))
        self.assertEqual(table, rights(), "docs/protocol.md, Rights: must be\n" + rights())

    def test_each_command_has_a_right(self):
        names = {right.partition("|")[0] for right, *_ in RIGHTS}
        self.assertEqual((CALLED | SENT) - names, {"AUTH", "CONFIG", "LIST", "SETNAME"})
        self.assertEqual(names - CALLED - SENT, set())


if __name__ == "__main__":
    unittest.main()

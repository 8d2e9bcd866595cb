#!/usr/bin/env python3
"""docs/schema/redlock.schema.json is a schema, and has the words of the headers and sources."""
import json
import pathlib
import re
import sys
import unittest

TEST = pathlib.Path(__file__).resolve().parent
ROOT = TEST.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(TEST / "support"))
import json_schema  # noqa: E402

SCHEMA = json_schema.SCHEMA
DEFINITIONS = SCHEMA["$defs"]
HEADERS = re.sub(r"/\*.*?\*/", "", "".join(
    path.read_text() for path in sorted((ROOT / "include/redlock").glob("*.h"))), flags=re.DOTALL)
SOURCES = "".join(path.read_text() for path in sorted((ROOT / "src/cli").rglob("*.[ch]")))


def rows(macro, text=HEADERS):
    """The constant and the name of each row; where there is no name: what follows."""
    [body] = re.findall(rf"^#define {macro}\(X\)(.*(?:\n.*)*?[^\\])$", text, re.MULTILINE)
    return re.findall(r'\bX\((\w+), +"?([\w-]+)', body)


def parts(part):
    """Each schema in it."""
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part:
        if isinstance(each, (dict, list)):
            yield from parts(each)


class Schema(unittest.TestCase):
    def test_it_is_a_schema(self):
        json_schema.jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_values_are_those_of_the_headers(self):
        self.assertEqual(DEFINITIONS["cause"]["enum"],
                         [constant.lower() for constant, _ in rows("REDLOCK_CODES")])
        for values, macro in (("code", "REDLOCK_CODES"), ("reason", "REDLOCK_REASONS")):
            self.assertEqual(DEFINITIONS[values]["enum"], [name for name, _ in rows(macro)], macro)
        for values, macro in (
                (DEFINITIONS["fault"]["enum"], "REDLOCK_FAULTS"),
                (DEFINITIONS["kind"]["enum"], "REDLOCK_KINDS"),
                (DEFINITIONS["node"]["properties"]["verdict"]["enum"], "REDLOCK_VERDICTS"),
                (DEFINITIONS["member"]["properties"]["state"]["enum"], "REDLOCK_MEMBER_STATES")):
            self.assertEqual([value for value in values if value not in (None, "foreign")],
                             [name for _, name in rows(macro)], macro)

    def test_values_are_those_of_the_sources(self):
        rules = "".join((ROOT / "src/admin" / file).read_text()
                        for file in ("health_rules.c", "member_rules.c"))
        self.assertEqual(DEFINITIONS["finding"]["properties"]["code"]["enum"],
                         re.findall(r'^    {"(\w+)", REDLOCK_', rules, re.MULTILINE))
        self.assertEqual(DEFINITIONS["run"]["properties"]["cause"]["enum"],
                         [name for _, name in rows("RUN_CAUSES", (ROOT / "src/cli/run/ending.h").read_text())])

    def test_members_are_in_the_sources(self):
        for part in parts(SCHEMA):
            for name in part.get("properties", {}):
                if not isinstance(name, str) or name == "schema":
                    continue
                with self.subTest(name):
                    self.assertIn(f'"{name}"', SOURCES)

    def test_each_output_is_listed_once(self):
        """The tests of the command validate all that it prints: test/cli/lab.py."""
        outputs = [name for name, part in DEFINITIONS.items() if '"const"' in json.dumps(part)]
        self.assertEqual([each["$ref"] for each in SCHEMA["oneOf"]],
                         [f"#/$defs/{name}" for name in outputs])
        for name in outputs:
            self.assertIn(f'"const": "redlock.{name}/1"', json.dumps(DEFINITIONS[name]))


if __name__ == "__main__":
    unittest.main()

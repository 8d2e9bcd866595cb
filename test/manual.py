#!/usr/bin/env python3
"""The man pages of docs/man say what the headers, --help and the sources of the command say.

usage: manual.py REDLOCK

Headers: each function, struct, enum and constant is on exactly one page, with its prototype,
members and values; nothing else is; and the codes of each function are those of its comment.
Command: options, exit codes, environment and configuration keys.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TEST = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TEST))
import contracts  # noqa: E402

ROOT = TEST.parent
LINE_MAX = 95
REDLOCK = sys.argv.pop() if len(sys.argv) > 1 else None


# --- pages ---

def split_sections(text, mark):
    """{heading: text} of the headings that begin with `mark`."""
    parts = re.split(rf"^{mark} (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class Page:
    def __init__(self, path):
        self.file = path.name.removesuffix(".scd")
        self.name, _, self.number = self.file.rpartition(".")
        self.text = path.read_text()
        self.prose = re.sub(r"^```\n.*?^```\n", "", self.text, flags=re.MULTILINE | re.DOTALL)
        self.sections = split_sections(self.text, "#")
        names = self.sections["NAME"].replace("\n", " ").split(" - ")[0]
        self.names = [name.strip() for name in names.split(",")]
        self.parts = split_sections(self.text, "##")  # each ends with the next heading
        for heading, part in self.parts.items():
            self.parts[heading] = re.split(r"^# ", part, flags=re.MULTILINE)[0]

    def definitions(self, section):
        """[(term without formats, its text)] of a section, also in its subsections."""
        found = re.findall(r"^(\S.*)\n((?:\t.*\n|\n(?=\t))+)", self.sections.get(section, ""),
                           flags=re.MULTILINE)
        return [(plain(term), text) for term, text in found]


def plain(text):
    """Without the formats of scdoc."""
    text = re.sub(r"\\(.)", lambda match: f"\0{ord(match[1])}\0", text)
    text = text.replace("*", "")
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", "", text)
    return re.sub(r"\0(\d+)\0", lambda match: chr(int(match[1])), text)


def bold(text):
    return set(re.findall(r"\*([^*\s][^*]*)\*", re.sub(r"\\.", "", text)))


PAGES = {page.file: page
         for page in map(Page, sorted((ROOT / "docs/man").glob("*.scd")))}
API = [page for page in PAGES.values() if page.number == "3"]


# --- headers ---

TEXTS = {name: text for name, text in contracts.HEADERS.items() if name.endswith(".h")}
CODE = {name: re.sub(r"/\*.*?\*/", " ", text.replace("\\\n", " "), flags=re.DOTALL)
        for name, text in TEXTS.items()}
ALL_CODE = "\n".join(CODE.values())


def tokens(text):
    return re.findall(r"\w+|[^\s\w]", text)


def prototypes(text, before):
    """{name: tokens of the prototype}"""
    pattern = rf"^{before}([^;{{}}#]*?\b(redlock_\w+)\([^()]*\))\s*(?:;|{{)"
    return {name: tokens(prototype)
            for prototype, name in re.findall(pattern, text, re.MULTILINE)}


FUNCTIONS = {**prototypes(ALL_CODE, "REDLOCK_API "), **prototypes(ALL_CODE, "static inline ")}
CALLBACKS = prototypes(ALL_CODE, "typedef ")
HEADER_OF = {name: header for header, code in CODE.items()
             for name in prototypes(code, "(?:REDLOCK_API |static inline |typedef )")}
# {macro: the first words of its rows}, and {row: its number} of the codes
ROWS = {macro: re.findall(r"\bX\((\w+),", rows) for macro, rows in
        re.findall(r"^#define (REDLOCK_\w+)\(X\)(.*)$", ALL_CODE, re.MULTILINE)}
NUMBERS = dict(re.findall(r"\bX\((\w+), (\d+),", ALL_CODE))


def members(body):
    """The names that the members of a struct have."""
    for declaration in body.split(";"):
        for part in declaration.split(","):
            words = re.findall(r"\w+", re.sub(r"\[.*?\]", "", part))
            if words:
                yield words[-1]


def enumerators(body):
    generated = re.search(r"#define \w+\([^)]*\) (REDLOCK_\w*?)##.*?(REDLOCK_\w+)\(REDLOCK_X_\)",
                          body, re.DOTALL)
    if generated:
        apart = re.findall(r"\b(REDLOCK_\w+) = -?\d+,", body)
        return apart + [generated[1] + row for row in ROWS[generated[2]]]
    return re.findall(r"\b(REDLOCK_\w+)", re.sub(r"=[^,]*", "", body))


STRUCTS = {name: set(members(body)) for body, name in
           re.findall(r"typedef struct redlock_\w+ {([^{}]*)} (\w+);", ALL_CODE)}
ENUMS = {name: enumerators(body) for body, name in
         re.findall(r"typedef enum redlock_\w+ {([^{}]*)} (\w+);", ALL_CODE)}
ENUMERATORS = {row for rows in ENUMS.values() for row in rows}
CONSTANTS = {*ENUMERATORS,
             *(name for body in re.findall(r"^enum {([^{}]*)};", ALL_CODE, re.MULTILINE)
               for name in enumerators(body)),
             *re.findall(r"^#define (REDLOCK_\w+) +[^ ]", ALL_CODE, re.MULTILINE)}
CONSTANTS -= {"REDLOCK_API"}


class Headers(unittest.TestCase):
    def test_the_headers_are_understood(self):
        for found in (FUNCTIONS, CALLBACKS, STRUCTS, ENUMS, CONSTANTS, NUMBERS):
            self.assertGreater(len(found), 5)
        declared = re.findall(r"^(?:REDLOCK_API|static inline)\b", ALL_CODE, re.MULTILINE)
        self.assertEqual(len(FUNCTIONS), len(declared))

    def test_each_function_is_on_one_page(self):
        where = {}
        for page in API:
            if page.name != "libredlock":
                for name in prototypes(page.sections["SYNOPSIS"], ""):
                    where.setdefault(name, []).append(page.file)
        for name in {*FUNCTIONS, *CALLBACKS, *where}:
            with self.subTest(name):
                self.assertIn(name, HEADER_OF, where.get(name))
                self.assertEqual(len(where.get(name, [])), 1, where.get(name))

    def test_each_prototype_is_that_of_its_header(self):
        """Token by token, after the #include of its header."""
        for page in API:
            header = None
            if page.name == "libredlock":
                continue
            for statement in page.sections["SYNOPSIS"].strip("`\n").split("\n\n"):
                include = re.fullmatch(r"#include <redlock/(\w+\.h)>", statement)
                if include:
                    header = include[1]
                    continue
                is_callback = statement.startswith("typedef ")
                found = prototypes(statement, "typedef " if is_callback else "")
                with self.subTest(page=page.file, statement=statement):
                    [[name, words]] = found.items()
                    self.assertEqual(words, (CALLBACKS if is_callback else FUNCTIONS)[name])
                    self.assertEqual(statement[-1], ";")
                    self.assertEqual(HEADER_OF[name], header)

    def test_names_are_what_the_page_has(self):
        for page in API:
            if page.name == "libredlock":
                continue
            with self.subTest(page.file):
                shown = [name for name in prototypes(page.sections["SYNOPSIS"], "")
                         if name in FUNCTIONS]
                types = {heading.split()[1] for heading in page.parts
                         if re.match(r"(struct|enum) ", heading)}
                self.assertEqual(page.names[0], page.name)
                self.assertLessEqual(set(shown), set(page.names))
                self.assertLessEqual(set(page.names), {*shown, *types})

    def test_each_struct_and_enum_is_on_one_page(self):
        headings = [heading for page in API for heading in page.parts]
        for kind, types in (("struct", STRUCTS), ("enum", ENUMS)):
            named = [heading.split()[1] for heading in headings
                     if heading.startswith(kind + " ")]
            self.assertEqual(sorted(named), sorted(types))

    def test_each_member_and_value_is_explained(self):
        for page in API:
            for heading, part in page.parts.items():
                kind, _, name = heading.partition(" ")
                if kind not in ("struct", "enum"):
                    continue
                terms = re.findall(r"^(\*.*)\n\t", part, re.MULTILINE)
                with self.subTest(page=page.file, type=name):
                    expected = STRUCTS[name] if kind == "struct" else set(ENUMS[name])
                    listed = [word for term in terms for word in re.findall(r"\*(\w+)\*", term)]
                    self.assertEqual(sorted(listed), sorted(expected))

    def test_the_numbers_of_the_codes(self):
        part = PAGES["redlock_last_error.3"].parts["enum redlock_code"]
        shown = re.findall(r"^\*REDLOCK_(\w+)\* \((\d+)\)$", part, re.MULTILINE)
        self.assertEqual(dict(shown), NUMBERS)

    def test_the_texts_of_faults_and_verdicts(self):
        page = PAGES["redlock_fault_name.3"]
        for kind in ("fault", "verdict"):
            rows = re.findall(r"^\*REDLOCK_[A-Z]+?_(\w+)\*\n((?:\t.*\n)+)",
                              page.parts[f"enum redlock_{kind}"], re.MULTILINE)
            shown = {row: " ".join(text.split()) for row, text in rows}
            [macro] = re.findall(rf"^#define REDLOCK_{kind.upper()}S\(X\)(.*)$", ALL_CODE,
                                 re.MULTILINE)
            texts = re.findall(r'\bX\((\w+), +(?:(?:NULL|"[^"]*"), +)+((?:"[^"]*" *)+)\)', macro)
            for name, text in texts:
                with self.subTest(name):
                    text = "".join(re.findall(r'"([^"]*)"', text))
                    self.assertEqual(shown[name], text[0].upper() + text[1:] + ".")

    def test_each_constant_is_mentioned(self):
        shown = {word for page in API for word in bold(page.prose) if word.startswith("REDLOCK_")}
        environment = set(re.findall(r"\"(REDLOCK_\w+)", sources()))
        self.assertEqual(CONSTANTS - shown, set())
        self.assertEqual(shown - CONSTANTS - environment, set())

    def test_each_code_of_a_function(self):
        """Under RESULTS and ERRORS; a page names codes without REDLOCK_."""
        said = {}
        for page in API:
            for kind in ("Results", "Errors"):
                for term, text in page.definitions(kind.upper()):
                    codes = set(re.findall(r"\b[A-Z_]+\b", text)) & contracts.CODES
                    for name in term.split(", "):
                        if name == "on_lost":
                            name = re.search(r"\b(\w+_fn) \*on_lost",
                                             TEXTS[page_header(page)])[1]
                        self.assertNotIn((name, kind), said)
                        said[name, kind] = codes
        self.assertEqual(sorted(said), sorted(contracts.SAID))
        for pair, codes in contracts.SAID.items():
            with self.subTest(pair):
                self.assertEqual(sorted(said[pair]), sorted(codes))


def page_header(page):
    return re.search(r"#include <redlock/(\w+\.h)>", page.sections["SYNOPSIS"])[1]


# --- the command ---

SETTINGS = (ROOT / "src/base/settings.c").read_text()


def sources():
    return SETTINGS + "".join(path.read_text()
                              for path in sorted((ROOT / "src/cli").rglob("*.[ch]")))


def help_of(*words):
    return subprocess.run([REDLOCK, *words, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


GLOBAL = "Options of every command"
HELP = help_of() if REDLOCK else ""
COMMANDS = re.findall(r"^  (\w+) +\w", HELP.partition("Commands:")[2].partition(GLOBAL)[0],
                      re.MULTILINE)
# The help of each page of section 1: its own options and exit codes, not those of all.
HELPS = {f"redlock-{name}.1": help_of(name).partition(GLOBAL)[0] for name in COMMANDS}
HELPS["redlock.1"] = HELP


def options_of(text):
    """'-t, --ttl TTL' of each option that a help has."""
    found = re.findall(r"^ {2,6}((?:-\w, )?--[\w-]+(?: \S+)*?)(?:  |$)", text, re.MULTILINE)
    return [option.strip() for option in found]


def codes_of(text):
    """The exit codes that a help lists."""
    [listed] = re.findall(r"^Exit codes(?: that commands share)?: (.*?)(?:\n\n|\Z|\nMore:)", text,
                          re.MULTILINE | re.DOTALL)
    listed = " ".join(listed.split())
    codes = {code for code in re.findall(r"(?:^|[;,] )(\d+)(?=[ :])", listed)}
    codes |= {"128+n"} if "128+n" in listed else set()
    return codes | ({"CMD's own"} if listed.startswith("CMD's own") else set())


class Command(unittest.TestCase):
    def test_each_command_has_a_page(self):
        self.assertGreater(len(COMMANDS), 10)
        shown = [file for file, page in PAGES.items() if page.number == "1"]
        self.assertEqual(sorted(shown), sorted(HELPS))
        named = [word for term, _ in PAGES["redlock.1"].definitions("COMMANDS")
                 for word in term.split(", ")]
        self.assertEqual(sorted(named), sorted(COMMANDS))

    def test_options(self):
        for file, text in HELPS.items():
            with self.subTest(file):
                shown = [term for term, _ in PAGES[file].definitions("OPTIONS")]
                self.assertEqual(sorted(shown), sorted(options_of(text)))

    def test_synopsis_has_each_option(self):
        for file, text in HELPS.items():
            with self.subTest(file):
                own = {word for option in options_of(text) for word in option.split(", ")}
                own = {word.split()[0] for word in own}
                synopsis = plain(PAGES[file].sections["SYNOPSIS"])
                shown = set(re.findall(r"(?<![\w-])(--?[\w-]+)", synopsis)) - {"--"}
                self.assertLessEqual(shown, own)
                for option in options_of(text) if file != "redlock.1" else []:
                    words = {word.split()[0] for word in option.split(", ")}
                    if file != "redlock-local.1" or option != "--tls":
                        self.assertTrue(words & shown, option)

    def test_exit_codes(self):
        for file, text in HELPS.items():
            with self.subTest(file):
                shown = {term for term, _ in PAGES[file].definitions("EXIT STATUS")}
                self.assertLessEqual(codes_of(text) | {"64", "78", "125"}, shown)
                self.assertLessEqual(shown, codes_of(text) | codes_of(HELP))

    def test_findings_and_causes(self):
        """The names of the findings of check, and the causes of run, are on their pages."""
        rules = "".join((ROOT / "src/admin" / file).read_text()
                        for file in ("health_rules.c", "member_rules.c"))
        names = re.findall(r'^    {"(\w+)", REDLOCK_', rules, re.MULTILINE)
        causes = HELPS["redlock-run.1"].partition("exit code: ")[2].partition(".")[0]
        self.assertGreater(min(len(names), causes.count(",")), 5)
        for file, section, words in (("redlock-check.1", "FINDINGS", names),
                                     ("redlock-run.1", "OUTPUT", causes.split(","))):
            shown = [word for term, _ in PAGES[file].definitions(section)
                     for word in term.split(", ")]
            for word in words:
                with self.subTest(word):
                    self.assertIn(word.strip(), shown)
        findings = [word for term, _ in PAGES["redlock-check.1"].definitions("FINDINGS")
                    for word in term.split(", ")]
        self.assertEqual(sorted(findings), sorted(set(names)))

    def test_configuration(self):
        rows = re.findall(r'^ +(?:\[\w+\] = )?{(NULL|"[\w-]+"),\s+(NULL|"\w+"),\s+[A-Z]+,\s',
                          SETTINGS, re.MULTILINE)
        keys = [key.strip('"') for key, _ in rows if key != "NULL"]
        self.assertGreater(len(keys), 5)
        page = PAGES["redlock.conf.5"]
        self.assertEqual(sorted(term for term, _ in page.definitions("KEYS")), sorted(keys))
        for key, variable in rows:
            if variable != "NULL" and key != "NULL":
                text = dict(page.definitions("KEYS"))[key.strip('"')]
                self.assertIn(f"*{variable.strip(chr(34))}*", text)

    def test_environment(self):
        code = sources()
        known = set(re.findall(r'"(REDLOCK_[A-Z_]+)', code))
        known |= set(re.findall(r'getenv\("(\w+)"\)', code)) - {"TERM"}
        self.assertGreater(len(known), 10)
        shown = {word for page in PAGES.values() if page.number == "1"
                 for term, _ in page.definitions("ENVIRONMENT") for word in term.split(", ")}
        shown |= bold(PAGES["redlock-local.1"].sections["ENVIRONMENT"])
        self.assertEqual(sorted(shown - {"redlock"}), sorted(known))


# --- all pages ---

class Form(unittest.TestCase):
    @unittest.skipUnless(shutil.which("cc"), "there is no cc")
    def test_programs_compile(self):
        programs = [(page.file, block) for page in API for block in
                    re.findall(r"^```\n(.*?)^```$", page.sections.get("EXAMPLES", ""),
                               re.MULTILINE | re.DOTALL)]
        self.assertGreater(len(programs), 1)
        for file, program in programs:
            with self.subTest(file):
                done = subprocess.run(
                    ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include",
                     "-fsyntax-only", "-x", "c", "-"], text=True, check=False,
                    input=program.replace("\\\\", "\\"), stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_references(self):
        known = {f"{name}({page.number})" for page in PAGES.values() for name in page.names}
        for page in PAGES.values():
            with self.subTest(page.file):
                named = re.findall(r"\*((?:lib)?redlock[\w.-]*)\*(\(\d\))", page.prose)
                self.assertEqual({"".join(word) for word in named} - known, set())
                called = set(re.findall(r"\*(redlock_\w+)\*\(\)", page.prose))
                self.assertEqual(called - set(FUNCTIONS), set())
                self.assertIn("SEE ALSO", page.sections)

    def test_names(self):
        names = [f"{name}.{page.number}" for page in PAGES.values() for name in page.names]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_each_term_is_one_line(self):
        for page in PAGES.values():
            wrapped = re.findall(r"^[^\s#`].*\n[^\s#`].*\n(?=\t)", page.prose, re.MULTILINE)
            self.assertEqual(wrapped, [], page.file)

    def test_lines(self):
        for page in PAGES.values():
            for number, line in enumerate(page.text.splitlines(), 1):
                self.assertLessEqual(len(line), LINE_MAX, f"{page.file}.scd:{number}")

    def test_meson_builds_each_page(self):
        built = re.findall(r"^  '([\w.-]+\.\d)',$", (ROOT / "docs/man/meson.build").read_text(),
                           re.MULTILINE)
        self.assertEqual(sorted(built), sorted(PAGES))


if __name__ == "__main__":
    unittest.main()

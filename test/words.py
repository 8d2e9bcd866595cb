#!/usr/bin/env python3
"""docs/words.txt lists every public word: what release 1.0 promises to keep.

usage: words.py            fails if the page differs from the sources
       words.py --update   writes it

Other tests compare the manual, telemetry.md and protocol.md with the code, so that words are
read where they are easy to find.
"""
import ast
import difflib
import json
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
arguments, sys.argv = sys.argv[1:], sys.argv[:1]  # manual.py reads sys.argv, too
import manual  # noqa: E402
import protocol  # noqa: E402
import telemetry  # noqa: E402

PAGE = ROOT / "docs/words.txt"
HEAD = """\
Every public word of libredlock: later releases of version 1 add words, and change or remove
none. A word's meaning is in the manual, docs/telemetry.md or docs/protocol.md.
Made by ./dev check words --update.
"""
WIDTH = 95


def read(path):
    return (ROOT / path).read_text()


def row(name, words):
    """A name, and the words that it has."""
    return textwrap.fill(f"{name}: {', '.join(words)}" if words else name, WIDTH,
                         subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)


def rows(table):
    return [row(name, words) for name, words in table]


# --- C and C++ ---

def constants():
    in_enums = {constant: name for name, listed in manual.ENUMS.items() for constant in listed}
    enums = [(name, listed) for name, listed in sorted(manual.ENUMS.items())]
    return rows([*enums, *((name, ()) for name in sorted(manual.CONSTANTS - set(in_enums)))])


def code_names():
    """What redlock_verdict_name() and its like return, where it is no row's own name."""
    found = []
    for macro, body in re.findall(r"^#define REDLOCK_(\w+)\(X\)(.*)$", manual.ALL_CODE, re.MULTILINE):
        names = re.findall(r'\bX\(\w+, +"([\w-]+)" *[,)]', body)
        if names and macro != "FAULTS":  # there it is how an error reply begins
            found.append((macro.lower(), names))
    return rows(found)


def statements(body):
    """The declarations of a C++ class, without what is in braces, or in parentheses."""
    depth, text = 0, ""
    for char in body:
        depth -= char in "})"
        text += "" if depth else ";" if char == "}" else char.replace("{", "")
        depth += char in "{("
    return [statement.strip() for statement in re.split(r";|(?<=public:)|(?<=private:)", text)]


def members(kind, body):
    """The public functions and members of a C++ class."""
    public = kind == "struct"
    for statement in statements(body):
        if statement in ("public:", "private:"):
            public = statement == "public:"
        elif public and statement and not re.search(r"= delete$|^(using|friend) |~", statement):
            called = re.search(r"(operator\W*?\w*|\b\w+)\(", statement)
            yield called[1] if called else re.findall(r"\w+", statement.partition("=")[0])[-1]


def cpp():
    text = re.sub(r"//[^\n]*|/\*.*?\*/|^#.*?(?<!\\)$", "", read("include/redlock/redlock.hpp"),
                  flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^namespace detail.*?^}(?!;)", "", text, flags=re.DOTALL | re.MULTILINE)
    classes = re.findall(r"^(class|struct) (\w+)[^;{]*{(.*?)^};", text, re.DOTALL | re.MULTILINE)
    functions = re.findall(r"^(?:static )?inline [^;{(]*?\b(\w+)\(", text, re.MULTILINE)
    return rows([*((f"redlock::{name}", sorted(set(members(kind, body))))
                   for kind, name, body in classes),
                 *((f"redlock::{name}", ()) for name in functions)])


# --- the command ---

def command_pages():
    return sorted((file.removesuffix(".1").replace("-", " "), page)
                  for file, page in manual.PAGES.items() if page.number == "1")


def terms(section):
    for name, page in command_pages():
        found = [term for term, _ in page.definitions(section)]
        if found:
            yield name, found


def options():
    return rows((name, [" ".join(word.split()[0] for word in option.split(", "))
                        for option in found]) for name, found in terms("OPTIONS"))


def exit_codes():
    return rows(terms("EXIT STATUS"))


def variables():
    return rows(terms("ENVIRONMENT"))


def keys():
    return [term for term, _ in manual.PAGES["redlock.conf.5"].definitions("KEYS")]


# --- JSON ---

SCHEMA = json.loads(read("docs/schema/redlock.schema.json"))["$defs"]


def parts(name, part):
    """Each schema in it, with its name: run.once for a member of a member."""
    yield name, part
    for member, each in part.get("properties", {}).items():
        yield from parts(f"{name}.{member}", each)
    for each in part.get("oneOf", []) + [part[word] for word in ("items",) if word in part]:
        yield from parts(name, each)


def json_words(keyword):
    """The members of each object, or the values of each member that has few."""
    found = {}
    for definition, whole in SCHEMA.items():
        for name, part in parts(definition, whole):
            for word in part.get(keyword, ()):
                found.setdefault(name, {})[word] = None
    return rows((name, [word for word in words if word not in (None, "schema")]) for name, words in sorted(found.items()))


# --- nodes ---

def wire():
    kinds = read("src/core/kind.c")
    marker = read("src/core/marker.h")
    return rows([
        ("keys", re.findall(r"^\| `(\w*!\w+)` \|", protocol.PAGE, re.MULTILINE)),
        ("reserved ends of keys", ["!LETTERS"]),
        ("channels", ["!wake:k"]),
        ("tokens begin with", sorted(set(re.findall(r'\.mark = "(.*?)"', kinds)))),
        ("kinds in tokens", sorted(set(re.findall(r'\.word = "(.*?)"', kinds)))),
        ("states of a marker", re.findall(r"`(sound|barred)`", protocol.PAGE)[:2]),
        ("promises of a marker", [*re.findall(r"RL_PROMISE\('(\w)'\)", marker), "R"]),
        ("errors of scripts", sorted({error for script in protocol.SCRIPTS.values() for error in
                                      re.findall(r"error_reply\('(\w+)", script)})),
    ])


# --- telemetry ---

def metrics():
    return rows((name, labels) for name, (_, _, labels) in sorted(telemetry.ALL.items()))


# --- Python ---

MODULES = {path.name: ast.parse(path.read_text())
           for path in sorted((ROOT / "python/redlock_quorum").glob("*.py"))}
CLASSES = {node.name: node for tree in MODULES.values() for node in tree.body
           if isinstance(node, ast.ClassDef)}


# The other objects come from these, with arguments of their own.
MADE_BY_USERS = ("Client", "AsyncClient", "Collector")


def exported(tree):
    return next((ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)
                 and getattr(node.targets[0], "id", "") == "__all__"), [])


def is_public(name):
    return not name.startswith("_")


def arguments_of(function):
    given = function.args
    listed = given.posonlyargs + given.args + [given.vararg] * bool(given.vararg) + given.kwonlyargs
    names = [one.arg for one in listed]
    return ", ".join(name for name in names if name not in ("self", "cls") and is_public(name))


def attributes(node):
    """Of a class and those that it is made of: methods with their arguments, and members."""
    found = {}
    for base in node.bases:
        name = getattr(getattr(base, "value", base), "id", "")
        found.update(attributes(CLASSES[name]) if name in CLASSES else {})
    for one in node.body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_member = any(getattr(each, "id", "") == "property" for each in one.decorator_list)
            if is_public(one.name) or one.name == "__init__":
                found[one.name] = "" if is_member else f"({arguments_of(one)})"
            found.update({each.attr: "" for each in ast.walk(one) if isinstance(each, ast.Attribute)
                          and isinstance(each.ctx, ast.Store) and is_public(each.attr)
                          and getattr(each.value, "id", "") == "self"})
        elif isinstance(one, ast.AnnAssign) and is_public(one.target.id):
            found[one.target.id] = ""
    return found


def python():
    found = []
    for file, package in (("__init__.py", "redlock_quorum"), ("prometheus.py", "redlock_quorum.prometheus")):
        for name in exported(MODULES[file]):
            shown = attributes(CLASSES[name]) if name in CLASSES else {}
            begin = shown.pop("__init__", "")
            begin = begin if name in MADE_BY_USERS else ""
            found.append((f"{package}.{name}{begin}",
                          [word + given for word, given in sorted(shown.items())]))
    return rows(found)


# --- the page ---

SECTIONS = {
    "C: functions": lambda: sorted(manual.FUNCTIONS),
    "C: callbacks": lambda: sorted(manual.CALLBACKS),
    "C: structs and their members": lambda: rows(
        (name, sorted(listed)) for name, listed in sorted(manual.STRUCTS.items())),
    "C: constants": constants,
    "C: names that functions return": code_names,
    "C++": cpp,
    "Python": python,
    "Command: options": options,
    "Command: exit codes": exit_codes,
    "Command: environment": variables,
    "redlock.conf: keys": keys,
    "JSON: members": lambda: json_words("properties"),
    "JSON: values": lambda: json_words("enum"),
    "Metrics and their labels": metrics,
    "Events": lambda: sorted(telemetry.EVENTS),
    "Nodes": wire,
}


def page():
    parts = [HEAD]
    for title, lines in SECTIONS.items():
        parts.append(f"\n{title}\n{'-' * len(title)}\n" + "".join(f"{line}\n" for line in lines()))
    return "".join(parts)


def main():
    text = page()
    if arguments == ["--update"]:
        PAGE.write_text(text)
        return
    differences = "".join(difflib.unified_diff(
        PAGE.read_text().splitlines(True), text.splitlines(True), "docs/words.txt", "the sources", n=0))
    if differences:
        sys.exit(f"{differences}./dev check words --update writes docs/words.txt. A word that is "
                 "removed or changed breaks the promise of version 1.")


main()

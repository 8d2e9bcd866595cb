"""The table mutations.toml: makes each row's change in the definition that the row names.

A definition is a function, a macro or a variable of src/, or a script of lua/ by its file's
name. The row does not name the file of a function, so functions may move.
"""
import collections
import functools
import pathlib
import re
import tomllib

import recipe

TABLE = pathlib.Path(__file__).with_name("mutations.toml")
ORACLE = pathlib.Path(__file__).with_name("oracle.h")
RULES = [*range(1, 9), "clock", "validity", "callbacks", "reports", "liveness", "memory", "fence",
         "promises", "marker", "turns", "sets", "terms", "redisson", "shared", "slots",
         "records"]
FIELDS = {"rule", "name", "rare", "in", "change", "breaks"}


def fail(mutation, text):
    raise SystemExit(f"{TABLE.name}: {mutation.get('name', mutation)}: {text}")


# --- the definitions ---

DEFINITION = re.compile(r"""
    ^\#define\ (?P<macro>\w+) (?:.*\\\n)* .*
  | ^\w[^;={}]*? \b(?P<function>\w+)\( [^;={}]* \)\n \{\n (?:.*\n)*? \}
  | ^\w[^;(){}]*? \b(?P<variable>\w+)(?:\[\w*\])*\ = (?:\ \{\n (?:.*\n)*? \}; | [^;]*;)
""", re.MULTILINE | re.VERBOSE)

Definition = collections.namedtuple("Definition", "source first end")  # characters of its text


@functools.cache
def definitions(root):
    """{name: those that have it}; some static functions of several files share a name."""
    found = collections.defaultdict(list)
    for source in sorted((root / "src").rglob("*.c")):
        for match in DEFINITION.finditer(source.read_text()):
            found[match[match.lastgroup]].append(Definition(source, *match.span()))
    for source in sorted((root / "lua").glob("*.lua")):
        found[source.name].append(Definition(source, 0, len(source.read_text())))
    return found


# --- changes ---

def parts_of(change):
    """[(sign, its indentation, the line without it)]: the lines of a small diff."""
    for line in change.splitlines():
        text = line[1:].lstrip()
        yield line[:1], len(line[1:]) - len(text), text


def places(lines, wanted):
    """Where the lines stand, if the indentation does not count."""
    bare = [line.lstrip() for line in lines]
    return [at for at in range(len(bare)) if bare[at:at + len(wanted)] == wanted]


def changed(lines, at, parts):
    """The lines with the change made at the line `at`: its indentation follows theirs."""
    shift = len(lines[at]) - len(lines[at].lstrip()) - next(
        indentation for sign, indentation, _ in parts if sign != "+")
    made, behind = [], at
    for sign, indentation, text in parts:
        if sign == "+":
            made.append(" " * (indentation + shift) + text)
            continue
        if sign == " ":
            made.append(lines[behind])
        behind += 1
    return [*lines[:at], *made, *lines[behind:]]


def patched(mutation, root=recipe.ROOT):
    """The source that the mutation changes, and its text with the change in it."""
    parts, where = list(parts_of(mutation["change"])), mutation["in"]
    wanted = [text for sign, _, text in parts if sign != "+"]
    if not wanted or any(sign not in ("-", "+", " ") for sign, *_ in parts):
        fail(mutation, "the lines of a change begin with -, + or a space; not all with +")
    if where not in definitions(root):
        fail(mutation, f"nothing is named {where}")
    found = []
    for source, first, end in definitions(root)[where]:
        text = source.read_text()
        lines = text[first:end].split("\n")
        found += [(source, text[:first] + "\n".join(changed(lines, at, parts)) + text[end:])
                  for at in places(lines, wanted)]
    if len(found) != 1:
        fail(mutation, f"the old lines stand in {where} {len(found)} times, not once")
    return found[0]


# --- the table ---

def invariants():
    return re.findall(r"^    X\((\w+), \"", ORACLE.read_text(), re.MULTILINE)


def read_table(text=None, root=recipe.ROOT):
    rules = tomllib.loads(text or TABLE.read_text())["rule"]
    if [rule["name"] for rule in rules] != RULES:
        raise SystemExit(f"{TABLE.name}: the rules are not those of {__file__}, in their order")
    mutations = [{"rule": rule["name"], **mutation} for rule in rules for mutation in rule["mutation"]]
    known = set(invariants())
    for mutation in mutations:
        mutation.setdefault("rare", False)
        if set(mutation) != FIELDS:
            fail(mutation, f"it has other fields than {', '.join(sorted(FIELDS))}")
        if not mutation["breaks"] or not known.issuperset(mutation["breaks"]):
            fail(mutation, f"the oracle does not know all of {mutation['breaks']}")
        mutation["source"], mutation["text"] = patched(mutation, root)
    names = [mutation["name"] for mutation in mutations]
    for name in names:
        if names.count(name) > 1:
            raise SystemExit(f"{TABLE.name}: two are named {name}")
    return mutations

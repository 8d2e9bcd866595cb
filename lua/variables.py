"""Checks the variables of a script whose parts are spliced into it.

The text of a part sees the variables of the script around it: functions, which Redis would
define at each call, make a release 12 to 16 % slower and the scripts longer. So its first line
names those that it reads and those that it sets there:

    -- part: reads now, value; sets pttl, there

check() follows the scopes of the whole script and refuses a variable that is used otherwise.
It knows as much of Lua as the scripts use.
"""
import re

import constants

GLOBALS = {"ARGV", "KEYS", "ipairs", "pcall", "redis", "string", "table", "tonumber", "type", "unpack",
           *constants.VALUES}
KEYWORDS = set("and break do else elseif end false for function if in local nil not or repeat "
               "return then true until while".split())
WITH, PART = "-- with ", "-- part:"
HEADER = re.compile(r"-- part:(?: reads (\w+(?:, \w+)*))?(?:;? sets (\w+(?:, \w+)*))?")
TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\w+|\.\.\.?|[=~<>]=|\S""")


class Mistake(Exception):
    pass


class Variable:
    def __init__(self, name, born):
        self.name, self.born = name, born
        self.is_read = self.is_of_part = False


class Part:
    """A part while its text is read; what is born before `begun` is the script's."""

    def __init__(self, path, begun, depth):
        self.name, self.begun, self.depth = path.name, begun, depth
        header = HEADER.fullmatch(path.read_text().partition("\n")[0])
        if not header:
            raise Mistake(f"{self.name}: its first line is not `{PART} reads ...; sets ...`")
        self.reads, self.sets = (set((names or "").split(", ")) - {""}
                                 for names in header.groups())
        self.was_read, self.was_set = set(), set()

    def finish(self):
        for verb, names in (("reads", self.reads - self.was_read),
                            ("sets", self.sets - self.was_set)):
            if names:
                raise Mistake(f"{self.name}: declares that it {verb} {', '.join(sorted(names))}, "
                              "and does not")


def is_name(token):
    return bool(re.match(r"[A-Za-z_]", token)) and token not in KEYWORDS


def ends_value(token):
    return bool(re.match(r"""[\w'")\]}]|\.\.\.""", token)) and (
        token not in KEYWORDS or token in ("end", "false", "nil", "true"))


class Walk:
    def __init__(self):
        self.blocks = [{}]   # {name: Variable}, the innermost last
        self.open = []       # brackets and blocks
        self.parts = []
        self.where = ""
        self.born = 0
        self.pending = []    # `local` names, visible after their values: [names, height, commas]
        self.last = ""       # the token before

    def fail(self, text):
        raise Mistake(f"{self.where}: {text}")

    # --- variables ---

    def find(self, name):
        return next((block[name] for block in reversed(self.blocks) if name in block), None)

    def read(self, name):
        variable = self.find(name)
        if not variable:
            if name not in GLOBALS:
                self.fail(f"reads {name}, which is not set before")
            return
        variable.is_read = True
        for part in self.parts:
            if variable.born < part.begun:
                if name not in part.reads:
                    self.fail(f"reads {name}, which {part.name} does not declare")
                part.was_read.add(name)

    def assign(self, name):
        variable = self.find(name)
        if not variable:
            self.fail(f"sets {name}, which no `local` declares")
        self.note_set(name, [part for part in self.parts if variable.born < part.begun])

    def declare(self, name):
        if name in self.blocks[-1]:
            self.fail(f"declares {name}, which is declared already")
        variable = self.blocks[-1][name] = Variable(name, self.born)
        self.born += 1
        parts = [part for part in self.parts if part.depth == len(self.blocks)]
        variable.is_of_part = bool(parts)
        self.note_set(name, parts)

    def note_set(self, name, parts):
        for part in parts:
            if name not in part.sets:
                self.fail(f"sets {name}, which {part.name} does not declare")
            part.was_set.add(name)

    # --- blocks ---

    def begin(self, what):
        self.open.append(what)
        self.blocks.append({})

    def finish(self):
        for variable in self.blocks.pop().values():
            if not (variable.is_read or variable.is_of_part or variable.name == "_"):
                self.fail(f"declares {variable.name}, and does not read it")
        if self.open:
            self.open.pop()

    def flush(self):
        """The end of a `local` statement: its names become visible."""
        names, _, commas = self.pending.pop()
        if commas + 1 < len(names) and self.last not in (")", "..."):
            self.fail(f"declares {', '.join(names[commas + 1:])}, and does not set it")
        for name in names:
            self.declare(name)

    # --- statements ---

    def names_at(self, tokens, i):
        """`a, b, c` at i, and where they end."""
        names = []
        while i < len(tokens) and is_name(tokens[i]):
            names.append(tokens[i])
            i += 1
            if i == len(tokens) or tokens[i] != ",":
                break
            i += 1
        return names, i

    def local(self, tokens, i):
        if tokens[i:i + 1] == ["function"]:
            self.declare(tokens[i + 1])
            return i
        names, i = self.names_at(tokens, i)
        if tokens[i:i + 1] != ["="]:
            self.fail(f"declares {', '.join(names)}, and does not set it")
        self.pending.append([names, len(self.open), 0])
        return i + 1

    def function(self, tokens, i):
        i = tokens.index("(", i) + 1
        names, i = self.names_at(tokens, i)
        self.begin("function")
        for name in names:
            self.declare(name)
        return tokens.index(")", i) + 1

    def keyword(self, token, tokens, i):
        """Returns where to go on."""
        if token == "local":
            return self.local(tokens, i)
        if token == "function":
            return self.function(tokens, i)
        if token == "for":
            self.begin("for")
            names, i = self.names_at(tokens, i)
            for name in names:
                self.declare(name)
        elif token in ("elseif", "else", "end"):
            self.finish()
        elif token in ("repeat", "until"):
            self.fail(f"has `{token}`, of which this check knows nothing")
        if token in ("then", "else") or (token == "do" and self.open[-1:] != ["for"]):
            self.begin(token)
        elif token == "do":
            self.open[-1] = "do"
        return i

    def name(self, token, tokens, i):
        is_key = self.open[-1:] == ["{"] and tokens[i:i + 1] == ["="]
        if self.last in (".", ":") or is_key:
            return i
        names, after = self.names_at(tokens, i - 1)
        begins = not self.last or ends_value(self.last) or self.last in KEYWORDS
        if begins and tokens[after:after + 1] == ["="]:
            for one in names:
                self.assign(one)
            return after
        self.read(token)
        return i

    def statements(self, lines):
        tokens = [token for line in lines for token in TOKEN.findall(line)]
        i = 0
        while i < len(tokens):
            token = tokens[i]
            is_word = is_name(token) or (token in KEYWORDS and token not in ("and", "or"))
            if self.pending and len(self.open) == self.pending[-1][1]:
                if is_word and ends_value(self.last):
                    self.flush()
                elif token == ",":
                    self.pending[-1][2] += 1
            i += 1
            if token in ("(", "[", "{"):
                self.open.append(token)
            elif token in (")", "]", "}"):
                self.open.pop()
            elif token in KEYWORDS:
                i = self.keyword(token, tokens, i)
            elif is_name(token):
                i = self.name(token, tokens, i)
            self.last = tokens[i - 1]
        if self.pending:
            self.flush()

    def file(self, path):
        lines = []
        around = self.where
        for line in [*map(str.strip, path.read_text().splitlines()), WITH]:
            if not line.startswith(WITH):
                lines += [line] if not line.startswith("--") else []
                continue
            self.where = path.name + (f" in {around}" if around else "")
            self.statements(lines)
            lines = []
            if line != WITH:
                self.part(path.parent / line.removeprefix(WITH))
        self.where = around

    def part(self, path):
        self.parts.append(Part(path, self.born, len(self.blocks)))
        self.last = ""
        self.file(path)
        self.last = ""
        self.parts.pop().finish()


def is_part(path):
    return path.read_text().startswith(PART)


def check(script):
    """Raises Mistake if a variable of this script or of its parts is used as none declares."""
    walk = Walk()
    if is_part(script):
        raise Mistake(f"{script.name}: a part is no script")
    walk.file(script)
    walk.where = script.name
    walk.finish()

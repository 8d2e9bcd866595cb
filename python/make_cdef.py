#!/usr/bin/env python3
"""Writes redlock_quorum/_cdef.py from the public headers: make_cdef.py [--check]

cffi reads C declarations without directives, attributes and inline functions. So the headers
go through the preprocessor, and what it cannot remove is removed here. With --check nothing
is written; the exit code is 1 if the file differs.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent / "include"
OUTPUT = HERE / "redlock_quorum" / "_cdef.py"
HEADERS = ("redlock.h", "sync.h", "admin.h", "stats.h", "settings.h")

# Of libevent, whose functions are found through libredlock, which is linked to it.
LIBEVENT = """\
struct event_base *event_base_new(void);
void event_base_free(struct event_base *);
int event_base_loop(struct event_base *, int);
int event_base_loopbreak(struct event_base *);
struct event *event_new(struct event_base *, int, short, void (*)(int, short, void *), void *);
int event_add(struct event *, void *);
void event_free(struct event *);
#define EVENT_READ 2
#define EVENT_PERSIST 16
#define EVENT_NO_EXIT_ON_EMPTY 4
"""


def preprocessed():
    """The lines of our headers only, without those of the system's."""
    text = "".join(f"#include <redlock/{name}>\n" for name in HEADERS)
    compiler = os.environ.get("CC", "cc").split()
    done = subprocess.run([*compiler, "-E", "-x", "c", "-std=c11", f"-I{INCLUDE}", "-"],
                          input=text, text=True, stdout=subprocess.PIPE, check=True)
    ours, lines = False, []
    for line in done.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = marker[1].startswith(str(INCLUDE))
        elif ours and not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def without_inline_functions(text):
    return re.sub(r"static inline [^{;]*\{[^}]*\}", "", text)


def constants():
    """The limits and defaults that are plain numbers."""
    found = []
    for name in HEADERS:
        source = (INCLUDE / "redlock" / name).read_text(encoding="utf-8")
        for word, number in re.findall(
                r"^#define (REDLOCK_\w+) +(?:INT64_C\()?(\d+)u?\)?\s*(?:/\*.*)?$", source, re.M):
            found.append(f"#define {word} {number}")
    return found


def tidy(text):
    """One declaration, member or enumerator a line, as a diff shows it best."""
    text = re.sub(r"__attribute__\(\(visibility\(\"default\"\)\)\)", "", text)
    text = re.sub(r"\s+", " ", without_inline_functions(text))
    text = re.sub(r"([{;,]) (?![^(]*\))", r"\1\n", text)
    lines = []
    for line in text.splitlines():
        line = line.strip()
        depth = sum(done.count("{") - done.count("}") for done in lines)
        lines.append("    " * (depth - line.startswith("}")) + line if line else "")
    return "\n".join(line for line in lines if line.strip() not in ("", ";"))


def generate():
    body = "\n".join([tidy(preprocessed()), *constants(), LIBEVENT])
    return ('"""Made by make_cdef.py from the headers of libredlock: do not edit."""\n\n'
            f'CDEF = r"""\n{body}"""\n')


def main():
    text = generate()
    if "--check" in sys.argv[1:]:
        if OUTPUT.read_text(encoding="utf-8") != text:
            sys.exit(f"{OUTPUT.name} is not what the headers say: run python/make_cdef.py")
        return
    OUTPUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

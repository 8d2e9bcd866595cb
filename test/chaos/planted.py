#!/usr/bin/env python3
"""Small histories of which it is known what is wrong: both checkers must say so.

planted.py [PORCUPINE]: without the program only judge.py.
"""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cli")]
import history  # noqa: E402
import report  # noqa: E402

# What it is, which promise is broken (None: none) and at which key, and the lines without token.
KNOWN = (
    ("one after the other", None, """
        acquire a:1 1 2 OK exclusive 0 90 p:1
        release a:1 5 6 OK exclusive 0 0 p:1
        acquire b:1 3 6 OK exclusive 0 90 p:1"""),
    ("one after the deadline of another", None, """
        acquire a:1 1 2 OK exclusive 0 10 p:1
        acquire b:1 3 11 OK exclusive 0 90 p:1
        release a:1 50 51 OK exclusive 0 0 p:1"""),
    ("two at once", ("exclusion", "p:1"), """
        acquire a:1 1 2 OK exclusive 0 90 p:1
        acquire b:1 3 4 OK exclusive 0 90 p:1
        release a:1 5 6 OK exclusive 0 0 p:1"""),
    ("the second one was killed", ("exclusion", "p:1"), """
        acquire a:1 1 9 OK redisson 0 90 p:1
        acquire b:1 3 4 OK exclusive 0 20 p:1"""),
    ("an extension in time", ("exclusion", "p:1"), """
        acquire a:1 1 2 OK exclusive 0 10 p:1
        extend a:1 8 9 OK exclusive 0 50 p:1
        acquire b:1 3 20 OK exclusive 0 90 p:1"""),
    ("an extension that failed", None, """
        acquire a:1 1 2 OK exclusive 0 10 p:1
        extend a:1 8 9 NO_QUORUM exclusive 0 0 p:1
        acquire b:1 3 20 OK exclusive 0 90 p:1"""),
    ("an extension after the deadline", ("exclusion", "p:1"), """
        acquire a:1 1 2 OK exclusive 0 10 p:1
        extend a:1 11 12 OK exclusive 0 50 p:1"""),
    ("a loss ends it", None, """
        acquire a:1 1 2 OK exclusive 0 90 p:1
        loss a:1 5 5 GONE exclusive 0 0 p:1
        acquire b:1 3 6 OK exclusive 0 90 p:1"""),
    ("readers", None, """
        acquire a:1 1 2 OK fenced-shared 8 90 f:1
        acquire b:1 1 2 OK fenced-shared 8 90 f:1"""),
    ("a writer beside a reader", ("exclusion", "f:1"), """
        acquire a:1 1 2 OK fenced-shared 8 90 f:1
        acquire b:1 3 4 OK fenced-exclusive 9 90 f:1"""),
    ("a writer that became a reader", None, """
        acquire a:1 1 2 OK exclusive 0 90 p:1
        downgrade a:1 5 6 OK shared 0 99 p:1
        acquire b:1 5 7 OK shared 0 90 p:1"""),
    ("a reader beside a writer that became one later", ("exclusion", "p:1"), """
        acquire a:1 1 2 OK exclusive 0 90 p:1
        acquire b:1 1 4 OK shared 0 90 p:1
        downgrade a:1 5 6 OK shared 0 99 p:1"""),
    ("as many as there are slots", None, """
        acquire a:1 1 2 OK slots=2:1 0 90 ps:1
        acquire b:1 1 3 OK slots=2:2 0 90 ps:1"""),
    ("one more than there are slots", ("exclusion", "ps:1"), """
        acquire a:1 1 2 OK slots=2:1 0 90 ps:1
        acquire b:1 1 3 OK slots=2:2 0 90 ps:1
        acquire c:1 1 4 OK slots=2:3 0 90 ps:1"""),
    ("two in one slot", ("exclusion", "ps:1!2"), """
        acquire a:1 1 2 OK slots=3:2 0 90 ps:1
        acquire b:1 1 3 OK slots=3:2 0 90 ps:1"""),
    ("sets that share no key", None, """
        acquire a:1 1 2 OK set 0 90 p:1 p:2
        acquire b:1 3 4 OK set 0 90 p:3 p:4"""),
    ("sets that share a key", ("exclusion", "p:2"), """
        acquire a:1 1 2 OK set 0 90 p:1 p:2
        acquire b:1 3 4 OK set 0 90 p:2 p:3"""),
    ("terms that rise", None, """
        acquire a:1 1 2 OK fenced-election 8 3 e:1
        acquire b:1 2 5 OK fenced-election 9 90 e:1"""),
    ("a term that comes again", ("order", "e:1"), """
        acquire a:1 1 2 OK fenced-election 8 3 e:1
        acquire b:1 3 5 OK fenced-election 8 90 e:1"""),
    ("a token that falls", ("order", "f:1"), """
        acquire a:1 1 2 OK fenced-exclusive 8 3 f:1
        acquire b:1 3 5 OK fenced-set 7 90 f:1 f:2"""),
    ("tokens of calls that overlap", None, """
        acquire a:1 1 4 OK fenced-shared 8 9 f:1
        acquire b:1 3 5 OK fenced-exclusive 7 5 f:1"""),
    ("a reader's token below that of another", None, """
        acquire a:1 1 2 OK fenced-shared 8 9 f:1
        acquire b:1 3 5 OK fenced-shared 7 9 f:1"""),
    ("a writer's token below that of a reader", ("order", "f:1"), """
        acquire a:1 1 2 OK fenced-shared 8 3 f:1
        acquire b:1 3 5 OK fenced-exclusive 7 9 f:1"""),
    ("tokens of different slots", None, """
        acquire a:1 1 2 OK fenced-slots=3:1 8 9 fs:1
        acquire b:1 3 5 OK fenced-slots=3:2 7 9 fs:1"""),
    ("a holder that was refused", ("order", "f:1"), """
        acquire a:1 1 2 OK fenced-exclusive 8 90 f:1
        write a:1 5 6 refused fenced-exclusive 8 90 f:1"""),
    ("a holder of a slot that was refused", ("order", "fs:1!1"), """
        acquire a:1 1 2 OK fenced-slots=3:1 8 90 fs:1
        write a:1 5 6 refused fenced-slots=3:1 8 90 fs:1"""),
    ("a late holder that was refused", None, """
        acquire a:1 1 2 OK fenced-exclusive 8 5 f:1
        write a:1 7 8 refused fenced-exclusive 8 0 f:1"""),
    ("a stale write that was accepted", ("resource", "f:1"), """
        write b:1 3 4 accepted fenced-exclusive 9 90 f:1
        write b:1 5 6 accepted fenced-exclusive 9 90 f:1
        write a:1 7 8 accepted fenced-exclusive 8 0 f:1"""),
    ("a stale read that was accepted", ("resource", "f:1"), """
        write b:1 3 4 accepted fenced-exclusive 9 90 f:1
        read a:1 7 8 accepted fenced-shared 8 0 f:1"""),
    ("writes at once", None, """
        write b:1 3 4 accepted fenced-exclusive 9 90 f:1
        write a:1 4 8 accepted fenced-exclusive 8 0 f:1"""),
)


def lines_of(text):
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        yield " ".join([*words[:5], "-", *words[5:]])


def refused(folder, program):
    if program:
        return report.porcupine(program, folder)["refused"]
    return report.by_us(history.Found(history.read(folder)).wrong)


def main(programs):
    wrong = 0
    for name, broken, text in KNOWN:
        expected = {"exclusion": [], "order": [], "resource": []}
        if broken:
            expected[broken[0]] = [broken[1]]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "all.history")
            path.write_text("\n".join(lines_of(text)) + "\n")
            for program in programs:
                found = refused(path.parent, program)
                if found != expected:
                    wrong += 1
                    print(f"{name}: {program or 'judge.py'} refuses {found}, not {expected}")
    print(f"{len(KNOWN)} histories, {len(programs)} checkers, {wrong} mistakes")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main([None, *sys.argv[1:]]))

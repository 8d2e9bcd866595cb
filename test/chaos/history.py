"""What the clients wrote down, for judge.py and for Porcupine.

A line for each event; all times are us of CLOCK_MONOTONIC:

    WHAT HOLDER BEGIN END RESULT TOKEN KIND FENCE UNTIL KEY...

HOLDER is one acquisition: the process, ":", and a number. WHAT was called at BEGIN and had
returned at END; UNTIL is the deadline, or 0. A hold lasts from the END of its "acquire" to its
deadline, or to the BEGIN of "release" or "loss".

    acquire, probe   RESULT is OK, or the code of the failure
    extend           by the holder; RESULT OK: until UNTIL
    renew            the watchdog has extended it, maybe earlier
    downgrade        a writer becomes a reader at BEGIN
    release, loss    RESULT is the code
    write, read      the resource "accepted" or "refused" it; UNTIL is as of END
    idle             the process has nothing to do, and RESULT nodes have greeted it

KIND: exclusive, set, redisson, shared, election, or slots=K:I, the slot I of K; with "fenced-"
before it.
"""
import collections
import time

import judge

Line = collections.namedtuple("Line", "what holder begin end result token kind fence until keys")


def parse(text):
    what, holder, begin, end, result, token, kind, fence, until, *keys = text.split()
    return Line(what, holder, int(begin), int(end), result, token, kind, int(fence), int(until),
                keys)


def last_events(path):
    """The first words of the last lines."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode().splitlines()
    except FileNotFoundError:
        return []
    return [line.partition(" ")[0] for line in lines]


def note_losses(path, begin):
    """Adds that all that its process held has ended, because it was killed."""
    with open(path, "a+", encoding="ascii") as file:
        file.seek(0)
        held = {}
        for line in file:
            what, holder, _, _, result, *rest = line.split()
            if what in ("acquire", "probe") and result == "OK":
                held[holder] = rest
            elif what in ("release", "loss"):
                held.pop(holder, None)
        end = time.monotonic_ns() // 1000
        for holder, (token, kind, fence, _, *keys) in held.items():
            print("loss", holder, begin, end, "KILLED", token, kind, fence, 0, *keys, file=file)


def read(folder):
    """All lines, in the order of their ends."""
    lines = []
    for path in folder.glob("*.history"):
        with open(path, encoding="ascii") as file:
            lines += map(parse, file)
    return sorted(lines, key=lambda line: line.end)


def mode(kind):
    """As judge.py names it."""
    kind = kind.removeprefix("fenced-")
    if kind.startswith("slots="):
        return kind.partition(":")[0]
    return "shared" if kind == "shared" else "exclusive"


def is_fenced(line):
    return line.kind.startswith("fenced-")


def keys_of(line):
    """A slot is an exclusive lock of a key of its own."""
    slot = line.kind.partition(":")[2]
    return [f"{key}!{slot}" for key in line.keys] if slot else line.keys


class Found:
    """What judge.py finds wrong, by the promise that is broken."""

    def __init__(self, lines):
        self.holds, self.now, self.late = {}, {}, []
        for line in lines:
            self.add(line)
        self.wrong = {
            "exclusion": [*judge.overlaps(self.holds), *self.late],
            "order": [*judge.falls(self.given(lines), False), *self.refused(lines)],
            "resource": list(judge.falls(self.accepted(lines), True)),
        }

    def add(self, line):
        if line.what in ("acquire", "probe") and line.result == "OK":
            self.begin(line, line.holder, line.end, line.until)
            return
        ours = self.now.get(line.holder, [])
        for hold in ours:
            self.change(line, hold)
        if line.what == "downgrade" and ours:
            self.begin(line, f"{line.holder}/reader", line.begin, max(line.until, ours[0].until))
            ours[0].until = min(ours[0].until, line.begin)

    def begin(self, line, name, since, until):
        of_slot = {f"{name}/slot": judge.Hold(since, "exclusive", until, *keys_of(line))}
        added = {name: judge.Hold(since, mode(line.kind), until, *line.keys),
                 **(of_slot if ":" in line.kind else {})}
        self.holds |= added
        self.now[line.holder] = list(added.values())

    def change(self, line, hold):
        if line.what in ("extend", "renew") and line.until:
            if line.what == "extend" and line.begin > hold.until:
                self.late.append(judge.Wrong(
                    line.keys[0], line.holder, hold.since, line.end, f"{line.keys[0]}: "
                    f"{line.holder} was extended at {line.begin}, after {hold.until}"))
            hold.until = max(hold.until, line.until)
        elif line.what in ("release", "loss"):
            hold.until = min(hold.until, line.begin)

    @staticmethod
    def tokens(lines):
        return [judge.Token(line.holder, key, line.begin, line.end, line.fence,
                            mode(line.kind) == "shared")
                for line in lines for key in keys_of(line)]

    @classmethod
    def given(cls, lines):
        return cls.tokens([line for line in lines if line.what in ("acquire", "probe") and
                           line.result == "OK" and is_fenced(line)])

    @classmethod
    def accepted(cls, lines):
        return cls.tokens([line for line in lines if line.what in ("write", "read") and
                           line.result == "accepted"])

    @staticmethod
    def refused(lines):
        """Of holders that held the lock all the time."""
        return [judge.Wrong(key, line.holder, line.begin, line.end, f"{key}: the resource refused "
                            f"{line.holder} with {line.fence}, which held the lock")
                for line in lines if line.what in ("write", "read") and
                line.result == "refused" and line.until >= line.end for key in keys_of(line)]

#!/usr/bin/env python3
"""Any two held what only one may hold, by the logs of those who held.

A line per event; all times are us of one clock:
  TIME acquired HOLDER exclusive|shared|slots=K UNTIL KEY...
  TIME extended HOLDER UNTIL
  TIME released HOLDER
HOLDER is a word that no other acquisition has, for example its token. TIME of "acquired" is when
the call had returned, of "released" when the call was made. UNTIL is the deadline. A hold ends
with its release or its deadline, whichever comes first: so nobody is accused wrongly. Empty lines
and those that begin with # are skipped. As a program, judge.py judges logs of which it knows
what is wrong with them.

Besides, for histories that have them (test/chaos): the fencing tokens of a key rise, and a
resource accepts no write that is older than one that it has accepted.
"""
import collections
import sys
import tempfile

Verdict = collections.namedtuple("Verdict", "acquisitions violations text")

# What is wrong with a key: a holder at a time, by what others did since then.
Wrong = collections.namedtuple("Wrong", "key holder since at text")

# A token that was given, or that a resource accepted, between `begin` and `end`.
Token = collections.namedtuple("Token", "holder key begin end fence reads")


class Hold:
    """One acquisition."""

    def __init__(self, since, mode, until, *keys):
        self.since, self.until, self.keys = since, int(until), keys
        self.shared = mode == "shared"
        self.slots = int(mode[6:]) if mode.startswith("slots=") else 0
        if not keys or not (self.shared or self.slots or mode == "exclusive"):
            raise ValueError(mode)


def read(path, holds):
    """Adds to {holder: hold}; returns how many extensions came after the deadline."""
    late = 0
    with open(path) as log:
        for words in map(str.split, log):
            if not words or words[0].startswith("#"):
                continue
            time, event, holder, *rest = words
            time, is_new = int(time), holder not in holds
            if is_new != (event == "acquired"):
                raise ValueError(f"{path}: {words}")
            if is_new:
                holds[holder] = Hold(time, *rest)
            elif event == "extended":
                late += time > holds[holder].until
                holds[holder].until = int(*rest)
            elif event == "released":
                holds[holder].until = min(time, holds[holder].until)
            else:
                raise ValueError(f"{path}: {words}")
    return late


def has_conflict(hold, others):
    """It may not hold beside these, who hold at the same time."""
    rivals = [other for other in others if not (hold.shared and other.shared)]
    if not all(hold.slots and other.slots for other in rivals):
        return True
    return bool(rivals) and len(rivals) >= max(one.slots for one in (hold, *rivals))


def overlaps(holds):
    """Each of {holder: hold} that held beside one that it must not."""
    by_key = collections.defaultdict(list)
    for holder, hold in sorted(holds.items(), key=lambda item: item[1].since):
        for key in hold.keys if hold.until > hold.since else ():
            others = [one for one in by_key[key] if one[1].until > hold.since]
            if has_conflict(hold, [other for _, other in others]):
                yield Wrong(key, holder, min(other.since for _, other in others), hold.since,
                            f"{key}: {holder} held it from {hold.since} on beside "
                            f"{', '.join(name for name, _ in others)}")
            by_key[key] = [*others, (holder, hold)]


def falls(tokens, may_repeat):
    """Each token below one that ended before it began.

    Readers have them in any order among themselves.
    """
    by_key = collections.defaultdict(list)
    for token in tokens:
        by_key[token.key].append(token)
    for key, all_of_key in by_key.items():
        ended = sorted(all_of_key, key=lambda token: token.end)
        at = most = most_of_writers = 0
        for token in sorted(all_of_key, key=lambda token: token.begin):
            while ended[at].end < token.begin:
                most = max(most, ended[at].fence)
                most_of_writers = max(most_of_writers, 0 if ended[at].reads else ended[at].fence)
                at += 1
            if token.fence + may_repeat <= (most_of_writers if token.reads else most):
                yield Wrong(key, token.holder, ended[0].begin, token.end,
                            f"{key}: {token.holder} has {token.fence} after a larger token")


def judge(paths):
    holds = {}
    late = sum(read(path, holds) for path in paths)
    text = [f"{late} extensions came after the deadline"] if late else []
    text += [wrong.text for wrong in overlaps(holds)]
    return Verdict(len(holds), len(text) - bool(late) + late, "\n".join(text))


KNOWN = (  # how many violations, and the log
    (0, "10 acquired a exclusive 90 k; 20 released a; 20 acquired b exclusive 40 k; "
        "40 acquired c exclusive 90 k; 95 acquired d exclusive 99 k"),
    (1, "10 acquired a exclusive 90 k; 30 acquired b exclusive 80 k; 40 released a"),
    (1, "30 acquired b exclusive 80 k; 10 acquired a exclusive 90 k"),
    (1, "10 acquired a exclusive 30 k; 20 extended a 50; 30 acquired b exclusive 80 k"),
    (1, "10 acquired a exclusive 30 k; 31 extended a 90"),
    (1, "10 acquired a exclusive 90 k l; 20 acquired b exclusive 90 l m"),
    (0, "10 acquired a exclusive 90 k l; 20 acquired b exclusive 90 m"),
    (0, "10 acquired a shared 90 k; 20 acquired b shared 90 k"),
    (1, "10 acquired a shared 90 k; 20 acquired b exclusive 90 k"),
    (0, "10 acquired a slots=2 90 k; 20 acquired b slots=2 90 k"),
    (1, "10 acquired a slots=2 90 k; 20 acquired b slots=2 90 k; 30 acquired c slots=2 90 k"),
    (0, "10 acquired a slots=2 90 k; 20 acquired b slots=2 90 k; 30 acquired c slots=3 90 k"),
    (1, "10 acquired a slots=2 90 k; 20 acquired b exclusive 90 k"),
)


def main():
    wrong = 0
    for violations, lines in KNOWN:
        with tempfile.NamedTemporaryFile("w") as log:
            log.write("# a comment\n\n" + lines.replace("; ", "\n") + "\n")
            log.flush()
            found = judge([log.name])
        if found.violations != violations:
            wrong += 1
            print(f"{lines}: {found}, not {violations}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

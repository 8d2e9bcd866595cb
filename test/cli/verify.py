#!/usr/bin/env python3
"""redlock verify: who held a key at one time, by logs."""
import json

import lab
from lab import case, equal, matches, redlock


def verify(*lines, words=()):
    return redlock("verify", *words, "-", text="\n".join(lines) + "\n")


def violations(*lines):
    done = verify(*lines, words=("--json",))
    return json.loads(done.out)["violations"]


@case("holds one after the other are fine, also where one ends as the next begins")
def _(quorum):
    done = verify("# comment", "", "10 acquired a exclusive 90 k", "20 released a",
                  "20 acquired b exclusive 40 k", "40 acquired c exclusive 90 k",
                  "95 acquired d exclusive 99 k", words=("--json",)).expect(0, err="^$")
    found = json.loads(done.out)
    equal((found["acquisitions"], found["keys"], found["violations"]), (4, 1, 0), "counts")


@case("two at one time, by the release or the deadline; the lines are named")
def _(quorum):
    done = verify("10 acquired a exclusive 90 k", "30 acquired b exclusive 80 k",
                  "40 released a").expect(1, err=r"k: a \(-:1\) and b \(-:2\) held it for 10 us")
    matches(done.out, "2 acquisitions of 1 keys, 1 violations", "stdout")
    equal(violations("10 acquired a exclusive 30 k", "30 acquired b exclusive 80 k"), 0, "deadline")
    equal(violations("10 acquired a exclusive 30 k", "20 extended a 50",
                     "30 acquired b exclusive 80 k"), 1, "extended")
    equal(violations("30 acquired b exclusive 80 k", "10 acquired a exclusive 90 k"), 1, "any order")


@case("sets, readers and slots")
def _(quorum):
    equal(violations("10 acquired a exclusive 90 k l", "20 acquired b exclusive 90 l m"), 1, "a set")
    equal(violations("10 acquired a exclusive 90 k l", "20 acquired b exclusive 90 m"), 0, "no common key")
    equal(violations("10 acquired a shared 90 k", "20 acquired b shared 90 k"), 0, "readers")
    equal(violations("10 acquired a shared 90 k", "20 acquired b exclusive 90 k"), 1, "a writer")
    slots = [f"1{i} acquired s{i} slots=3 90 k" for i in range(4)]
    equal(violations(*slots[:3]), 0, "three slots")
    equal(violations(*slots), 1, "four of three")
    equal(violations(*slots, "20 acquired t slots=5 90 k"), 1, "the largest number counts")
    equal(violations(slots[0], "20 acquired t exclusive 90 k"), 1, "a slot and a lock")


@case("an extension after the deadline is a violation")
def _(quorum):
    equal(violations("10 acquired a exclusive 30 k", "31 extended a 90"), 1, "late")
    equal(violations("10 acquired a exclusive 30 k", "30 extended a 90"), 0, "in time")


@case("what cannot be read is refused with its line")
def _(quorum):
    for line, why in (("x acquired a exclusive 9 k", "microseconds"), ("1", "event is missing"),
                      ("1 taken a", "none of acquired"), ("1 acquired a both 9 k", "exclusive, shared"),
                      ("1 acquired a slots=0 9 k", "slots"), ("1 acquired a exclusive 9", "key is missing"),
                      ("1 acquired a exclusive", "deadline"), ("1 released a", "acquired nothing"),
                      ("1 extended a 9", "acquired nothing"), ("-1 acquired a exclusive 9 k", "microseconds")):
        verify("# first", line).expect(65, err=f"-:2: .*{why}")
    first = "1 acquired a exclusive 9 k"
    verify(first, first).expect(65, err="before")
    verify(first, "2 released a", "3 released a").expect(65, err="before")
    verify(first, "2 released a", "3 extended a 9").expect(65, err="has released")
    verify(first + " l k").expect(65, err="twice")
    verify(first, "2 released a more").expect(65, err="too many")
    redlock("verify").expect(64, err="LOG is missing")
    redlock("verify", "").expect(64, err="LOG is empty")
    redlock("verify", lab.temporary("none")).expect(66, err="No such file")


@case("files are read one after the other")
def _(quorum):
    one = lab.write(lab.temporary("one"), "10 acquired a exclusive 90 k\n")
    other = lab.write(lab.temporary("other"), "20 acquired b exclusive 90 k")
    redlock("verify", one, other).expect(1, err=f"{other}:1")


lab.main(servers=1)

#!/usr/bin/env python3
"""A lock of several keys by --and: all or nothing, in each command that has a token."""
import json

import lab
from lab import PATIENT, case, check, equal, on, redlock

ALL = ("--and", "apple", "--and", "fig", "pear")


def acquire(quorum, *words):
    return redlock("acquire", *PATIENT, *words, *ALL, env=on(quorum))


def stored(quorum):
    """The values of each key, on all nodes that have one."""
    return {key: sorted(set(quorum.values(key))) for key in ("pear", "apple", "fig")}


@case("run holds all keys while the command runs, and tells it the first")
def _(quorum):
    done = redlock("run", *PATIENT, "--json", *ALL, "--", "sh", "-c",
                   "echo $REDLOCK_KEY $REDLOCK_TOKEN; exec \"$0\" acquire -n fig", lab.program,
                   env=on(quorum)).expect(75, err="fig is held by")
    key, token = done.out.split()
    equal(key, "pear", "REDLOCK_KEY")
    result = json.loads([line for line in done.err.splitlines() if line.startswith("{")][-1])
    equal([result["key"], result["keys"], result["cause"]],
          ["pear", ["pear", "apple", "fig"], "child"], "JSON")
    check(token.startswith("p"), token)
    equal(quorum.keys(), 0, "keys that are left")


@case("acquire, extend and release by a bare token")
def _(quorum):
    token = acquire(quorum).expect(0, err="^$").out.strip()
    equal(stored(quorum), {"pear": [token], "apple": [token], "fig": [token]}, "values")
    redlock("extend", *PATIENT, *ALL, env=on(quorum), text=token).expect(0)
    redlock("release", *PATIENT, *ALL, env=on(quorum), text=token).expect(0)
    equal(quorum.keys(), 0, "keys that are left")
    redlock("release", *PATIENT, *ALL, env=on(quorum), text=token).expect(1)


@case("status shows each key, and whether one lock has all of them")
def _(quorum):
    def status(*words):
        found = redlock("status", "--json", *PATIENT, *words, env=on(quorum)).json()
        return found["state"], found["held"], found["one_lock"]
    equal(status(*ALL), ("free", 0, False), "free")
    token = acquire(quorum).expect(0).out.strip()
    equal(status(*ALL), ("held", 3, True), "held as one")
    equal(status("--and", "plum", "fig"), ("held", 1, False), "with another key")
    said = redlock("status", *PATIENT, *ALL, env=on(quorum)).expect(0).out
    check("fig: held by" in said and "pear, apple, fig: held as one lock" in said, said)
    redlock("break", *PATIENT, "--yes", "fig", env=on(quorum)).expect(0)
    equal(status(*ALL), ("held", 2, False), "broken")
    redlock("extend", *PATIENT, *ALL, env=on(quorum), text=token).expect(1)
    equal(quorum.keys(), 0, "keys that are left")


@case("what a silent node may decide is unknown, in any order, unless another key decides")
def _(quorum):
    for index in (0, 1, 2):
        quorum[index].call("SET", "maybe", "x", "PX", 600000)
    for index in (2, 3, 4):
        quorum[index].call("SET", "split", f"{index}", "PX", 600000)
    redlock("acquire", *PATIENT, "-n", "-t", "10m", "held", env=on(quorum)).expect(0)
    quorum.kill(0)

    def status(code, *words):
        found = redlock("status", "--json", *PATIENT, *words, env=on(quorum)).expect(code).json()
        return found["state"], found["held"], found["unknown"], found["one_lock"]
    redlock("status", *PATIENT, "maybe", env=on(quorum)).expect(69)
    redlock("status", *PATIENT, "split", env=on(quorum)).expect(2)
    for words in (("--and", "split", "maybe"), ("--and", "maybe", "split")):
        equal(status(69, *words), ("no_quorum", 0, 1, None), str(words))
    for words in (("--and", "held", "maybe"), ("--and", "maybe", "held")):
        equal(status(0, *words), ("held", 1, 1, None), str(words))
        said = redlock("status", *PATIENT, *words, env=on(quorum)).expect(0).out
        check("1 of 2 keys are held, 1 is unknown" in said, said)


@case("one taken key refuses the whole lock, and is named")
def _(quorum):
    quorum.occupy("fig")
    refused = redlock("acquire", "-n", "--json", *ALL, env=on(quorum))
    refused.expect(75, err="^redlock: fig is held by .*foreign")
    equal([refused.json()["key"], refused.json()["keys"]],
          ["pear", ["pear", "apple", "fig"]], "JSON")
    equal(quorum.keys(), 5, "keys")


@case("a token file has the keys, in any order, and is refused for others")
def _(quorum):
    path = lab.temporary("set.lock")
    acquire(quorum, "--token-file", path).expect(0)
    content = json.loads(lab.read(path))
    equal([content["key"], content["keys"]], ["pear", ["pear", "apple", "fig"]], "keys")
    file = ("--token-file", path)
    redlock("extend", *PATIENT, *file, "--and", "pear", "--and", "apple", "fig",
            env=on(quorum)).expect(0, err="^$")
    for words in (["pear"], ["--and", "apple", "pear"],
                  [*ALL[:-1], "--and", "plum", "pear"]):
        redlock("release", *file, *words, env=on(quorum)).expect(64, err="another key than")
    redlock("release", *PATIENT, *file, *ALL, env=on(quorum)).expect(0)
    equal(quorum.keys(), 0, "keys that are left")


@case("the token file of one key is refused for several")
def _(quorum):
    path = lab.temporary("one.lock")
    redlock("acquire", "--token-file", path, "pear", env=on(quorum)).expect(0)
    redlock("release", "--token-file", path, *ALL, env=on(quorum)).expect(64)
    redlock("release", *PATIENT, "--token-file", path, "pear", env=on(quorum)).expect(0)


@case("keys that cannot be a set")
def _(quorum):
    def refused(text, *words):
        redlock("acquire", "-n", *words, "pear", env=on(quorum)).expect(64, err=text)
    refused("is given twice", "--and", "pear")
    refused('"" is empty', "--and", "")
    refused("one key too many", *[word for i in range(16) for word in ("--and", f"k{i}")])
    redlock("acquire", "--and", env=on(quorum)).expect(64)
    equal(quorum.keys(), 0, "keys")


@case("the longest keys fit into a token file")
def _(quorum):
    path = lab.temporary("long.lock")
    keys = [(bytes([0x80 + i]) * 512).decode(errors="surrogateescape") for i in range(16)]
    words = [word for key in keys[1:] for word in ("--and", key)] + [keys[0]]
    redlock("acquire", *PATIENT, "--token-file", path, *words, env=on(quorum)).expect(0)
    redlock("release", *PATIENT, "--token-file", path, *words, env=on(quorum)).expect(0)
    equal(quorum.keys(), 0, "keys that are left")


lab.main()

#!/usr/bin/env python3
"""What acquire leaves on the nodes, under every pattern of other owners' locks."""
import re
import time

import lab
from lab import PATIENT, case, check, equal, on, redlock

FOREIGN = "foreign"


def acquire(quorum, *words, env=None, **more):
    return redlock("acquire", *PATIENT, *words, env=on(quorum, **(env or {})), **more)


def is_majority(nodes):
    return len(nodes) >= 3


@case("the token is on every node, with no more than the TTL, and on stdout alone")
def _(quorum):
    begun = time.monotonic()
    outcome = acquire(quorum, "-t", "20s", "k").expect(0, err="^$")
    token = outcome.out.removesuffix("\n")
    check(re.fullmatch(r"p[a-z2-7]{32}@\S+", token), f"an odd token: {outcome.out!r}")
    equal(quorum.values("k"), [token] * 5, "values")
    gone_ms = (time.monotonic() - begun) * 1000
    for server in quorum.servers:
        left = server.call("PTTL", "k")
        check(20000 - gone_ms - 50 < left <= 20000, f"PTTL {left} after {gone_ms} ms")
    equal(quorum.keys(), 5, "keys: one on each node and nothing else")


@case("no two tokens are the same, and the label names the holder")
def _(quorum):
    tokens = {acquire(quorum, f"k{index}").expect(0).out for index in range(10)}
    equal(len(tokens), 10, "different tokens")
    check(all(re.search(r"@[^@]+:\d+\n$", token) for token in tokens), f"labels: {tokens}")


@case("the TTL ends it if it is not extended")
def _(quorum):
    acquire(quorum, "-t", "300ms", "k").expect(0)
    acquire(quorum, "-n", "k").expect(75)
    lab.wait_for(lambda: quorum.keys() == 0, "the end of the TTL")
    acquire(quorum, "-n", "k").expect(0)


@case("bare numbers are seconds, units and fractions are exact")
def _(quorum):
    for text, most in (("2", 2000), ("1500ms", 1500), ("2.5s", 2500), ("1m", 60000),
                       ("0.5h", 1800000)):
        quorum.reset()
        acquire(quorum, "-t", text, "k").expect(0)
        left = quorum[0].call("PTTL", "k")
        check(most - 1500 < left <= most, f"-t {text}: PTTL {left}")


def try_mask(quorum, mask):
    others = [index for index in range(5) if mask >> index & 1]
    rest = [index for index in range(5) if index not in others]
    quorum.reset()
    quorum.occupy("k", others, FOREIGN)
    outcome = acquire(quorum, "-n", "k")
    text = f"mask {mask:05b}: {outcome}"
    values = quorum.values("k")
    check(all(values[index] == FOREIGN for index in others), f"a foreign value went: {text}")
    mine = {values[index] for index in rest}
    if is_majority(rest):
        check(outcome.code == 0, f"exit {outcome.code}: {text}")
        equal(mine, {outcome.out.strip()}, f"values elsewhere, {text}")
    else:
        check(outcome.code == 75, f"exit {outcome.code}: {text}")
        equal(outcome.out, "", f"stdout, {text}")
        check(mine <= {None}, f"our token stayed: {values}, {text}")


@case("all 32 patterns of nodes that another owner occupies: the majority decides, no "
      "foreign key is deleted, and a refused acquire leaves nothing")
def _(quorum):
    for mask in range(32):
        try_mask(quorum, mask)


@case("two other owners split the vote: neither has it, 75, nothing of ours stays")
def _(quorum):
    quorum.occupy("k", [0, 1], "a")
    quorum.occupy("k", [2, 3], "b")
    acquire(quorum, "-n", "k").expect(75)
    equal(quorum.values("k"), ["a", "a", "b", "b", None], "values")


@case("all 32 patterns of dead nodes: 0 or 69, as the majority says")
def _(quorum):
    for mask in range(32):
        dead = [index for index in range(5) if mask >> index & 1]
        quorum.reset()
        quorum.kill(*dead)
        outcome = acquire(quorum, "-n", "k")
        outcome.expect(0 if len(dead) <= 2 else 69)
        token = outcome.out.strip() or None
        equal(quorum.values("k"), [None if index in dead else token for index in range(5)],
              f"values with {dead} dead")


@case("nodes that are stopped cost votes, but little time")
def _(quorum):
    stopped = [0, 1]
    for index in stopped:
        quorum[index].stop()
    try:
        quorum.occupy("other", [2])
        for key, code in (("k", 0), ("other", 75)):
            outcome = redlock("acquire", "--timeout", "1s", "-n", "-t", "10m", key,
                              env=on(quorum)).expect(code)
            check(outcome.seconds < 60, f"it took {outcome.seconds} s")
    finally:
        for index in stopped:
            quorum[index].go_on()
    lab.wait_for(lambda: quorum.values("other") == [None, None, FOREIGN, None, None],
                 "the end of what was sent to stopped nodes")


@case("a value of another type, and a value without TTL, are other owners' locks")
def _(quorum):
    for index in range(5):
        quorum[index].call("LPUSH", "k", "x")
    acquire(quorum, "-n", "k").expect(75)
    equal(quorum[0].call("LLEN", "k"), 1, "the list")
    quorum.reset()
    for index in range(5):
        quorum[index].call("SET", "k", "forever")
    acquire(quorum, "-n", "k").expect(75)
    equal(quorum.values("k"), ["forever"] * 5, "values")


@case("one node, and two nodes of two: the majority of small quorums")
def _(quorum):
    acquire(quorum, "-n", "-N", quorum.uris[0], "k").expect(0)
    equal(quorum.keys(), 1, "keys")
    quorum.reset()
    quorum.occupy("k", [0])
    acquire(quorum, "-n", "-N", quorum.uris[0], "-N", quorum.uris[1], "k").expect(75)
    equal(quorum.values("k"), [FOREIGN] + [None] * 4, "values")


@case("--prefix goes before the key, also for extend and release")
def _(quorum):
    token = acquire(quorum, "--prefix", "app:", "k").expect(0).out.strip()
    equal(quorum.values("app:k"), [token] * 5, "values")
    equal(quorum.values("k"), [None] * 5, "values without the prefix")
    env = on(quorum, REDLOCK_TOKEN=token)
    redlock("extend", "k", env=env).expect(1)
    redlock("--prefix=app:", "extend", *PATIENT, "k", env=env).expect(0)
    redlock("release", *PATIENT, "--prefix", "app:", "k", env=env).expect(0)
    equal(quorum.keys(), 0, "keys")


@case("keys are bytes: blanks, quotes, newlines and what is not UTF-8")
def _(quorum):
    for key in ("a b", "it's", '"', "new\nline", "*", b"\xff\xfe", "-dash", "ключ"):
        raw = key if isinstance(key, bytes) else key.encode()
        token = acquire(quorum, "--", raw).expect(0).out.strip()
        equal(quorum.values(raw), [token] * 5, f"values of {key!r}")
        redlock("release", *PATIENT, "--", raw, env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    equal(quorum.keys(), 0, "keys")


@case("databases other than 0 in the URI")
def _(quorum):
    nodes = ",".join(f"{uri}?db=3" for uri in quorum.uris)
    acquire(quorum, "-N", nodes, "k").expect(0)
    equal(quorum.keys(), 0, "keys in database 0")
    for server in quorum.servers:
        with lab.Redis(server.path) as redis:
            redis.call("SELECT", 3)
            equal(redis.call("DBSIZE"), 1, "keys in database 3")
    acquire(quorum, "k").expect(0)


@case("status and a refused acquire mean the same by \"for another\": until a quorum is free")
def _(quorum):
    for index in range(5):
        quorum.occupy("k", [index], ms=(index + 1) * 100000)
    status = redlock("status", *PATIENT, "--json", "k", env=on(quorum)).expect(0).json()
    refused = acquire(quorum, "-n", "--json", "k").expect(75).json()
    for found in (status, refused):
        check(200000 < found["remaining_ms"] <= 300000, f"until a quorum is free: {found}")
    pattern = "for another (4 min [0-9]+|5 min 0) s"
    check(re.search(pattern, redlock("status", *PATIENT, "k", env=on(quorum)).out), "status")
    acquire(quorum, "-n", "k").expect(75, err=pattern)


lab.main()

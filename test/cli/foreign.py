#!/usr/bin/env python3
"""Values of other programs at the keys of locks: large ones, empty ones, and those that begin as
tokens do."""
import re

import lab
from lab import case, check, equal, matches, on, redlock

LARGE = 20_000_000
DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
TOKEN = "p" + DIGITS + "@here"
LABEL_MAX = 64

# Each is another kind of lock, and so another command, at the key `k` or at its slots.
HOWS = ([], ["--fence"], ["--shared"], ["--shared", "--fence"], ["--and", "other"],
        ["--and", "other", "--fence"], ["--slots", "1"], ["--slots", "1", "--fence"],
        ["--redisson"])

MAKERS = {
    "a string": "redis.call('SETRANGE', KEYS[1], ARGV[1], 'x')",
    "a hash's value": "redis.call('HSET', KEYS[1], 'small', string.rep('x', ARGV[1]))",
    "a hash's second field": "redis.call('HSET', KEYS[1], 'a', '1', string.rep('x', ARGV[1]), '1')",
    "a set's second member": "redis.call('ZADD', KEYS[1], 1, 'a', 2, string.rep('x', ARGV[1]))",
}


def fill(server, keys, value):
    for key in keys:
        server.call("EVAL", MAKERS[value], 1, key, LARGE)


def memory(server):
    """What is in use, and the most that ever was."""
    words = dict(re.findall(r"(\w+):(\d+)", server.call("INFO", "memory")))
    return int(words["used_memory"]), int(words["used_memory_peak"])


def level(server):
    """Stores so much that the next command that needs more is noticed; returns the peak."""
    used, peak = memory(server)
    server.call("SETRANGE", "rest", peak - used, "x")
    used, peak = memory(server)
    check(peak - used < LARGE / 4, f"the server has had {peak - used} bytes more")
    return peak


def is_unread(server, peak):
    check(memory(server)[1] - peak < LARGE / 4, f"a command read it: {memory(server)}, {peak}")


def ask_all(env, *keys):
    """Every command, at keys that other programs hold."""
    for how in HOWS:
        redlock("run", "-n", *how, "k", "true", env=env).expect(75)
    redlock("status", "k", env=env).expect(0)
    for words, count in ((), 0), (("--foreign",), 1):
        found = re.findall(r"^k ", redlock("list", *words, env=env).expect(0).out, re.M)
        equal(len(found), count, f"lines of k in a list {words}")
    for token in TOKEN, TOKEN.replace("p", "s", 1), "f:" + TOKEN[1:], "r:" + TOKEN[1:]:
        for words in ("extend", "-t", "20s"), ("release",):
            redlock(*words, "k", env={**env, "REDLOCK_TOKEN": token}).expect(2)


def ready(quorum):
    redlock("admit", "--new", "--at-once", env=on(quorum)).expect(0)
    return on(quorum)


for one in MAKERS:
    @case(f"{one} of {LARGE // 1000000} MB: nobody reads it")
    def _(quorum, value=one):
        env, server = ready(quorum), quorum[0]
        fill(server, ("k", "k!1"), value)
        peak = level(server)
        ask_all(env)
        redlock("break", "--yes", "k", env=env).expect(0)
        is_unread(server, peak)


@case("what a node stores besides a lock is large: nobody reads it")
def _(quorum):
    env, server = ready(quorum), quorum[0]
    server.call("COPY", "!marker", "kept")
    fill(server, ("k!fence", "k!hold", "e!term", "!marker"), "a string")
    peak = level(server)
    redlock("run", "-n", "--fence", "k", "true", env=env).expect(69)
    path = lab.temporary("token")
    for words in ("acquire", "-n", "-t", "auto"), ("release",):
        redlock(*words, "--token-file", path, "k", env=env).expect(0)
    redlock("status", "k", env=env).expect(1)
    redlock("check", "--fence", env=env)
    server.call("COPY", "kept", "!marker", "REPLACE")
    redlock("run", "-n", "--fence", "k", "true", env=env).expect(69)
    redlock("elect", "e", "true", env=env).expect(0)
    is_unread(server, peak)


@case("an empty value is held, by each kind of lock")
def _(quorum):
    env = ready(quorum)
    for key in "k", "k!1":
        quorum[0].call("SET", key, "")
    ask_all(env)
    equal(quorum[0].call("GET", "k"), "", "the value")


@case("a value that only begins as a token does is foreign")
def _(quorum):
    env, server = ready(quorum), quorum[0]
    for value in (TOKEN + "x" * LABEL_MAX, TOKEN + "x" * 200, TOKEN[:33] + "/here",
                  TOKEN[:33] + "a", "f:" + TOKEN[1:33] + ":", "p" + DIGITS):
        is_token = value == "p" + DIGITS
        for key in "k", "k!1":
            server.call("SET", key, value, "PX", 10**9)
        found = redlock("status", "--json", "k", env=env).expect(0).json()
        equal(found["kind"], "exclusive" if is_token else "foreign", f"the kind of {value}")
        if not is_token:
            ask_all(env)
            check(server.call("PTTL", "k") > 10**8, "its life was shortened")
        equal(server.call("GET", "k"), value, "the value")


@case("a token of as many bytes as one may have: its own value alone is released")
def _(quorum):
    server, token = quorum[0], "x" * 128
    env = on(quorum, REDLOCK_TOKEN=token)
    for value, code in ((token + "x", 2), (token[:-1], 2), (token, 0)):
        server.call("SET", "k", value, "PX", 10**9)
        redlock("release", "k", env=env).expect(code)
        equal(server.call("EXISTS", "k"), code > 0, f"the key of {len(value)} bytes")


lab.main(1)

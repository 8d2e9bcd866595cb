#!/usr/bin/env python3
"""The minimal ACL rule that `check --acl` prints, given to real servers unchanged."""
import pathlib
import re
import shlex

import lab
from lab import case, check, durable, equal, matches, on, redlock

RULE_USER = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "SECRET"}
PATIENT = ("--timeout", "500ms")  # long, so that no node is silent on a busy machine
WORDS = ("--prefix", "lock:", *PATIENT)


def watch(quorum, env):
    """A second command on the same connection gets the same reply as the first."""
    process = lab.start("status", "--watch", *WORDS, "k", env=env)
    said = process.stdout.readline().decode()
    for server in quorum.servers:
        server.call("SET", "lock:k", "foreign", "PX", 600000)
    if re.search("free on [23] of 3", said):  # one may be greeted late
        said = process.stdout.readline().decode()  # any other state is reported
    process.terminate()
    lab.finish(process)
    return re.search("held by foreign on [23] of 3", said) is not None


def story(quorum):
    """What a user needs for a lock, step by step: the names of the steps that fail."""
    env = on(quorum, **RULE_USER)
    failed = set()

    def step(name, *words, code=0, said=""):
        outcome = redlock(*words[:1], *WORDS, *words[1:], env=env)
        if outcome.code != code or not re.search(said, outcome.out):
            failed.add(name)
        return outcome.out.strip()
    for server in quorum.servers:
        server.call("FLUSHALL")
    redlock("admit", "--new", "--at-once", *WORDS, env=on(quorum)).expect(0)
    step("status", "status", "k", code=1, said="free on [23] of 3")  # one may be greeted late
    if not watch(quorum, env):
        failed.add("watch")
    step("break", "break", "--yes", "k", said="removed from 3 of 3 nodes; foreign")
    env["REDLOCK_TOKEN"] = step("acquire", "acquire", "-n", "-t", "20s", "k") or "none"
    step("status", "status", "k", said="on [23] of 3 nodes, for another 1?[0-9.]+ s")
    step("extend", "extend", "-t", "60s", "k")
    step("release", "release", "k")
    env["REDLOCK_TOKEN"] = step("set", "acquire", "-n", "--and", "l", "k") or "none"
    step("set", "release", "--and", "l", "k")
    step("run", "run", "-n", "k", "true")
    step("fence", "run", "-n", "-t", "20s", "--fence", "k", "true")
    step("read", "run", "--shared", "-n", "k", "true", said="^$")
    step("slots", "run", "--slots", "2", "-n", "k", "true")
    step("admit", "admit", "--readmit", "-w", "1s")
    step("check", "check", "--strict", "--fence", said="3 of 3 nodes are fit")
    if not failed:
        equal(quorum.keys(), 6, "keys: those of markers and fences")
    return failed


@case("--acl: with exactly this rule everything works; without any word of it some step fails")
def _():
    with durable() as quorum:
        outcome = redlock("check", "--acl", "--user", "me", "--prefix", "lock:", env=on(quorum))
        words = outcome.expect(0, err="^$").out.split()
        for server in quorum.servers:
            equal(server.call(*words), "OK", "the rule")
        equal(story(quorum), set(), "steps that fail")
        redlock("elect", *WORDS, "-t", "20s", "k", "true", env=on(quorum, **RULE_USER)).expect(0)
        needed = {
            "+info": "acquire", "+set": "acquire", "+eval": "status", "+getrange": "status",
            "+pttl": "status", "+del": "release", "+pexpire": "extend", "+evalsha": "watch",
            "+time": "check", "+exists": "set",
        }
        to_read = {"+zadd", "+zrange"}
        to_wait = to_read | {"+zrem", "+zscore", "+publish"}
        untold = {"+subscribe", "+ping", "+client|setname"}
        equal({word for word in words if word.startswith("+")}, set(needed) | to_wait | untold, "rights")
        for word, step in needed.items():
            for server in quorum.servers:
                server.call(*(one for one in words if one != word))
            failed = story(quorum)
            check({step, "check"} <= failed, f"without {word} these fail: {failed}")
            found = redlock("check", *WORDS, env=on(quorum, **RULE_USER))
            matches(found.out, rf"\b{word[1:].upper()}\b", f"check without {word}")
        for word in (*to_wait, "&lock:!wake:*"):
            for server in quorum.servers:
                server.call(*(one for one in words if one != word))
            fails = {"check", "read"} if word in to_read else {"check"}
            equal(story(quorum), fails, f"what fails without {word}")
            found = redlock("check", *WORDS, env=on(quorum, **RULE_USER))
            matches(found.out, "no_calls", f"without {word}")


@case("--acl: connects to no node; databases, users and prefixes; JSON")
def _():
    def rule(*words, nodes="redis://nobody.invalid", env=None):
        return redlock("check", "--acl", *words, "-N", nodes, env=env).expect(0, err="^$").out
    matches(rule(), r"^ACL SETUSER lock reset on >SECRET ~\* resetchannels &!wake:\* -@all \+info ", "rule")
    matches(rule(nodes="redis://me:hush@nobody.invalid/3"), r" me reset .*~\* .*\+select\n$", "rule")
    check("hush" not in rule(nodes="redis://me:hush@nobody.invalid/3"), "a secret")
    matches(rule("--user", "you"), "^ACL SETUSER you ", "user")
    page = lab.read(pathlib.Path(__file__).resolve().parents[2] / "docs/production.md")
    check(rule("--prefix", "lock:").strip() in " ".join(page.split()), "docs/production.md")
    found = redlock("check", "--acl", "--json", "-N", "redis://nobody.invalid").expect(0).json()
    equal((found["schema"], found["acl"] + "\n"), ("redlock.check/1", rule()), "JSON")


@case("--acl: a prefix of any characters: its own keys, and no others")
def _():
    with durable(1) as quorum:
        for prefix, other in (("a*b[c]?\\d^", "aXb[c]?\\d^"), ("it's \"quoted\" ", "its"),
                              ("\u00e4:", "a:"), ("x", "y")):
            words = redlock("check", "--acl", "--user", "me", "--prefix", prefix,
                            env=on(quorum)).expect(0).out.split()
            equal(quorum[0].call(*words), "OK", "the rule")
            env = on(quorum, **RULE_USER)
            redlock("run", *PATIENT, "--prefix", prefix, "-n", "k", "true", env=env).expect(0)
            redlock("run", *PATIENT, "--prefix", other, "-n", "k", "true", env=env).expect(77)


@case("--acl: a user of any characters is one word to redis-cli")
def _():
    def rule(user):
        return redlock("check", "--acl", "--user", user, "-N", "redis://nobody.invalid").expect(0).out
    matches(rule("a b"), r'^ACL SETUSER "a b" reset on ', "a user with a blank")
    with durable(1) as quorum:
        user = "it's\"me\""
        words = shlex.split(rule(user))
        equal(quorum[0].call(*words), "OK", "the rule")
        env = on(quorum, REDLOCK_USERNAME=user, REDLOCK_PASSWORD="SECRET")
        redlock("run", *PATIENT, "-n", "k", "true", env=env).expect(0)


lab.main(servers=0)

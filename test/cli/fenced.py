#!/usr/bin/env python3
"""Fenced locks with the command: their fence, where it is printed, and what prevents them."""
import json
import os

import lab
from fencing import found as admit
from lab import PATIENT, case, check, equal, matches, on, redlock

MOST = 2**53 - 1
SHOW = ["sh", "-c", "echo $REDLOCK_FENCE"]


def run(quorum, *words, env=None, **more):
    return redlock("run", *words, env=on(quorum, **(env or {})), **more)


def fences(quorum, key):
    """The stored fence; 0 if there is none."""
    return [int(value or 0) for value in quorum.values(key + "!fence")]


class Kept:
    """A fenced lock `k` whose token is in a file."""

    def __init__(self, quorum, *words):
        self.quorum, self.path = quorum, lab.temporary("k.lock")
        self.token = redlock("acquire", "--fence", *PATIENT, *words, "--token-file", self.path,
                             "k", env=on(quorum)).expect(0, err="^$").out.strip()

    def call(self, command, *words):
        return redlock(command, *PATIENT, *words, "--token-file", self.path, "k",
                       env=on(self.quorum))

    def content(self):
        return json.loads(lab.read(self.path))

    def change(self, **values):
        kept = {**self.content(), **values}
        lab.write(self.path, json.dumps({name: value for name, value in kept.items()
                                         if value != "absent"}))


# --- run ---

@case("run --fence: REDLOCK_FENCE is a number that rises from run to run, for each key separately")
def _(quorum):
    admit(quorum)
    last = {"k": 0, "other": 0}
    for turn in range(40):
        key = ["k", "other"][turn % 3 == 2]
        now = int(run(quorum, "-n", "--fence", key, *SHOW).expect(0, err="^$").out)
        check(last[key] < now <= MOST, f"{now} after {last[key]}")
        stored = sorted(fences(quorum, key))
        equal(stored[2], now, f"what a majority stores at least: {stored}")
        last[key] = now
    equal(quorum.values("k"), [None] * 5, "values")


@case("run: a plain lock has no fence, also within a fenced one")
def _(quorum):
    admit(quorum)
    env = {"REDLOCK_FENCE": "7"}
    words = ["--", "sh", "-c", "echo $REDLOCK_KEY ${REDLOCK_FENCE-none}"]
    run(quorum, "-n", "k", *words, env=env).expect(0, out="k none\n")
    run(quorum, "-n", "--fence", "k", "--", lab.program, "run", "-n", "inner", *words,
        env=env).expect(0, out="inner none\n")
    nested = run(quorum, "-n", "--fence", "k", "--", "sh", "-c",
                 f'echo $REDLOCK_FENCE; "{lab.program}" run -n --fence inner -- {SHOW[0]} -c '
                 f"'{SHOW[2]}'").expect(0)
    outer, inner = nested.out.split()
    check(int(outer) < int(inner), f"{outer} and {inner}")


@case("run --json: kind and fence, also where it is not held")
def _(quorum):
    admit(quorum)

    def said(code, *words):
        return json.loads(run(quorum, "--json", *words).expect(code).err.splitlines()[-1])
    held = run(quorum, "--json", "-n", "--fence", "k", *SHOW).expect(0)
    found = json.loads(held.err)
    equal([found[name] for name in ("schema", "kind", "fenced", "fence", "cause")],
          ["redlock.run/1", "exclusive", True, int(held.out), "child"], "JSON")
    plain = said(0, "-n", "k", "true")
    equal([plain["fenced"], plain["fence"]], [False, None], "plain")
    quorum.occupy("k")
    refused = said(75, "-n", "--fence", "k", "true")
    equal([refused["fenced"], refused["fence"], refused["cause"]], [True, None, "taken"],
          "refused")


@case("run --fence: extended for as long as the command runs, with the same fence")
def _(quorum):
    admit(quorum)
    path = lab.temporary("fence")
    process = lab.start("run", "-t", "6s", "--fence", "k", "--", "sh", "-c",
                        f"echo $REDLOCK_FENCE > {path}; sleep 50", env=on(quorum))
    lab.wait_for(lambda: os.path.exists(path) and lab.read(path), "the fence")
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first + 2000000, "some extensions")
    equal(sorted(fences(quorum, "k"))[2:], [int(lab.read(path))] * 3, "what a majority stores")
    status = redlock("status", *PATIENT, "k", env=on(quorum)).expect(0).out
    matches(status, r"k: held by \S+:%d on 5 of 5 nodes" % process.pid, "the label")
    check("f:" not in status, f"a token in {status}")
    check("f:" not in redlock("status", "--json", "-v", "k", env=on(quorum)).expect(0).out,
          "a token in JSON")
    run(quorum, "-n", "--fence", "k", "true").expect(75, err=r"k is held by \S+:\d+, for another")
    run(quorum, "-n", "k", "true").expect(75, err="is held by")
    process.terminate()
    lab.finish(process).expect(143)
    equal(quorum.values("k"), [None] * 5, "values")


@case("run --fence --at-least: kept for that time, by a TTL that is long enough")
def _(quorum):
    admit(quorum, "--max-ttl", "4s")
    words = ["-n", "-t", "4s", "--fence", "--at-least"]
    run(quorum, *words, "4s", "k", "true").expect(64, err="requires --ttl 4090ms")
    before = lab.now_us()
    run(quorum, *words, "3800ms", "k", "sleep", "0.3").expect(0, err="^$")
    free = quorum.expires_us("k")
    check(free >= before + 3800000, f"free after {free - before} us")
    check(free <= lab.now_us() + 4200000, f"free {free - before} us after the beginning")
    run(quorum, "-n", "--fence", "-t", "1s", "k", "true").expect(75)


# --- tokens ---

@case("acquire --fence: the token alone on stdout; kind and fence in the file and in JSON")
def _(quorum):
    admit(quorum)
    kept = Kept(quorum, "-t", "20s")
    matches(kept.token, r"^f:[a-z2-7]{32}@\S+$", "token")
    equal(quorum.values("k"), [kept.token] * 5, "values")
    content = kept.content()
    equal([content["token"], content["kind"], content["fenced"]], [kept.token, "exclusive", True],
          "values")
    equal(sorted(fences(quorum, "k"))[2:], [content["fence"]] * 3, "what a majority stores")
    kept.call("release").expect(0, out="", err="^$")
    found = redlock("acquire", "--fence", "--json", "k", env=on(quorum)).expect(0).json()
    equal(found["fenced"], True, "fenced")
    check(found["fence"] > content["fence"], f"{found['fence']} after {content['fence']}")


@case("extend and release accept it: the file, which keeps the fence, and a bare token")
def _(quorum):
    admit(quorum)
    kept = Kept(quorum, "-t", "5s")
    fence = kept.content()["fence"]
    found = kept.call("extend", "--json", "-t", "40s").expect(0, err="^$").json()
    equal([found["fenced"], found["fence"], found["continuity"]], [True, fence, "proven"], "JSON")
    equal(kept.content()["fence"], fence, "the fence in the file")
    check(quorum[0].call("PTTL", "k") > 35000, "the TTL")
    for index in (0, 1):  # nodes that forget: the fence comes back with the key
        quorum[index].call("DEL", "k", "k!fence")
    kept.call("extend").expect(0)
    equal(quorum.values("k"), [kept.token] * 5, "values")
    equal(fences(quorum, "k"), [fence] * 5, "fences")
    env = on(quorum, REDLOCK_TOKEN=kept.token)
    found = redlock("extend", "--json", "k", env=env).expect(0, err="in between").json()
    equal([found["fenced"], found["fence"]], [True, None], "JSON of a bare token")
    redlock("extend", "k", env=on(quorum), text=kept.token + "\n").expect(0)
    redlock("release", *PATIENT, "k", env=env).expect(0, out="", err="^$")
    equal(quorum.values("k"), [None] * 5, "values")
    redlock("release", "k", env=env).expect(1)
    kept.call("extend").expect(1)
    check(int(run(quorum, "-n", "--fence", "k", *SHOW).expect(0).out) > fence, "the next")


@case("a token file whose kind, token and fence do not match is refused")
def _(quorum):
    admit(quorum)
    kept = Kept(quorum)
    fence = kept.content()["fence"]
    for wrong in ({"kind": "shared"}, {"kind": "foreign"}, {"fenced": False}, {"fenced": "yes"},
                  {"token": "p" + kept.token[2:]}, {"token": "of-another-library"}, {"fence": None}, {"fence": "absent"},
                  {"fence": 0}, {"fence": -1}, {"fence": MOST + 1}, {"fence": str(fence)},
                  {"fence": 1.5}, {"kind": None}):
        kept.change(**wrong)
        for command in ("extend", "release"):
            kept.call(command).expect(78, err="not a token file", out="")
        kept.change(kind="exclusive", fenced=True, fence=fence, token=kept.token)
    kept.call("extend").expect(0)
    kept.call("release").expect(0)


@case("break removes it, and the next fence is larger all the same")
def _(quorum):
    admit(quorum)
    kept = Kept(quorum)
    redlock("break", *PATIENT, "--yes", "k", env=on(quorum)).expect(0)
    kept.call("extend").expect(1)
    check(int(run(quorum, "-n", "--fence", "k", *SHOW).expect(0).out) > kept.content()["fence"],
          "the next")


# --- what prevents a fenced lock ---

@case("nodes that were never admitted: 69 with the command that admits them; plain locks work there")
def _(quorum):
    wanted = r"is not held: 5 of 5 .*no connected node has a marker[^\n]*; run redlock admit --new[^\n]*\n$"
    run(quorum, "-n", "--fence", "k", "true").expect(69, err=wanted)
    redlock("acquire", "-n", "--fence", "k", env=on(quorum)).expect(69, err=wanted, out="")
    found = redlock("acquire", "-n", "--json", "--fence", "k", env=on(quorum)).expect(69).json()
    equal([node["fault"] for node in found["nodes"]], ["unmarked"] * 5, "faults")
    env = on(quorum, REDLOCK_TOKEN="f:" + "a" * 32 + "@x")
    redlock("extend", "k", env=env).expect(69, err="redlock admit --new", out="")
    equal(quorum.keys(), 0, "keys")
    run(quorum, "-n", "k", "true").expect(0)


@case("a waiter for nodes that were never admitted gets the reason, and the lock when they are")
def _(quorum):
    for words in (["run", "--fence", "k", "true"], ["acquire", "--fence", "k"]):
        process = lab.start(*words, env=on(quorum))
        line = process.stderr.readline().decode()
        matches(line, "k: waiting: 5 of 5 nodes failed: .*no connected node has a marker.*; run redlock admit --new",
                "the line")
        admit(quorum)
        lab.finish(process).expect(0)
        quorum.reset()


@case("a TTL above the longest: 64 with the limit; nothing is set, and a held lock stays")
def _(quorum):
    admit(quorum, "--max-ttl", "5s")
    longer = "--ttl 6.0 s is longer than the --max-ttl that the nodes were admitted with"
    run(quorum, "-n", "-t", "6s", "--fence", "k", "true").expect(64, err=longer)
    redlock("acquire", "-t", "6s", "--fence", "k", env=on(quorum)).expect(64, err=longer, out="")
    equal(quorum.values("k"), [None] * 5, "values")
    equal(quorum.values("k!fence"), [None] * 5, "fences")
    run(quorum, "-n", "-t", "6s", "k", "true").expect(0)  # a plain lock may be longer
    kept = Kept(quorum, "-t", "5s")
    kept.call("extend", "-t", "6s").expect(64, err=longer, out="")
    equal(kept.call("extend", "--json", "-t", "6s").expect(64).json()["cause"], "bad_ttl", "cause")
    env = on(quorum, REDLOCK_TOKEN=kept.token)
    redlock("extend", "-t", "6s", "k", env=env).expect(64, err=longer, out="")
    check(max(server.call("PTTL", "k") for server in quorum.servers) <= 5000, "the TTL")
    kept.call("extend").expect(0)
    kept.call("release").expect(0)


lab.main()

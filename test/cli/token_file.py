#!/usr/bin/env python3
"""Tokens that outlive a process: in a file with their deadline, and bare without one."""
import json
import os
import stat
import subprocess

import lab
from lab import PATIENT, case, check, equal, on, redlock


class Kept:
    """A lock `k` whose token is in a file."""

    def __init__(self, quorum, *words):
        self.quorum, self.path = quorum, lab.temporary("k.lock")
        self.token = redlock("acquire", *PATIENT, *words, "--token-file", self.path, "k",
                             env=on(quorum)).expect(0, err="^$").out.strip()

    def call(self, command, *words):
        return redlock(command, *PATIENT, *words, "--token-file", self.path, "k",
                       env=on(self.quorum))

    def content(self):
        return json.loads(lab.read(self.path))

    def change(self, **values):
        lab.write(self.path, json.dumps({**self.content(), **values}))


@case("acquire writes it: mode 0600, all that is needed, and no other file")
def _(quorum):
    old = os.umask(0)
    try:
        kept = Kept(quorum, "-t", "20s")
    finally:
        os.umask(old)
    equal(stat.S_IMODE(os.stat(kept.path).st_mode), 0o600, "mode")
    equal(os.listdir(os.path.dirname(kept.path)), ["k.lock"], "files")
    content = kept.content()
    equal(sorted(content), sorted(["key", "token", "kind", "fenced", "fence", "ttl_ms", "valid_ms",
                                   "deadline_us", "boot_id"]), "names")
    equal([content["key"], content["token"], content["kind"], content["ttl_ms"]],
          ["k", kept.token, "exclusive", 20000], "values")
    equal(content["boot_id"], lab.read("/proc/sys/kernel/random/boot_id").strip(), "boot id")
    check(lab.now_us() < content["deadline_us"] < quorum.expires_us("k"), f"{content}")


@case("acquire replaces an older file, also one that others may read")
def _(quorum):
    path = lab.write(lab.temporary("k.lock"), "OLD!", 0o644)
    redlock("acquire", "--token-file", path, "k", env=on(quorum)).expect(0)
    equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode")
    check("OLD!" not in lab.read(path), "old content")


@case("a refused acquire leaves the earlier file unchanged")
def _(quorum):
    quorum.occupy("k")
    path = lab.write(lab.temporary("k.lock"), "old")
    redlock("acquire", "-n", "--token-file", path, "k", env=on(quorum)).expect(75)
    equal(lab.read(path), "old", "content")
    equal(os.listdir(os.path.dirname(path)), ["k.lock"], "files")


@case("round trip: acquire, extend, extend, release")
def _(quorum):
    kept = Kept(quorum, "-t", "5s")
    first = kept.content()
    kept.call("extend", "-t", "40s").expect(0, out="", err="^$")
    second = kept.content()
    check(second["deadline_us"] > first["deadline_us"] + 30000000, f"{first} {second}")
    equal(second["ttl_ms"], 40000, "TTL in the file")
    equal(stat.S_IMODE(os.stat(kept.path).st_mode), 0o600, "mode")
    check(quorum.expires_us("k") > second["deadline_us"], "the nodes forget it too early")
    kept.call("extend").expect(0)
    check(quorum[0].call("PTTL", "k") > 35000, "the TTL of the file was not used")
    equal(quorum.values("k"), [kept.token] * 5, "values")
    kept.call("release").expect(0, out="", err="^$")
    equal(quorum.keys(), 0, "keys")


@case("a reader's file that has a fence: extend, release")
def _(quorum):
    redlock("admit", "--new", "--at-once", *PATIENT, env=on(quorum)).expect(0)
    kept = Kept(quorum, "--fence", "--shared")
    equal([kept.content()[name] for name in ("kind", "fenced")], ["shared", True], "kind")
    kept.call("extend").expect(0, out="", err="^$")
    kept.change(fence=None)
    kept.call("release").expect(78, err="not a token file")
    kept.change(fence=1)
    kept.call("release").expect(0, out="", err="^$")


@case("a release does not care for --max-ttl, whose TTL it does not use")
def _(quorum):
    kept = Kept(quorum, "-t", "20s")
    kept.call("release", "--max-ttl", "10s").expect(0)
    token = redlock("acquire", *PATIENT, "-t", "5s", "k", env=on(quorum)).expect(0).out.strip()
    redlock("release", *PATIENT, "--max-ttl", "10s", "k",
            env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    equal(quorum.keys(), 0, "keys")


@case("extend --json reports that continuity is proven; with a bare token that it is not")
def _(quorum):
    kept = Kept(quorum)
    equal(kept.call("extend", "--json").expect(0).json()["continuity"], "proven", "continuity")
    env = on(quorum, REDLOCK_TOKEN=kept.token)
    outcome = redlock("extend", "--json", "k", env=env).expect(0, err="in between")
    equal(outcome.json()["continuity"], "unproven", "continuity")
    redlock("extend", "k", env=env).expect(0, err="in between", out="")


@case("extend after the deadline refuses, though the nodes still store the token")
def _(quorum):
    kept = Kept(quorum, "-t", "60s")
    kept.change(deadline_us=lab.now_us() - 1)
    before = [server.call("PEXPIRETIME", "k") for server in quorum.servers]
    kept.call("extend").expect(1, err="past its deadline")
    equal(kept.call("extend", "--json").expect(1).json()["cause"], "expired", "cause")
    equal([server.call("PEXPIRETIME", "k") for server in quorum.servers], before, "expiries")
    kept.call("release").expect(0)
    equal(quorum.keys(), 0, "keys")


@case("extend after a real expiry refuses, and recreates nothing")
def _(quorum):
    kept = Kept(quorum, "-t", "300ms")
    lab.wait_for(lambda: quorum.keys() == 0, "the end of the TTL")
    kept.call("extend").expect(1)
    equal(quorum.keys(), 0, "keys")


@case("extend under another boot id, or with a deadline that no clock of ours can have: 1")
def _(quorum):
    kept = Kept(quorum)
    content = kept.content()
    kept.change(boot_id="00000000-0000-0000-0000-000000000000")
    kept.call("extend").expect(1, err="another boot")
    equal(kept.call("extend", "--json").expect(1).json()["cause"], "other_boot", "cause")
    kept.change(boot_id=content["boot_id"], deadline_us=content["deadline_us"] + 10**9)
    kept.call("extend").expect(1, err="another boot")
    kept.call("release").expect(0)


@case("after a release the file extends nothing, and nothing is recreated")
def _(quorum):
    kept = Kept(quorum)
    kept.call("release").expect(0)
    for _ in range(2):
        kept.call("extend").expect(1)
        equal(quorum.keys(), 0, "keys")


@case("after a release and another client's acquire the file extends and releases nothing: 2")
def _(quorum):
    kept = Kept(quorum)
    kept.call("release").expect(0)
    quorum.occupy("k", [0, 1, 2], "other")
    kept.call("extend").expect(2)
    kept.call("release").expect(2)
    equal(quorum.values("k"), ["other"] * 3 + [None] * 2, "values")


@case("a lock that a majority of the nodes forgot is gone: 1, and nothing of it stays")
def _(quorum):
    kept = Kept(quorum)
    for index in range(3):
        quorum[index].call("DEL", "k")
    kept.call("extend").expect(1)
    equal(quorum.values("k"), [None] * 5, "values")
    kept.call("extend").expect(1)


@case("files that are no token files, or of another key")
def _(quorum):
    kept = Kept(quorum)
    redlock("extend", "--token-file", kept.path, "other", env=on(quorum)).expect(
        64, err="belongs to another key")
    good = kept.content()
    for name in ("token", "kind", "fenced", "ttl_ms", "valid_ms", "deadline_us", "boot_id", "key"):
        for wrong in ({}, {name: None}, {name: -1}, {name: "x" * 300}, {name: []}):
            content = {**good, **wrong}
            if not wrong:
                del content[name]
            lab.write(kept.path, json.dumps(content))
            outcome = kept.call("extend")
            check(outcome.code in (64, 78), f"{name} {wrong}: {outcome}")
            equal(outcome.err.count("\n"), 1, f"lines of {outcome}")
    for text in ("", "x", "[]", "{}", json.dumps(good)[:-1], json.dumps(good) * 2,
                 '{"key": "k", "key": "k"}', "\0" * 100, "x" * 100000):
        lab.write(kept.path, text)
        kept.call("release").expect(78)
    equal(quorum.values("k"), [kept.token] * 5, "values")


@case("a file that cannot be written: 78, and the lock is released")
def _(quorum):
    folder = os.path.dirname(lab.temporary("x"))
    path = os.path.join(folder, "y" * 254)  # no room for the name of a temporary file
    outcome = redlock("acquire", "--token-file", path, "k", env=on(quorum))
    outcome.expect(78, err="is released", out="")
    equal(quorum.keys(), 0, "keys")
    equal(os.listdir(folder), [], "files")


def limited(quorum, script, *words):
    """The command, where no file may have a byte."""
    return lab.finish(lab.spawn(
        ["sh", "-c", f'ulimit -f 0; exec "$0" "$@" {script}', lab.program, *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=lab.environment(on(quorum))))


@case("the limit of a file's size (SIGXFSZ): an error like others, and the lock is released")
def _(quorum):
    path = lab.temporary("k.lock")
    limited(quorum, "", "acquire", "--token-file", path, "k").expect(
        78, err="File too large; k is released", out="")
    equal([quorum.keys(), os.listdir(os.path.dirname(path))], [0, []], "keys and files")
    limited(quorum, f">{path}", "acquire", "k").expect(
        125, err="stdout: File too large; k is released")
    equal(quorum.keys(), 0, "keys")
    limited(quorum, "", "run", "k", "sh", "-c", f"echo x >{path}; echo $?").expect(
        153)  # it has the default again


@case("extend refuses a link, as acquire does, and extends nothing; a release reads through it")
def _(quorum):
    kept = Kept(quorum, "-t", "60s")
    link = lab.temporary("link")
    os.symlink(kept.path, link)
    before = [server.call("PEXPIRETIME", "k") for server in quorum.servers]
    for command in ("acquire", "extend"):
        redlock(command, *PATIENT, "-t", "5m", "--token-file", link, "k", env=on(quorum)).expect(
            78, err="not a regular file")
    check(os.path.islink(link), "the link was replaced")
    equal([server.call("PEXPIRETIME", "k") for server in quorum.servers], before, "expiries")
    redlock("release", *PATIENT, "--token-file", link, "k", env=on(quorum)).expect(0)


@case("a file that cannot be synced is none: 78, and the lock is released")
def _(quorum):
    path = lab.temporary("k.lock")
    redlock("acquire", "--token-file", path, "k",
            env=on(quorum, **lab.keeper_shim(SHIM_NO_SYNC="1"))).expect(
        78, err="Input/output error; k is released", out="")
    equal([quorum.keys(), os.listdir(os.path.dirname(path))], [0, []], "keys and files")


@case("stdout that cannot be written: the file is removed with the lock")
def _(quorum):
    path = lab.temporary("k.lock")
    with open("/dev/full", "wb") as full:
        redlock("acquire", "--token-file", path, "k", env=on(quorum), stdout=full).expect(125)
    equal(os.listdir(os.path.dirname(path)), [], "files")
    equal(quorum.keys(), 0, "keys")


@case("and if it cannot be released: why")
def _(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "default", "-del")
    try:
        with open("/dev/full", "wb") as full:
            redlock("acquire", "k", env=on(quorum), stdout=full).expect(
                125, err="k: too few nodes confirmed the release, what is left ends with its "
                         r"TTL: 5 of 5 nodes failed: .*: the user lacks a right \(ACL\)")
    finally:
        for server in quorum.servers:
            server.call("ACL", "SETUSER", "default", "+@all")


# --- bare tokens ---

def bare(quorum, command, *words, token, by):
    if by == "environment":
        return redlock(command, *PATIENT, *words, "k", env=on(quorum, REDLOCK_TOKEN=token))
    return redlock(command, *PATIENT, *words, "k", env=on(quorum), text=token + "\n")


@case("a bare token by REDLOCK_TOKEN and by stdin: extend, release")
def _(quorum):
    for by in ("environment", "stdin"):
        token = redlock("acquire", *PATIENT, "-t", "5s", "k",
                        env=on(quorum)).expect(0).out.strip()
        bare(quorum, "extend", "-t", "50s", token=token, by=by).expect(0, out="", err="in between")
        check(quorum[0].call("PTTL", "k") > 40000, "not extended")
        bare(quorum, "release", token=token, by=by).expect(0, out="", err="^$")
        equal(quorum.keys(), 0, "keys")
        bare(quorum, "release", token=token, by=by).expect(1)


@case("a bare token never recreates a key: all 32 patterns of nodes that forgot it")
def _(quorum):
    for mask in range(32):
        quorum.reset()
        token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
        gone = [index for index in range(5) if mask >> index & 1]
        for index in gone:
            quorum[index].call("DEL", "k")
        bare(quorum, "extend", token=token, by="environment").expect(0 if len(gone) <= 2 else 1)
        lost = len(gone) > 2  # then the rest is of no use and is deleted
        equal(quorum.values("k"), [None if lost or index in gone else token for index in range(5)],
              f"values without {gone}")


@case("a bare token of the user's own, as other clients have them")
def _(quorum):
    quorum.occupy("k", value="6f1b2a")
    quorum[0].call("PEXPIRE", "k", 20000)
    bare(quorum, "extend", "-t", "30s", token="6f1b2a", by="stdin").expect(0)
    check(quorum[0].call("PTTL", "k") > 20000, "not extended")
    bare(quorum, "release", token="6f1b2", by="stdin").expect(2)
    bare(quorum, "release", token="6f1b2a", by="stdin").expect(0)
    equal(quorum.keys(), 0, "keys")


@case("a token file goes before REDLOCK_TOKEN, and that before stdin")
def _(quorum):
    kept = Kept(quorum)
    env = on(quorum, REDLOCK_TOKEN="pnonsense@me")
    redlock("extend", "--token-file", kept.path, "k", env=env).expect(0)
    redlock("release", "k", env=on(quorum, REDLOCK_TOKEN=kept.token), text="nonsense\n").expect(0)


lab.main()

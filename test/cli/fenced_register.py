#!/usr/bin/env python3
"""docs/examples: the registers refuse old fencing tokens, on Redis and in SQL."""
import os
import random
import re
import shutil
import sqlite3
import subprocess
import threading

import lab
from lab import case, check, equal

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples")
MOST = 2**53 - 1
NO_TOKENS = ("", "x", "-1", "0", "1.5", "1e3", "0x10", " 7", "nan", "inf", str(MOST + 1),
             str(MOST + 2), "9" * 400)
HOSTILE = "it's \"$(x)\" `x` \\ ; -- \n\t%s \u20ac"


class OnRedis:
    """Records in the script. The value that a holder writes names its token."""

    def __init__(self, path, _=None):
        self.redis = lab.Redis(path)
        self.script = lab.read(os.path.join(EXAMPLES, "fenced_register.lua"))

    def write(self, name, fence, value):
        return self.redis.call("EVAL", self.script, 1, name, fence, value) == 1

    def read(self, name):
        """(fence, value), or (None, None)."""
        return tuple(self.redis.call("HMGET", name, "fence", "value"))

    def close(self):
        self.redis.__exit__()


class OnSqlite:
    """The same with one of the statements, "INSERT" or "UPDATE"; this one needs existing rows."""

    def __init__(self, path, statement):
        self.base = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.base.execute("PRAGMA synchronous = OFF")
        text = lab.read(os.path.join(EXAMPLES, "fenced_register.sql"))
        text += "\n".join(re.findall("^--    (.*)", text, re.M))
        text = re.sub("^--.*", "", text, flags=re.M)
        found = {one.split()[0]: one.strip() for one in text.split(";") if one.strip()}
        equal(sorted(found), ["CREATE", "INSERT", "UPDATE"], "statements")
        self.base.execute(found["CREATE"])
        self.statement = found[statement]
        if statement == "UPDATE":
            self.base.execute("INSERT INTO fenced_register VALUES ('r', 1, ''), ('other', 1, '') "
                              "ON CONFLICT DO NOTHING")

    def write(self, name, fence, value):
        done = self.base.execute(self.statement, {"name": name, "fence": fence, "value": value})
        if self.statement.startswith("UPDATE"):
            return done.rowcount == 1
        return done.fetchone() is not None

    def read(self, name):
        found = self.base.execute("SELECT fence, value FROM fenced_register WHERE name = ?",
                                  (name,)).fetchone()
        return (str(found[0]), found[1]) if found else (None, None)

    def close(self):
        self.base.close()


def each(quorum):
    """(what creates a store, its arguments) of each of them, empty."""
    yield OnRedis, (quorum[0].path,)
    for statement in ("INSERT", "UPDATE"):
        yield OnSqlite, (lab.temporary("base"), statement)


def expect(store, name, fence, value, written):
    before = store.read(name)
    equal(store.write(name, fence, value), written, f"{fence} after {before}: written")
    equal(store.read(name), (str(fence), value) if written else before, f"{fence} after {before}")


def refused_as_none(store, name, fence):
    """An error, and nothing is written."""
    before = store.read(name)
    try:
        store.write(name, fence, "v")
    except (lab.RedisError, sqlite3.IntegrityError):
        equal(store.read(name), before, f"after {fence!r}")
        return
    raise lab.Failed(f"{fence!r} is taken for a token")


@case("an older token is refused, an equal and a newer one are accepted; for each record separately")
def _(quorum):
    for kind, where in each(quorum):
        store = kind(*where)
        for fence, value, written in ((9, "first", True), (10, "newer", True), (9, "old", False),
                                      (10, "again", True), (1, "old", False),
                                      (100, HOSTILE, True), (99, "old", False),
                                      (1735689600123456, "", True), (100, "old", False)):
            expect(store, "r", fence, value, written)
        expect(store, "other", 2, "v", True)
        store.close()


@case("a token that is text is the same number: neither is compared as text")
def _(quorum):
    for kind, where in each(quorum):
        store = kind(*where)
        for fence, written in (("9", True), ("10", True), ("9", False), (11, True), ("10", False)):
            expect(store, "r", fence, f"by {fence}", written)
        store.close()


@case("tokens up to 2^53 - 1 are told apart, each from the next")
def _(quorum):
    for kind, where in each(quorum):
        store = kind(*where)
        for fence, written in ((MOST - 2, True), (MOST - 1, True), (MOST - 2, False),
                               (MOST, True), (MOST - 1, False), (MOST, True)):
            expect(store, "r", fence, f"by {fence}", written)
        store.close()


@case("a malformed token is an error and writes nothing, also in an empty store")
def _(quorum):
    store = OnRedis(quorum[0].path)
    for fence in NO_TOKENS:
        refused_as_none(store, "r", fence)
    equal(quorum.keys(), 0, "records")
    expect(store, "r", 5, "v", True)
    for fence in NO_TOKENS:
        refused_as_none(store, "r", fence)
    expect(store, "r", 5, "again", True)
    for words in ((), ("6",)):  # no value, or not even a token
        try:
            store.redis.call("EVAL", store.script, 1, "r", *words)
            raise lab.Failed(f"{words} are enough")
        except lab.RedisError:
            equal(store.read("r"), ("5", "again"), "the record")
    store.close()
    for statement in ("INSERT", "UPDATE"):
        store = OnSqlite(lab.temporary("base"), statement)
        expect(store, "r", 5, "v", True)
        for fence in ("x", "", "nan", MOST + 1):
            refused_as_none(store, "r", fence)
        expect(store, "r", 5, "again", True)
        store.close()


@case("a record of another kind is left as it is")
def _(quorum):
    store = OnRedis(quorum[0].path)
    quorum[0].call("SET", "r", "text")
    try:
        store.write("r", 5, "v")
        raise lab.Failed("it was overwritten")
    except lab.RedisError as error:
        lab.matches(str(error), "WRONGTYPE", "the error")
    equal(quorum[0].call("GET", "r"), "text", "the old value")
    store.close()


@case("many write at once: each finds its own token or a newer one, and the newest is the last")
def _(quorum):
    prng = random.Random(1)
    for kind, where in each(quorum):
        # About in order, so that the writers with old tokens are not all far too late.
        tokens = sorted(range(MOST - 999, MOST + 1), key=lambda one: one + prng.randrange(20))
        wrong, wrote = [], []

        def work(mine, make=kind, words=where):
            try:
                store = make(*words)
                for fence in mine:
                    written = store.write("r", fence, f"by {fence}")
                    found, value = store.read("r")
                    newest = int(found) >= fence if written else int(found) > fence
                    if not newest or value != f"by {found}":
                        wrong.append((fence, written, found, value))
                    wrote.append(written)
                store.close()
            except Exception as error:  # it would end the thread unnoticed
                wrong.append(repr(error))

        kind(*where).close()  # the table exists before they begin
        threads = [threading.Thread(target=work, args=(tokens[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(wrong, [], f"what went wrong, {where}")
        equal(len(wrote), len(tokens), "writes")
        check(any(wrote) and not all(wrote), "some written, some refused")
        store = kind(*where)
        equal(store.read("r"), (str(MOST), f"by {MOST}"), "the last")
        store.close()


def job(fence, *words):
    env = lab.environment({"REDLOCK_FENCE": fence})
    process = lab.spawn(["sh", os.path.join(EXAMPLES, "fenced_shell.sh"), *words], env=env,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return lab.finish(process)


def tell(store, where, kind):
    """Runs the job in a shell, step by step, and checks the stored values."""
    for fence, value, code, err in ((9, "v", 0, "^$"), (10, HOSTILE, 0, "^$"),
                                    (9, "old", 1, "refused: a later holder"),
                                    (10, "", 0, "^$"), (MOST, "v", 0, "^$"),
                                    (MOST - 1, "old", 1, "refused"), ("x", "v", 2, "."),
                                    ("", "v", 2, "REDLOCK_FENCE"), (None, "v", 2, "is not set")):
        before = store.read("it's")
        job(None if fence is None else str(fence), kind, where, "it's", value).expect(code, err)
        equal(store.read("it's"), before if code else (str(fence), value), f"after {fence}")
    job("5", kind, "/nowhere/at/all", "it's", "v").expect(2)
    job("5", kind, where).expect(2, "usage")
    store.close()


@case("a job in a shell writes to Redis, or is refused")
def _(quorum):
    if shutil.which("redis-cli"):
        tell(OnRedis(quorum[0].path), quorum[0].path, "redis")


@case("a job in a shell writes to SQLite, or is refused")
def _(_quorum):
    if shutil.which("sqlite3"):
        path = lab.temporary("base")
        tell(OnSqlite(path, "INSERT"), path, "sqlite")


@case("under redlock run --fence the job writes, and one that holds an older token is refused")
def _(quorum):
    lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
    shell = os.path.join(EXAMPLES, "fenced_shell.sh")

    def run(*words):
        return lab.redlock("run", "-n", "--fence", "k", "--", *words, env=lab.on(quorum))
    stores = []
    if shutil.which("redis-cli"):
        stores.append(("redis", quorum[0].path, OnRedis(quorum[0].path)))
    if shutil.which("sqlite3"):
        path = lab.temporary("base")
        stores.append(("sqlite", path, OnSqlite(path, "INSERT")))
    for kind, where, store in stores:
        older = run("sh", "-c", "echo $REDLOCK_FENCE").expect(0).out.strip()
        run("sh", shell, kind, where, "r", "one").expect(0, err="^$")
        run("sh", shell, kind, where, "r", "two").expect(0, err="^$")
        fence, value = store.read("r")
        check(value == "two" and int(fence) > int(older), f"{fence} {value} after {older}")
        job(older, kind, where, "r", "old").expect(1, "refused: a later holder")
        equal(store.read("r"), (fence, "two"), "the record")
        store.close()


lab.main(servers=1)

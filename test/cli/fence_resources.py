#!/usr/bin/env python3
"""contrib/fence: Redis, SQLite and PostgreSQL refuse old fencing tokens."""
import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import threading

import lab
import postgresql_server
from lab import case, check, equal, on, wait_for
from postgresql_server import PostgresqlError, quote

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CONTRIB = os.path.join(ROOT, "contrib/fence")
SHELL = os.path.join(ROOT, "docs/examples/fenced_shell.sh")
MOST = 2**53 - 1
NO_TOKENS = ("", "x", "-1", "0", "1.5", "nan", "inf", str(MOST + 1), str(MOST + 2), "9" * 400)
HOSTILE = "it's \"$(x)\" `x` \\ ; -- \n\t%s \u20ac"
TTL = "10m"  # longer than any case takes
RECORD = "CREATE TABLE record (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
FORGET = ("DROP SCHEMA IF EXISTS redlock, public CASCADE", "CREATE SCHEMA public",
          "DROP ROLE IF EXISTS writer")
OTHERS = ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
          "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
REFUSED, RETRY, ABORTED = "RL001", "40001", "25P02"  # SQLSTATE
ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def script(name):
    return lab.read(os.path.join(CONTRIB, name))


# --- the resources; the value that a holder writes names its token ---

class OnRedis:
    NAME, CLIENT, KIND = "Redis", "redis-cli", "redis"
    NO_TOKENS = (*NO_TOKENS, "1e3", "0x10", " 7")
    ERRORS = lab.RedisError

    def __init__(self, where):
        self.redis = lab.Redis(where)
        self.sha = self.redis.call("SCRIPT", "LOAD", script("redis.lua"))

    @staticmethod
    def missing():
        return None

    @staticmethod
    @contextlib.contextmanager
    def resource(quorum):
        yield quorum[0].path

    @staticmethod
    def words(where):
        return where

    def write(self, name, fence, value):
        return self.redis.call("EVALSHA", self.sha, 1, name, fence, value) == 1

    def read(self, name):
        """(fence, value), or (None, None)."""
        return tuple(self.redis.call("HMGET", name, "fence", "value"))

    def close(self):
        self.redis.__exit__()


class OnSqlite:
    NAME, CLIENT, KIND = "SQLite", "sqlite3", "sqlite"
    NO_TOKENS = (*NO_TOKENS, None)
    ERRORS = sqlite3.IntegrityError

    def __init__(self, where):
        self.base = sqlite3.connect(where, timeout=lab.STATE_SECONDS, isolation_level=None)
        self.base.execute("PRAGMA synchronous = OFF")

    @staticmethod
    def missing():
        return None

    @staticmethod
    @contextlib.contextmanager
    def resource(_quorum):
        path = lab.temporary("base")
        with contextlib.closing(sqlite3.connect(path)) as base:
            for _ in range(2):  # it may be run again
                base.executescript(script("sqlite.sql"))
            base.executescript(RECORD)
        yield path

    @staticmethod
    def words(where):
        return where

    def fence(self, name, fence):
        """The token is accepted. The transaction stays open."""
        try:
            self.base.execute("INSERT INTO redlock_fence VALUES (?, ?)", (name, fence))
            return True
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorname != "SQLITE_CONSTRAINT_TRIGGER":
                raise
            return False

    def store(self, name, value):
        self.base.execute("INSERT INTO record VALUES (?, ?) ON CONFLICT (name) "
                          "DO UPDATE SET value = excluded.value", (name, value))

    def write(self, name, fence, value):
        self.base.execute("BEGIN IMMEDIATE")
        try:
            written = self.fence(name, fence)
            if written:
                self.store(name, value)
                self.base.execute("COMMIT")
            return written
        finally:
            if self.base.in_transaction:
                self.base.execute("ROLLBACK")

    def read(self, name):
        found = self.base.execute("SELECT token, value FROM redlock_fence JOIN record "
                                  "ON resource = name WHERE name = ?", (name,)).fetchone()
        return (str(found[0]), found[1]) if found else (None, None)

    def close(self):
        self.base.close()


class OnPostgresql:
    NAME, CLIENT, KIND = "PostgreSQL", "psql", "postgresql"
    NO_TOKENS = (*NO_TOKENS, "0x1p3", None)
    ERRORS = PostgresqlError

    def __init__(self, where, isolation=ISOLATIONS[0]):
        self.session = postgresql_server.Connection(where)
        self.begin = f"BEGIN ISOLATION LEVEL {isolation}"

    @staticmethod
    def missing():
        return None if postgresql_server.find_binaries() else "PostgreSQL"

    server = None  # for all cases: initdb takes longer than they do
    at_end = contextlib.ExitStack()

    @classmethod
    @contextlib.contextmanager
    def resource(cls, _quorum):
        if not cls.server:
            cls.server = cls.at_end.enter_context(postgresql_server.Server())
        with contextlib.closing(cls.server.connect()) as session:
            # An open session may hold what is dropped.
            wait_for(lambda: session.call(OTHERS) == [], "the end of all other sessions")
            for statement in FORGET:
                session.call(statement)
            for _ in range(2):  # it may be run again
                session.call(script("postgresql.sql"))
            session.call(RECORD)
        yield cls.server.folder

    @staticmethod
    def words(where):
        return f"host={where} port={postgresql_server.PORT} user=postgres dbname=postgres"

    @staticmethod
    def fence(name, fence):
        words = ", ".join("NULL" if word is None else quote(word) for word in (name, fence))
        return f"SELECT redlock.fence({words})"

    @staticmethod
    def store(name, value):
        return (f"INSERT INTO record VALUES ({quote(name)}, {quote(value)}) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value")

    def write(self, name, fence, value):
        while True:
            try:
                for statement in (self.begin, self.fence(name, fence), self.store(name, value),
                                  "COMMIT"):
                    self.session.call(statement)
                return True
            except PostgresqlError as error:
                self.session.call("ROLLBACK")
                if error.code == REFUSED:
                    return False
                if error.code != RETRY:
                    raise

    def read(self, name):
        found = self.session.call("SELECT token, value FROM redlock.fences JOIN record "
                                  f"ON resource = name WHERE name = {quote(name)}")
        return tuple(found[0]) if found else (None, None)

    def close(self):
        self.session.close()


KINDS = (OnRedis, OnSqlite, OnPostgresql)


def on_each(text, kinds=KINDS, client=False):
    """A case for each kind of resource; skipped where PostgreSQL or the client is missing."""
    def add(function):
        for kind in kinds:
            missing = kind.missing()
            if client and not missing and not shutil.which(kind.CLIENT):
                missing = kind.CLIENT

            def run(quorum, kind=kind, missing=missing):
                if not missing:
                    with kind.resource(quorum) as where:
                        function(kind, where, quorum)
            note = f" # SKIP {missing} is not installed" if missing else ""
            case(f"{kind.NAME}: {text}{note}")(run)
        return function
    return add


def expect(store, name, fence, value, written):
    before = store.read(name)
    equal(store.write(name, fence, value), written, f"{fence} after {before}: written")
    equal(store.read(name), (str(fence), value) if written else before, f"{fence} after {before}")


def is_no_token(store, name, fence):
    """An error, or refused as smaller than the stored one; nothing is written."""
    before = store.read(name)
    try:
        check(not store.write(name, fence, "v") and before[0], f"{fence!r} is taken for a token")
    except store.ERRORS:
        pass
    equal(store.read(name), before, f"after {fence!r}")


# --- one writer ---

@on_each("an older token is refused, an equal and a newer one are accepted; for each record alone")
def _(kind, where, _quorum):
    store = kind(where)
    for fence, value, written in ((9, "first", True), (10, "newer", True), (9, "old", False),
                                  (10, "again", True), (1, "old", False),
                                  (100, HOSTILE, True), (99, "old", False),
                                  (1735689600123456, "", True), (100, "old", False)):
        expect(store, "r", fence, value, written)
    expect(store, "other", 2, "v", True)
    store.close()


@on_each("a token that is text is the same number: neither is compared as text")
def _(kind, where, _quorum):
    store = kind(where)
    for fence, written in (("9", True), ("10", True), ("9", False), (11, True), ("10", False)):
        expect(store, "r", fence, f"by {fence}", written)
    store.close()


@on_each("tokens up to 2^53 - 1 are told apart, each from the next")
def _(kind, where, _quorum):
    store = kind(where)
    for fence, written in ((MOST - 2, True), (MOST - 1, True), (MOST - 2, False),
                           (MOST, True), (MOST - 1, False), (MOST, True)):
        expect(store, "r", fence, f"by {fence}", written)
    store.close()


@on_each("what is no token writes nothing, and is an error in an empty store")
def _(kind, where, _quorum):
    store = kind(where)
    for fence in store.NO_TOKENS:
        is_no_token(store, "r", fence)
    equal(store.read("r"), (None, None), "the record")
    expect(store, "r", 5, "v", True)
    for fence in store.NO_TOKENS:
        is_no_token(store, "r", fence)
    expect(store, "r", 5, "again", True)
    store.close()


# --- many writers ---

@on_each("many write at once: each finds its own token or a newer one, and the newest is the last")
def _(kind, where, _quorum):
    prng = random.Random(1)
    # About in order, so that the writers with old tokens are not all far too late.
    tokens = sorted(range(MOST - 999, MOST + 1), key=lambda one: one + prng.randrange(20))
    wrong, wrote = [], []

    def work(mine, *more):
        try:
            store = kind(where, *more)
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

    more = ISOLATIONS if kind is OnPostgresql else ()
    threads = [threading.Thread(target=work, args=(tokens[n::4], *more[n:n + 1]))
               for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [], "what went wrong")
    equal(len(wrote), len(tokens), "writes")
    check(any(wrote) and not all(wrote), "some written, some refused")
    store = kind(where)
    equal(store.read("r"), (str(MOST), f"by {MOST}"), "the last")
    store.close()


# --- Redis ---

@on_each("without a value or a token it is an error and writes nothing", [OnRedis])
def _(kind, where, _quorum):
    store = kind(where)
    expect(store, "r", 5, "v", True)
    for words in ((), ("6",)):
        try:
            store.redis.call("EVALSHA", store.sha, 1, "r", *words)
            raise lab.Failed(f"{words} are enough")
        except lab.RedisError:
            equal(store.read("r"), ("5", "v"), "the record")
    store.close()


@on_each("a record of another kind is left as it is", [OnRedis])
def _(kind, where, _quorum):
    store = kind(where)
    store.redis.call("SET", "r", "text")
    try:
        store.write("r", 5, "v")
        raise lab.Failed("it was overwritten")
    except lab.RedisError as error:
        lab.matches(str(error), "WRONGTYPE", "the error")
    equal(store.redis.call("GET", "r"), "text", "the old value")
    store.close()


@on_each("a MULTI that began before the newer write is refused", [OnRedis])
def _(kind, where, _quorum):
    old, new = kind(where), kind(where)
    old.redis.call("MULTI")
    equal(old.redis.call("EVALSHA", old.sha, 1, "r", 5, "old"), "QUEUED", "the old write")
    expect(new, "r", 6, "new", True)
    equal(old.redis.call("EXEC"), [0], "the old write")
    equal(new.read("r"), ("6", "new"), "the record")
    old.close()
    new.close()


# --- SQLite ---

@on_each("a transaction that began before the newer write is refused", [OnSqlite])
def _(kind, where, _quorum):
    old, new = kind(where), kind(where)
    old.base.execute("BEGIN")  # it takes no lock yet
    expect(new, "r", 6, "new", True)
    check(not old.fence("r", 5), "an older token is accepted")
    old.base.execute("ROLLBACK")
    equal(new.read("r"), ("6", "new"), "the record")
    old.close()
    new.close()


@on_each("with a WAL a transaction that has read before the newer write fails", [OnSqlite])
def _(kind, where, _quorum):
    old, new = kind(where), kind(where)
    equal(old.base.execute("PRAGMA journal_mode = WAL").fetchone(), ("wal",), "the mode")
    old.base.execute("BEGIN")
    old.read("r")
    expect(new, "r", 6, "new", True)
    try:
        old.fence("r", 5)
        raise lab.Failed("an older token is accepted")
    except sqlite3.OperationalError as error:
        equal(error.sqlite_errorname, "SQLITE_BUSY_SNAPSHOT", "the error")
    old.base.execute("ROLLBACK")
    expect(old, "r", 5, "old", False)
    old.close()
    new.close()


@on_each("while a transaction is open there is no other; a rollback forgets its token", [OnSqlite])
def _(kind, where, _quorum):
    old, new = kind(where), kind(where)
    for end, written in (("ROLLBACK", True), ("COMMIT", False)):
        new.base.execute("BEGIN IMMEDIATE")
        check(new.fence("r", 6), "6 is refused")
        new.store("r", "new")
        old.base.execute("PRAGMA busy_timeout = 0")
        try:
            old.write("r", 5, "old")
            raise lab.Failed("there are two writers")
        except sqlite3.OperationalError as error:
            equal(error.sqlite_errorname, "SQLITE_BUSY", "the error")
        new.base.execute(end)
        expect(old, "r", 5, "old", written)
    equal(new.read("r"), ("6", "new"), "the record")
    old.close()
    new.close()


@on_each("no conflict clause of the INSERT stores a smaller token, or loses a larger one",
         [OnSqlite])
def _(kind, where, _quorum):
    store = kind(where)
    fence = 10
    for clause in ("INSERT", "INSERT OR IGNORE", "INSERT OR REPLACE", "REPLACE"):
        statement = f"{clause} INTO redlock_fence VALUES ('r', ?)"
        for token in (fence, fence, fence + 1):
            store.base.execute(statement, (token,))
        fence += 1
        try:
            store.base.execute(statement, (fence - 1,))
            raise lab.Failed(f"{clause}: an older token is accepted")
        except sqlite3.IntegrityError as error:
            equal(error.sqlite_errorname, "SQLITE_CONSTRAINT_TRIGGER", clause)
        equal(store.base.execute("SELECT * FROM redlock_fence").fetchall(), [("r", fence)],
              clause)
    store.close()


# --- PostgreSQL ---

def code_of(call, *words):
    """The SQLSTATE of the error; None if there is none."""
    try:
        call(*words)
        return None
    except PostgresqlError as error:
        return error.code


def pairs(kind, where):
    """Two stores at each isolation level, and a record: a new one, and one with token 1."""
    for isolation in ISOLATIONS:
        for known in (False, True):
            first, second = kind(where, isolation), kind(where, isolation)
            name = f"{isolation}, {'known' if known else 'new'}"
            if known:
                expect(first, name, 1, "v", True)
            yield first, second, name, isolation == ISOLATIONS[0]
            first.close()
            second.close()


@on_each("a transaction that began before the newer write is refused", [OnPostgresql])
def _(kind, where, _quorum):
    for old, new, name, is_read_committed in pairs(kind, where):
        old.session.call(old.begin)
        old.read(name)  # takes the snapshot
        expect(new, name, 6, "new", True)
        equal(code_of(old.session.call, old.fence(name, 5)),
              REFUSED if is_read_committed else RETRY, name)
        equal(code_of(old.session.call, old.store(name, "old")), ABORTED, name)
        old.session.call("COMMIT")
        equal(old.session.tag, "ROLLBACK", name)
        expect(old, name, 5, "old", False)
        equal(new.read(name), ("6", "new"), name)


@on_each("of two transactions at once the second waits, and is compared with what the first left",
         [OnPostgresql])
def _(kind, where, _quorum):
    watcher = kind(where).session
    for end, tokens, accepted in (("COMMIT", (6, 5), False), ("COMMIT", (6, 6), True),
                                  ("COMMIT", (5, 6), True), ("ROLLBACK", (6, 5), True)):
        for first, second, pair, is_read_committed in pairs(kind, where):
            name = f"{pair}, {end}, {tokens}"
            for store in (first, second):
                store.session.call(store.begin)
            first.session.call(first.fence(name, tokens[0]))
            first.session.call(first.store(name, "first"))
            second.session.send(second.fence(name, tokens[1]))
            blocked = f"SELECT pg_blocking_pids({second.session.pid})"
            wait_for(lambda: watcher.call(blocked) == [["{%d}" % first.session.pid]],
                     "a transaction that waits for the other")
            first.session.call(end)
            code = code_of(second.session.receive)
            if is_read_committed or end == "ROLLBACK":
                equal(code, None if accepted else REFUSED, name)
            else:
                equal(code, RETRY, name)
            second.session.call("ROLLBACK")
            expect(second, name, tokens[1], "second", accepted)
    watcher.close()


@on_each("a writer needs one right, and cannot change the tokens itself", [OnPostgresql])
def _(kind, where, _quorum):
    owner = kind(where)
    owner.session.call("CREATE USER writer")
    session = postgresql_server.Connection(where, "writer")
    fence = kind.fence("r", 5)
    denied = "42501"
    equal(code_of(session.call, fence), denied, "without the right")
    owner.session.call("GRANT USAGE ON SCHEMA redlock TO writer")
    equal(code_of(session.call, "CREATE TEMP TABLE fences (resource text PRIMARY KEY, "
                                "token bigint)"), None, "a table of the same name")
    session.call(fence)
    for statement in ("UPDATE redlock.fences SET token = 1", "DELETE FROM redlock.fences",
                      "INSERT INTO redlock.fences VALUES ('s', 1)"):
        equal(code_of(session.call, statement), denied, statement)
    equal(owner.session.call("SELECT * FROM redlock.fences"), [["r", "5"]], "the tokens")
    equal(code_of(session.call, kind.fence("r", 4)), REFUSED, "an older token")
    session.close()
    owner.close()


# --- jobs in a shell ---

def job(fence, *words):
    env = lab.environment({"REDLOCK_FENCE": fence})
    process = lab.spawn(["sh", SHELL, *words], env=env, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE)
    return lab.finish(process)


@on_each("a job in a shell writes, or is refused", client=True)
def _(kind, where, _quorum):
    store, words = kind(where), (kind.KIND, kind.words(where), "it's")
    for fence, value, code, err in ((9, "v", 0, "^$"), (10, HOSTILE, 0, "^$"),
                                    (9, "old", 1, "refused: a later holder"),
                                    (10, "", 0, "^$"), (MOST, "v", 0, "^$"),
                                    (MOST - 1, "old", 1, "refused"), ("x", "v", 2, "."),
                                    ("", "v", 2, "REDLOCK_FENCE"), (None, "v", 2, "is not set")):
        before = store.read("it's")
        job(None if fence is None else str(fence), *words, value).expect(code, err)
        equal(store.read("it's"), before if code else (str(fence), value), f"after {fence}")
    job("5", kind.KIND, "/nowhere/at/all", "it's", "v").expect(2)
    job("5", *words).expect(2, "usage")
    store.close()


def page_of(kind):
    """The job in README.md."""
    section = script("README.md").split(f"## {kind.NAME}\n")[1].split("\n## ")[0]
    [found] = re.findall(r"(?:^    .*\n)+", section, re.M)
    return re.sub("^    ", "", found, flags=re.M)


@on_each("the job in README.md writes, and is refused after a newer token", client=True)
def _(kind, where, quorum):
    lab.redlock("admit", "--new", "--at-once", env=on(quorum)).expect(0)
    folder = os.path.dirname(lab.temporary("job"))
    lab.write(os.path.join(folder, "job.sh"), page_of(kind))
    shutil.copy(os.path.join(CONTRIB, "redis.lua"), folder)
    env = on(quorum)
    if kind is OnRedis:  # otherwise it uses a port
        wrapper = f"#!/bin/sh\nexec {shutil.which('redis-cli')} -s {where} \"$@\"\n"
        lab.write(os.path.join(folder, "redis-cli"), wrapper, mode=0o700)
        env["PATH"] = f"{folder}:{os.environ['PATH']}"
    if kind is OnSqlite:
        os.symlink(where, os.path.join(folder, "report.db"))
    if kind is OnPostgresql:
        env.update(PGHOST=where, PGPORT=str(postgresql_server.PORT), PGUSER="postgres")
    store = kind(where)
    if kind is not OnRedis:
        execute = store.base.execute if kind is OnSqlite else store.session.call
        execute("CREATE TABLE report (total INTEGER)")
        execute("INSERT INTO report VALUES (0)")

    def run():
        return lab.redlock("run", "--fence", "report", "--", "sh", "./job.sh", env=env, cwd=folder)

    def content():
        if kind is OnRedis:
            return store.redis.call("HGET", "report:total", "value")
        return [int(row[0]) for row in execute("SELECT total FROM report")]
    for total in (1, 2):
        run().expect(0)
        equal(content(), "a new value" if kind is OnRedis else [total], "what it wrote")
    store.write("report:total" if kind is OnRedis else "report", MOST, "newer")
    before = content()
    check(run().code != 0, "the job was not refused")
    equal(content(), before, "after a refusal")
    store.close()


@on_each("a holder that was stopped until another had the lock is refused when it goes on",
         client=True)
def _(kind, where, quorum):
    lab.redlock("admit", "--new", "--at-once", "--max-ttl", TTL, env=on(quorum)).expect(0)
    ready, gate = lab.temporary("ready"), lab.temporary("gate")
    os.mkfifo(gate)
    write = ("sh", SHELL, kind.KIND, kind.words(where), "r")
    # Without a child: one that ends beside a stopped parent would never stand still.
    wait = 'echo $$ $REDLOCK_FENCE >"$1"; read -r _ <"$2"; shift 2; exec "$@"'
    holder = lab.start("run", "-n", "-t", TTL, "--fence", "k", "--", "sh", "-c", wait, "sh",
                       ready, gate, *write, "old", env=on(quorum))
    wait_for(lambda: os.path.exists(ready) and lab.read(ready), "a job that is about to write")
    pid, older = map(int, lab.read(ready).split())
    stopped = list(lab.marked())  # redlock, its keeper and the job
    check({holder.pid, pid} < set(stopped), f"{holder.pid} and {pid} are not in {stopped}")
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
    wait_for(lambda: all(lab.state(one) == "T" for one in stopped), "a holder that stands still")
    quorum[0].call("PEXPIRE", "k", 1)  # the end of its TTL

    store = kind(where)
    for value in ("new", "again"):
        lab.redlock("run", "-w", "1m", "--fence", "k", "--", *write, value,
                    env=on(quorum)).expect(0, err="^$")
    newer, _ = found = store.read("r")
    check(int(newer) > older and found[1] == "again", f"{found} after {older}")

    os.kill(pid, signal.SIGCONT)
    with open(gate, "w", encoding="ascii") as words:
        words.write("go\n")
    wait_for(lambda: not lab.is_alive(pid), "the end of the old job")
    equal(store.read("r"), found, "the record")
    store.close()
    for one in stopped:
        with contextlib.suppress(ProcessLookupError):  # redlock ends the others
            os.kill(one, signal.SIGCONT)
    check("r: refused: a later holder of the lock has written" in lab.finish(holder).err,
          "the old job was not refused")


with OnPostgresql.at_end:
    lab.main(servers=1)

#!/usr/bin/env python3
"""redlock list: all locks on the nodes."""
import json
import re
import signal
import sys
import time
import unicodedata

import lab
from lab import PATIENT, case, check, equal, on, redlock

TOKEN = "p" + "abcdefgh" * 4 + "@someone:1"


def listed(quorum, *words, code=0):
    """{key: row}"""
    outcome = redlock("list", *PATIENT, "--json", *words, env=on(quorum)).expect(code)
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    equal(len({row["key"] for row in rows}), len(rows), "a key is there twice")
    return {row["key"]: row for row in rows}


def acquire(quorum, *words):
    redlock("acquire", *PATIENT, "-n", "-t", "10m", *words, env=on(quorum)).expect(0)


@case("each kind of lock has a row, with its holder; a lock of several keys has one")
def _(quorum):
    redlock("admit", *PATIENT, "--new", "--at-once", "--max-ttl", "10m", env=on(quorum)).expect(0)
    for words in (["plain"], ["--fence", "fenced"], ["--shared", "read"], ["--shared", "read"],
                  ["--redisson", "java"], ["--slots", "2", "pool"], ["--slots", "2", "pool"],
                  ["--and", "b", "--and", "c", "a"], ["--fence", "--and", "y", "x"]):
        acquire(quorum, *words)
    outcome = redlock("list", *PATIENT, "--json", env=on(quorum)).expect(0)
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    found = sorted((row["key"], row["kind"], row["fenced"], row["slot"], row["readers"]) for row in rows
                   if "keys" not in row)
    equal(found, [("fenced", "exclusive", True, None, 0), ("java", "redisson", False, None, 0),
                  ("plain", "exclusive", False, None, 0), ("pool", "slot", False, 1, 0),
                  ("pool", "slot", False, 2, 0), ("read", "shared", False, None, 2)], "rows")
    equal(sorted((row["key"], row["keys"], row["kind"], row["fenced"]) for row in rows[-2:]),
          [("a", ["a", "b", "c"], "set", False), ("x", ["x", "y"], "set", True)],
          "the last rows")
    for row in rows:
        equal((row["state"], row["agreeing"], row["node_count"], row["waiting"]), ("held", 5, 5, 0),
              row["key"])
        check(0 < row["remaining_ms"] <= 600000, row)
        lab.matches(row["holder"], r":\d+$", "holder")
        equal(row["fence"] is not None, row["fenced"], "a fence")


@case("since when a lock is held, by its holder's clock; an extension changes nothing")
def _(quorum):
    before = int(time.time()) * 1000
    for words in (["k"], ["--shared", "s"], ["--and", "b", "a"], ["--slots", "2", "pool"],
                  ["--redisson", "java"]):
        acquire(quorum, *words)
    token = redlock("acquire", *PATIENT, "-n", "-t", "1m", "held", env=on(quorum)).expect(0).out.strip()
    after = time.time() * 1000
    for server in quorum.servers:
        server.call("SET", "old", TOKEN, "PX", 600000)
        server.call("SET", "random", "p" + "q" * 32, "PX", 600000)
    rows = listed(quorum, "--foreign")
    unknown = [rows.pop(key)["since_ms"] for key in ("old", "random")]
    equal(unknown, [None, None], "of a token without a time")
    for row in rows.values():
        check(before <= row["since_ms"] <= after, f"{before} {after} {row}")
    lab.wait_for(lambda: int(time.time()) * 1000 > rows["held"]["since_ms"], "another second")
    redlock("extend", *PATIENT, "-t", "10m", "held", env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    equal(listed(quorum)["held"]["since_ms"], rows["held"]["since_ms"], "after an extension")
    status = json.loads(redlock("status", *PATIENT, "--json", "held", env=on(quorum)).expect(0).out)
    equal(status["since_ms"], rows["held"]["since_ms"], "status")
    shown = redlock("list", *PATIENT, env=on(quorum)).expect(0).out
    lab.matches(shown, r"(?m)^held +\S+ +\d\S*s +0 +9m\d+s ", "its age")
    lab.matches(shown, r"(?m)^old +\S+ +\? +0 +9m\d+s ", "an unknown age")


@case("an election and a record have kinds of their own")
def _(quorum):
    redlock("admit", *PATIENT, "--new", "--at-once", "--max-ttl", "10m", env=on(quorum)).expect(0)
    acquire(quorum, "--fence", "--slots", "2", "pool")
    leader = lab.start("elect", *PATIENT, "job", "--", "sleep", "1000", env=on(quorum))
    lab.wait_for(lambda: "job" in listed(quorum), "a leader")
    redlock("run", *PATIENT, "--once-per", "1d", "--once-id", "x", "daily", "true",
            env=on(quorum)).expect(0)
    equal({key: (row["kind"], row["fenced"]) for key, row in listed(quorum).items()},
          {"pool": ("slot", True), "job": ("election", True), "daily@x": ("record", False)},
          "kinds")
    leader.terminate()
    lab.finish(leader)


@case("a row has 80 columns, unless the key and its holder are too long for that")
def _(quorum):
    for key, value, hours in (("backup", TOKEN, 1), ("nightly-reports@20417", TOKEN, 1488),
                              ("deploy", TOKEN + "234:4711", 23), ("x" * 70, TOKEN, 99),
                              ("other", "value", 8000)):
        for server in quorum.servers:
            server.call("SET", key, value, "PX", hours * 3600000)
    head, *rows = redlock("list", *PATIENT, "--foreign", env=on(quorum)).expect(0).out.splitlines()
    columns = {row.split()[0]: len(row) for row in rows}
    equal(columns, {"backup": 80, "nightly-reports@20417": 80, "deploy": 80, "x" * 70: 122,
                    "other": 78}, "columns")
    equal(len(head), 75, head)


@case("what is split, orphaned or foreign is marked; a key on any node is found")
def _(quorum):
    for index in range(5):
        quorum[index].call("SET", "split", f"{TOKEN}{index % 3}", "PX", 600000)
    quorum[3].call("SET", "orphan", TOKEN, "PX", 600000)
    quorum[4].call("SET", "orphan", TOKEN, "PX", 600000)
    for index in range(4):
        quorum[index].call("SET", "held", TOKEN, "PX", 600000)
        quorum[index].call("SET", "beside", TOKEN if index else "someone's", "PX", 600000)
    quorum[0].call("SET", "foreign", "someone's", "PX", 600000)
    quorum[0].call("RPUSH", "list", "1")
    rows = listed(quorum)
    equal({key: (row["state"], row["agreeing"]) for key, row in rows.items()},
          {"split": ("split", 2), "orphan": ("orphaned", 2), "held": ("held", 4),
           "beside": ("held", 3)}, "rows")
    equal({key for key, row in listed(quorum, "--foreign").items() if row["state"] == "foreign"},
          {"foreign", "list"}, "foreign keys")
    equal(set(listed(quorum, "l")), {"list"}, "with a prefix")


@case("a prefix is no pattern; that of the client is left out")
def _(quorum):
    for key in ("a*b", "axb", "a[1]", "other"):
        acquire(quorum, key)
        acquire(quorum, "--prefix", "us:", key)
    equal(set(listed(quorum, "a*")), {"a*b"}, "keys")
    equal(set(listed(quorum, "a[")), {"a[1]"}, "keys")
    equal(set(listed(quorum, "--prefix", "us:")), {"a*b", "axb", "a[1]", "other"}, "keys")
    equal(len(listed(quorum)), 8, "keys")


@case("many locks, and keys as long as they may be; others are left out")
def _(quorum):
    names = [f"job:{i}:" + "x" * (i % 500) for i in range(2000)]
    for server in quorum.servers:
        server.call("EVAL", "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, "
                    "'PX', '600000') end", len(names), *names, TOKEN)
        for key in ("y" * 2000, ""):  # no lock can have these
            server.call("SET", key, TOKEN, "PX", 600000)
    equal(set(listed(quorum)), set(names), "keys")
    for server in quorum.servers:
        server.call("SET", "job:" + "z" * 5000, "large")
    equal(set(listed(quorum, "--foreign")), set(names), "keys")


@case("keys that the first node lacks, of which the names of a page just have room or not")
def _(quorum):
    nodes = ",".join(server.uri for server in quorum.servers[:2])
    for least in (12, 58, 60, 62, 64):
        names = [f"job:{i}:" + "x" * (least + i * 37 % 40) for i in range(1000)]
        quorum[1].call("FLUSHALL")
        quorum[1].call("EVAL", "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, "
                       "'PX', '600000') end", len(names), *names, TOKEN)
        equal(set(listed(quorum, "--nodes", nodes)), set(names), "keys")


@case("long keys are there once while the nodes rehash")
def _(quorum):
    names = [f"job:{i}:" + "x" * 490 for i in range(1100)]
    for server in quorum.servers:
        server.call("CONFIG", "SET", "activerehashing", "no")
        server.call("EVAL", "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, "
                    "'PX', '600000') end", len(names), *names, TOKEN)
    equal(set(listed(quorum)), set(names), "keys")


@case("what a node scanned before has is asked for page by page, not key by key")
def _(quorum):
    names = [f"job:{i}" for i in range(2000)]
    for server in quorum.servers:
        server.call("EVAL", "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, "
                    "'PX', '600000') end", len(names), *names, TOKEN)
        server.call("CONFIG", "RESETSTAT")
    equal(len(listed(quorum)), len(names), "keys")
    for server in quorum.servers:
        stats = server.call("INFO", "commandstats")
        calls = {name: int(count) for name, count in
                 re.findall(r"^cmdstat_(\w+):calls=(\d+)", stats, re.MULTILINE)}
        check(calls.get("exists", 0) + calls["scan"] < len(names) / 2, stats)


@case("locks whose readers fill a reply each, and a key that only the last node has")
def _(quorum):
    until = int(time.time() * 1000) + 600000
    for server in quorum.servers:
        for key in range(20):
            for reader in range(30):
                server.call("ZADD", f"read:{key:02}", until,
                            "s" + "ab" * 15 + "cdefghij"[key % 8] + "abcdefgh"[reader % 8] +
                            f"@{reader:064}")
            server.call("PEXPIRE", f"read:{key:02}", 600000)
            server.call("SET", f"plain:{key:02}", TOKEN, "PX", 600000)
    quorum[4].call("SET", "last", TOKEN, "PX", 600000)
    rows = listed(quorum)
    equal({key: (row["state"], row["agreeing"], row["readers"]) for key, row in rows.items()},
          {f"read:{key:02}": ("held", 5, 30) for key in range(20)} |
          {f"plain:{key:02}": ("held", 5, 0) for key in range(20)} | {"last": ("orphaned", 1, 0)},
          "rows")


@case("keys are whole, also with a NUL; what is invisible or turns the text is escaped")
def _(quorum):
    hidden = [chr(point) for point in range(sys.maxunicode)
              if unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp")]
    names = [f"k{c}z" for c in hidden] + ["a", "a\0b", "a\0c", "\u00fc"]
    for server in quorum.servers:
        for name in (*names, b"a\xc0\x80b"):
            server.call("SET", name, TOKEN, "PX", 600000)
    outcome = redlock("list", *PATIENT, "--json", env=on(quorum)).expect(0)
    equal({json.loads(line)["key"] for line in outcome.out.split("\n")[:-1]},
          {*names, "a\\xc0\\x80b"}, "keys")
    shown = redlock("list", *PATIENT, env=on(quorum)).expect(0).out
    equal(set(outcome.out + shown) & set(hidden), {"\n"}, "what is not escaped")
    for name in ("a\\x00b ", "k\\xe2\\x80\\xaez ", "k\\xc2\\x85z ", "a\\xc0\\x80b ", "\u00fc "):
        check(f"\n{name}" in shown, f"{name!r} in {shown!r}")


@case("who waits is counted, and for how long the first of them has waited")
def _(quorum):
    acquire(quorum, "k")
    equal(listed(quorum)["k"]["waited_ms"], None, "nobody waits")
    waiters, begun = [], []
    for count in (1, 2):
        begun.append(time.monotonic())
        waiters.append(lab.start("run", *PATIENT, "k", "--", "true", env=on(quorum)))
        lab.wait_for(lambda: listed(quorum)["k"]["waiting"] == count, "a waiter")
    asked = time.monotonic()
    first = listed(quorum)["k"]["waited_ms"]
    check((asked - begun[1]) * 1000 - 1 < first < (time.monotonic() - begun[0]) * 1000 + 1,
          f"{first} {begun}")
    lab.wait_for(lambda: listed(quorum)["k"]["waited_ms"] > first + 500, "more time")
    lab.matches(redlock("list", *PATIENT, env=on(quorum)).expect(0).out,
                r"(?m)^k +\S+ +\d\S*s +2 +9m\d+s .* \d\S*s exclusive$", "the table")
    for waiter in waiters:
        waiter.terminate()
        lab.finish(waiter).expect(143)


@case("with too few nodes it says that locks may be missing; a user without the right is refused")
def _(quorum):
    acquire(quorum, "k")
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "weak", "on", "nopass", "~*", "&*", "+@all", "-scan")
    redlock("list", *PATIENT, "--user", "weak", env=on(quorum, REDLOCK_PASSWORD="x")).expect(
        77, err="check --acl --list")
    quorum.kill(0, 1)
    equal(set(listed(quorum)), {"k"}, "keys")
    quorum.kill(2)
    outcome = redlock("list", *PATIENT, "--json", env=on(quorum)).expect(69, err="may be missing")
    equal([json.loads(line)["state"] for line in outcome.out.splitlines()], ["unknown"], "rows")


@case("whether a key is held that a silent node may decide is unknown: null, and 69")
def _(quorum):
    acquire(quorum, "all")
    quorum[2].call("SET", "one", TOKEN, "PX", 600000)
    for index in (0, 2, 3):
        quorum[index].call("SET", "three", TOKEN, "PX", 600000)
    for index in range(1, 4):
        quorum[index].call("SET", "each", f"{TOKEN}{index}", "PX", 600000)
    rows = listed(quorum)
    equal({key: row["held"] for key, row in rows.items()},
          {"all": True, "one": False, "three": True, "each": False}, "all nodes reply")
    quorum.kill(0)
    rows = listed(quorum, code=69)
    equal({key: (row["state"], row["held"]) for key, row in rows.items()},
          {"all": ("held", True), "one": ("orphaned", False), "three": ("unknown", None),
           "each": ("split", False)}, "one node is down")
    outcome = redlock("list", *PATIENT, env=on(quorum)).expect(69, err="^redlock: list: of 1 key it ")
    check("unknown: someone:1" in outcome.out, outcome.out)
    quorum[2].call("DEL", "three")
    quorum[3].call("DEL", "three")
    equal(set(listed(quorum)), {"all", "one", "each"}, "the others agree")


@case("an unknown lock whose nodes are all connected: no node is said to have failed")
def _(quorum):
    for index, server in enumerate(quorum.servers):
        server.call("ACL", "SETUSER", "weak", "on", "nopass", "~*" if index else "~other", "&*", "+@all")
        if index in (0, 2, 3):
            server.call("SET", "k", TOKEN, "PX", 600000)
    redlock("list", *PATIENT, "--user", "weak", env=on(quorum, REDLOCK_PASSWORD="x")).expect(
        69, err="^redlock: list: of 1 key it is unknown whether it is held: too few nodes replied\n$")


@case("a user with the rights that check prints for it lists all")
def _(quorum):
    acquire(quorum, "--redisson", "java")
    acquire(quorum, "k")
    rule = redlock("check", *PATIENT, "--acl", "--list", "--user", "lister",
                   env=on(quorum)).expect(0).out.replace("SECRET", "x").split()
    for server in quorum.servers:
        equal(server.call(*rule), "OK", "ACL SETUSER")
    outcome = redlock("list", *PATIENT, "--json", "--user", "lister",
                      env=on(quorum, REDLOCK_PASSWORD="x")).expect(0)
    equal({json.loads(line)["kind"] for line in outcome.out.splitlines()}, {"exclusive", "redisson"},
          "kinds")


@case("output that nobody reads any more ends it")
def _(quorum):
    acquire(quorum, "k")
    process = lab.start("list", *PATIENT, env=on(quorum))
    process.stdout.close()
    equal(process.wait(lab.END_SECONDS), 128 + signal.SIGPIPE, "exit code")
    equal(process.stderr.read().decode(), "", "stderr")


lab.main()

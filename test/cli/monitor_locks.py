#!/usr/bin/env python3
"""redlock monitor: /api/locks, and the locks in /metrics."""
import json
import time

import lab
from lab import PATIENT, case, check, equal, on, redlock
from monitoring import Monitor

TOKEN = "p" + "abcdefgh" * 4 + "@"
VOLATILE = ("schema", "remaining_ms", "since_ms", "seen_ms")


def acquire(quorum, *words):
    redlock("acquire", *PATIENT, "-n", "-t", "10m", *words, env=on(quorum)).expect(0)


def fill(quorum, locks):
    """{key: holder} as if others had taken them."""
    for server in quorum.servers:
        for key, holder in locks.items():
            server.call("SET", key, TOKEN + holder, "PX", 600000)


def scanned(monitor, until=lambda answer: True, **query):
    """An answer of a whole scan."""
    return lab.wait_for(
        lambda: (answer := monitor.json("locks", **query))["scanned_ago_ms"] is not None
        and until(answer) and answer, "a scan")


def keys(answer):
    return [row["key"] for row in answer["locks"]]


def stable(rows):
    return sorted(({name: value for name, value in row.items() if name not in VOLATILE}
                   for row in rows), key=lambda row: (row["key"], row["slot"] or 0))


@case("each lock that list finds, with its kind, its holder and since when")
def _(quorum):
    redlock("admit", *PATIENT, "--new", "--at-once", "--max-ttl", "10m", env=on(quorum)).expect(0)
    for words in (["plain"], ["--fence", "fenced"], ["--shared", "read"], ["--shared", "read"],
                  ["--redisson", "java"], ["--slots", "2", "pool"], ["--slots", "2", "pool"],
                  ["--and", "b", "--and", "c", "a"], ["--fence", "--and", "y", "x"]):
        acquire(quorum, *words)
    quorum[3].call("SET", "orphan", TOKEN + "k", "PX", 600000)
    quorum[3].call("SET", "foreign", "1", "PX", 600000)
    listed = redlock("list", *PATIENT, "--json", env=on(quorum)).expect(0).out
    rows = [json.loads(line) for line in listed.splitlines()]
    with Monitor(quorum) as monitor:
        now_ms = time.time() * 1000
        answer = scanned(monitor)
        own = [row for row in answer["locks"] if row["key"].startswith("redlock-monitor:")]
        found = [row for row in answer["locks"] if row not in own]
    equal(stable(found), stable(rows), "rows")
    equal((answer["total"], answer["matched"]), (len(rows) + len(own),) * 2, "how many")
    equal((answer["error"], answer["truncated"], answer["offset"]), (None, False, 0), "the rest")
    for row in found:
        check(0 <= row["remaining_ms"] <= 600000, row)
        check(abs(row["since_ms"] - now_ms) < 600000 and row["seen_ms"] >= row["since_ms"], row)


@case("a lock that a silent node may decide is unknown, on the page and in /metrics")
def _(quorum):
    fill(quorum, {"job:a": "x"})
    for index in (0, 1, 2):
        quorum[index].call("SET", "job:b", TOKEN + "y", "PX", 600000)
    quorum.kill(0)
    with Monitor(quorum) as monitor:
        answer = scanned(monitor, prefix="job:")
        equal([(row["key"], row["state"], row["held"]) for row in answer["locks"]],
              [("job:a", "held", True), ("job:b", "unknown", None)], "rows")
        lab.matches(answer["error"], "of 1 key it is unknown", "error")
        equal(monitor.metrics("redlock_locks")['prefix="job:",state="unknown"'], 1,
              "metric")


@case("order, pages, filter and prefix")
def _(quorum):
    fill(quorum, {f"job:{index}": f"host:{9 - index}" for index in range(9)} | {"b": "x", "a": "job"})
    with Monitor(quorum) as monitor:
        jobs = [f"job:{index}" for index in range(9)]
        equal(keys(scanned(monitor, prefix="job:")), jobs, "by key")
        for query, expected in (
                ({"sort": "key", "desc": 1}, jobs[::-1]), ({"sort": "holder"}, jobs[::-1]),
                ({"sort": "kind"}, jobs), ({"offset": 2, "limit": 3}, jobs[2:5]),
                ({"offset": 100}, []), ({"limit": 0}, []), ({"filter": "b:3"}, ["job:3"]),
                ({"sort": "remaining", "desc": 0, "filter": "host:5"}, ["job:4"]),
                ({"filter": "%"}, [])):
            answer = monitor.json("locks", prefix="job:", **query)
            equal(keys(answer), expected, str(query))
            equal(answer["matched"], 9 if "filter" not in query else len(expected), str(query))
        equal(keys(monitor.json("locks", filter="job")), ["a", *jobs], "key or holder")
        counts = {one["prefix"]: one["locks"] for one in answer["prefixes"]}
        equal((counts["job:"], counts[""]), (9, 2), "prefixes")


@case("its holder's time goes on from scan to scan, and begins with another holder")
def _(quorum):
    fill(quorum, {"k": "one", "l": "one"})
    with Monitor(quorum) as monitor:
        first = scanned(monitor, filter="one")["locks"]
        fill(quorum, {"l": "two"})
        later = scanned(monitor, lambda answer: any(row["holder"] == "two" for row in answer["locks"]))
        later = {row["key"]: row for row in later["locks"]}
        check(later["k"]["seen_ms"] > first[0]["seen_ms"], f"{first} {later}")
        check(abs(later["k"]["since_ms"] - first[0]["since_ms"]) < 900, f"{first} {later}")
        check(later["l"]["since_ms"] > first[0]["seen_ms"], f"{first} {later}")


def scan_end(answer):
    return answer["at_ms"] - answer["scanned_ago_ms"]


@case("what is looked at is asked again while the scan rests: extended, released, another holder, a set")
def _(quorum):
    fill(quorum, {f"job:{index:04}": "host" for index in range(3000)} | {f"a{index}": "host" for index in range(4)})
    acquire(quorum, "--and", "z", "y")
    with Monitor(quorum) as monitor:
        def changed(act, is_shown, what):
            """Shown by an answer of the same scan as the one before the change."""
            for _ in range(20):
                before = scanned(monitor)
                act()
                after = scanned(monitor, lambda answer: is_shown({row["key"]: row for row in answer["locks"]}))
                if abs(scan_end(after) - scan_end(before)) < 100:
                    return
            lab.fail(f"{what}: only the next scan shows it")
        times = iter(range(700000, 10000000, 100000))

        def extend():
            extend.ms = next(times)
            for server in quorum.servers:
                server.call("PEXPIRE", "a0", extend.ms)
        changed(extend, lambda rows: rows["a0"]["remaining_ms"] > extend.ms - 50000, "an extension")
        holders = iter(f"other{index}" for index in range(100))

        def hand_over():
            hand_over.to = next(holders)
            fill(quorum, {"a1": hand_over.to})
        changed(hand_over, lambda rows: rows["a1"]["holder"] == hand_over.to, "another holder")
        keys_left = iter(("a2", "a3", *(f"job:{index:04}" for index in range(80))))

        def release():
            release.key = next(keys_left)
            for server in quorum.servers:
                server.call("DEL", release.key)
        changed(release, lambda rows: release.key not in rows or (
            rows[release.key]["state"], rows[release.key]["holder"]) == ("free", None), "a release")

        def extend_set():
            extend.ms = next(times)
            for server in quorum.servers:
                for key in "y", "z":
                    server.call("PEXPIRE", key, extend.ms)

        def is_extended(_):
            [row] = monitor.json("locks", filter="y", sort="kind", desc=1)["locks"][:1]
            equal(row["keys"], ["y", "z"], "a set")
            return row["remaining_ms"] > extend.ms - 50000
        changed(extend_set, is_extended, "an extension of a set")


@case("a key with a NUL, or with a byte 0xc0, is asked again by its own name")
def _(quorum):
    fill(quorum, dict.fromkeys([b"job:\0", b"job:a\0b", b"job:a\xc0b", b"job:a\xc0\x80"], "host"))
    with Monitor(quorum) as monitor:
        answer = scanned(monitor, lambda answer: len(answer["locks"]) == 4 and all(
            row["seen_ms"] > scan_end(answer) + 100 for row in answer["locks"]), prefix="job:")
    equal({row["key"]: (row["state"], row["holder"], row["agreeing"]) for row in answer["locks"]},
          dict.fromkeys(("job:\0", "job:a\0b", r"job:a\xc0b", r"job:a\xc0\x80"), ("held", "host", 5)), "rows")


@case("the metrics have the locks by prefix and state")
def _(quorum):
    fill(quorum, {"job:1": "x", "job:2": "y", 'q"\\\n:': "x", "k": "x"})
    quorum[0].call("SET", "job:3", TOKEN + "x", "PX", 600000)
    with Monitor(quorum) as monitor:
        found = lab.wait_for(lambda: monitor.metrics("redlock_locks"), "locks in the metrics")
    found = {labels: count for labels, count in found.items() if "monitor" not in labels}
    equal(found, {'prefix="job:",state="held"': 2, 'prefix="job:",state="orphaned"': 1,
                  'prefix="",state="held"': 1, r'prefix="q\"\\\n:",state="held"': 1}, "metrics")


@case("a query that is wrong is refused, with the reason")
def _(quorum):
    with Monitor(quorum) as monitor:
        for query in ({"sort": "colour"}, {"sort": ""}, {"desc": 2}, {"desc": "yes"}, {"offset": -1},
                      {"offset": 200001}, {"offset": "1e3"}, {"limit": 1001}, {"limit": ""},
                      {"limit": "9" * 40}, {"limit": " 1"}):
            status, text = monitor.get("/api/locks", **query)
            equal(status, 400, str(query))
            lab.matches(json.loads(text)["error"], list(query)[0], str(query))


@case("without a quorum it says so, shows the locks of before, and no metrics of them")
def _(quorum):
    fill(quorum, {"k": "x"})
    with Monitor(quorum) as monitor:
        lab.wait_for(lambda: monitor.metrics("redlock_locks"), "locks in the metrics")
        quorum.kill(0, 1, 2)
        answer = scanned(monitor, lambda answer: answer["error"], filter="x")
        lab.matches(answer["error"], "locks may be missing: 3 of 5 nodes failed", "error")
        check(answer["locks"][0]["state"] in ("held", "unknown"), answer)
        answer = scanned(monitor, lambda answer: answer["locks"][0]["state"] == "unknown", filter="x")
        equal([(row["key"], row["holder"]) for row in answer["locks"]], [("k", "x")], "rows")
        equal(monitor.metrics("redlock_locks"), {}, "metrics")
        quorum.start()
        scanned(monitor, lambda answer: not answer["error"])


@case("a user without the right to list is named")
def _(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "weak", "on", "nopass", "~*", "&*", "+@all", "-scan")
    with Monitor(quorum, "--user", "weak", REDLOCK_PASSWORD="x") as monitor:
        answer = lab.wait_for(lambda: (answer := monitor.json("locks"))["error"] and answer, "an error")
        lab.matches(answer["error"], "the user lacks a right", "error")
        equal((answer["scanned_ago_ms"], answer["locks"]), (None, []), "rows")


lab.main()

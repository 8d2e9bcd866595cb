#!/usr/bin/env python3
"""redlock bench: what it counts and computes, and that it leaves nothing."""
import csv
import itertools
import json
import math
import os
import pty
import re
import signal

import lab
from benching import (NO_QUORUM, DENIED, USAGE, CONFIG, FAILED, LATENCY, SHARES, PATIENT,
                     HANGING, PROGRESS, QUICK, bench, measure, sound, hang, nothing_is_stored,
                     page_data, served, Running)
from lab import case, check, equal, matches, on, redlock


# --- the numbers, against each cycle ---

def close(told, exact, what):
    """Never below, and above by less than one part in 1024; exact if nothing was seen."""
    if exact is None:
        equal(told, None, what)
    else:
        check(exact <= told and (told == exact or (told - exact) * 1024 < exact),
              f"{what}: {told} instead of {exact}")


def percentiles(told, values, what):
    values = sorted(values)
    for name, share in zip(LATENCY, SHARES):
        rank = max(math.ceil(round(share * len(values), 6)), 1)
        close(told[name], values[rank - 1] if values else None, f"{name} of {what}")


def latency(word):
    """In a row: how long the node took, None if it did not grant; that time is unknown."""
    return int(word) if word.isdigit() else math.inf if word == "ready" else None


def model(told, values, what):
    """`values` has None for a lock that would not have been held."""
    held = [value for value in values if value is not None]
    percentiles(told, [value for value in held if value != math.inf], what)
    missing = (len(values) - len(held)) / len(values)
    check(abs(told["not_held_share"] - missing) < 1e-9, f"not held of {what}: {told}")


def qth(latencies, needed):
    """Counts nodes that granted; None if too few did."""
    granted = sorted(one for one in latencies if one is not None)
    return granted[needed - 1] if len(granted) >= needed else None


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    equal(rows[0][:7], ["begun_us", "lane", "acquired", "acquire_us", "valid_ms", "released",
                        "release_us"], "head")
    return rows[0][7:], rows[1:]


def failing(came, end):
    """[sum, longest] of the outages; `came`: (when, whether), in order."""
    gaps, last, failed = [0], 0, False
    for at, whether in came:
        if whether and failed:
            gaps.append(at - last)
        failed = not whether
        last = at if whether else last
    return [sum(gaps) + failed * (end - last), max(*gaps, 0, failed * (end - last))]


def compare_failing(found, rows):
    """For one worker, whose cycles follow each other."""
    def equals(told, came):
        exact = failing(came, found["elapsed_ms"] * 1000)
        for one, other in zip([told["failing_ms"], told["failing_longest_ms"]], exact):
            check(abs(one - other / 1000) <= 1, f"{one} ms without, not {other} us: {told}")
    begun = [int(row[0]) for row in rows]
    ended = [int(row[0]) + int(row[3]) for row in rows]
    equals(found, [(at, row[2] == "ok") for at, row in zip(ended, rows)])
    for index, node in enumerate(found["nodes"]):
        words = [row[7 + index] for row in rows]
        equals(node, [(began + int(word), True) if word.isdigit() else (end, False)
                      for began, end, word in zip(begun, ended, words) if word != "ready"])


def compare(found, path):
    """Checks that every reported number follows from the rows."""
    names, rows = read_rows(path)
    equal(names, [node["uri"] for node in found["nodes"]], "names")
    equal(len(rows), found["cycles"], "rows")
    held = [row for row in rows if row[2] == "ok"]
    equal(len(held), found["held"], "rows that were held")
    percentiles(found["acquire"], [int(row[3]) for row in held], "acquire")
    percentiles(found["release"], [int(row[6]) for row in held if row[5] == "ok"], "release")
    if held:
        equal(found["validity"]["least_ms"], min(int(row[4]) for row in held), "validity")
    if found["lanes"] == 1:
        compare_failing(found, rows)
    latencies = [[*map(latency, row[7:])] for row in rows]
    for row in rows:
        grants = sum(word.isdigit() for word in row[7:])
        equal(row[2] == "ok", grants >= found["quorum"], f"held, by the grants of {row}")
    for index, node in enumerate(found["nodes"]):
        words = [row[7 + index] for row in rows]
        for name in ("refused", "silent", "broken", "not_asked", "ready"):
            equal(words.count(name), node[name], f"{name} of {node}")
        percentiles(node["latency"], [int(word) for word in words if word.isdigit()], node)
        model(node["without"], [qth(one[:index] + one[index + 1:], found["quorum"])
                                for one in latencies], f"without {node}")
    for index, node in enumerate(found["nodes"]):
        last = [one for one in latencies if one[index] is not None
                and one[index] == qth(one, found["quorum"])]
        alone = [one for one in last if one.count(one[index]) == 1]
        check(len(alone) <= node["qth"] <= len(last), f"how often {node} was the q-th")
    model(found["what_if"]["all"], [qth(one, found["quorum"]) for one in latencies], "all")
    equal([one["node_count"] for one in found["what_if"]["fewer"]], [4, 3, 2, 1], "fewer")
    for fewer in found["what_if"]["fewer"]:
        equal(fewer["quorum"], fewer["node_count"] // 2 + 1, "quorum of fewer")
        model(fewer, [qth(some, fewer["quorum"]) for one in latencies
                      for some in itertools.combinations(one, fewer["node_count"])], fewer)
    return rows


@case("each number follows from the rows; with the same in the file, and its distributions")
def _(quorum):
    rows, whole = lab.temporary("rows"), lab.temporary("whole")
    found = measure(quorum, "-c", "4", "-n", "1000", "--warmup", "50ms", *PATIENT,
                    "--export-csv", rows, "--export-json", whole)
    equal([found["lanes"], found["cycles"], found["held"], found["quorum"], found["ttl_ms"],
           found["warmup_ms"], found["signal"]], [4, 1000, 1000, 3, 300000, 50, None], "words")
    lanes = {row[1] for row in compare(found, rows)}
    equal(lanes, {"0", "1", "2", "3"}, "lanes")
    exported = json.loads(lab.read(whole))
    for name in found:
        equal(exported[name], found[name], name)
    buckets = exported["distributions"]
    for bucket, told in zip([buckets["acquire"], buckets["release"], *buckets["nodes"]],
                            [found["acquire"], found["release"],
                             *(node["latency"] for node in found["nodes"])]):
        equal(sum(count for _, count in bucket), told["count"], "sum of the buckets")
        check(bucket[-1][0] >= told["max_us"], "the last bucket")
    slots = exported["timeline"]["slots"]
    equal(sum(slot["count"] for slot in slots), 1000, "sum of the timeline")
    check(len(slots) <= 256, "slots")
    held = [slot for slot in slots if slot["count"]]
    equal(sum(slot["release"]["count"] for slot in held), 1000, "releases of the timeline")
    equal(min(slot["valid_least_ms"] for slot in held), found["validity"]["least_ms"], "validity")
    equal(max(slot["qth"]["max_us"] for slot in held), found["what_if"]["all"]["max_us"], "qth")
    for index, node in enumerate(found["nodes"]):
        means = [slot["nodes"][index] for slot in held if slot["nodes"][index]]
        equal(max(mean["max_us"] for mean in means), node["latency"]["max_us"], "a node")
    nothing_is_stored(quorum)


@case("a node that is dead: not asked, the what-if table has its effect, and exit 0")
def _(quorum):
    quorum.kill(1)
    rows = lab.temporary("rows")
    found = measure(quorum, *QUICK, "--export-csv", rows)
    compare(found, rows)
    equal([node["not_asked"] for node in found["nodes"]], [0, 200, 0, 0, 0], "not asked")
    matches(found["nodes"][1]["text"], "cannot connect", "fault")
    equal(found["nodes"][1]["without"]["not_held_share"], 0, "without the dead one")
    text = bench(quorum, *QUICK).expect(0).out
    matches(text, r"2\.sock( +-){5} +0\.0% +0 +200\n    not asked: 200 \(", "text")
    nothing_is_stored(quorum)


@case("two dead nodes: with a third one down nothing would be held")
def _(quorum):
    quorum.kill(1, 3)
    found = measure(quorum, *QUICK)
    equal([node["without"]["not_held_share"] for node in found["nodes"]], [1, 0, 1, 0, 1],
          "not held")
    equal(found["nodes"][0]["without"]["p50_us"], None, "no percentile of nothing")
    equal(found["held"], 200, "held")


@case("a node that refuses each SET: refused, with the reason")
def _(quorum):
    quorum[4].call("CONFIG", "SET", "maxmemory", "1")
    rows = lab.temporary("rows")
    found = measure(quorum, *QUICK, "--export-csv", rows)
    compare(found, rows)
    equal([node["refused"] for node in found["nodes"]], [0, 0, 0, 0, 200], "refused")
    matches(found["nodes"][4]["text"], "maxmemory", "fault")
    matches(bench(quorum, *QUICK).out, r"    refused: 200 \([^\n]*maxmemory[^\n]*\); no grant for [^\n]* \(100.0 %\), ", "text")
    quorum[4].call("CONFIG", "SET", "maxmemory", "0")


@case("a node that stands still shows as timeouts")
def _(quorum):
    rows = lab.temporary("rows")
    running = Running(quorum, "-c", "3", "--export-csv", rows)
    quorum[2].stop()
    others = [server for index, server in enumerate(quorum.servers) if index != 2]
    before = served(others)
    lab.wait_for(lambda: served(others) > before + 4000, "cycles of the others")
    quorum[2].go_on()
    found = sound(running.end().expect(130).json())
    equal(found["signal"], signal.SIGINT, "signal")
    check(found["nodes"][2]["silent"] > 0, f"silent: {found['nodes'][2]}")
    compare(found, rows)
    lab.wait_for(lambda: quorum.keys() == 0, "the end of all keys")


@case("a majority that dies in between: failures are counted, earlier cycles are reported, exit 0")
def _(quorum):
    rows = lab.temporary("rows")
    before = quorum.attempts()
    process = lab.start("bench", "--json", "--warmup", "0", "-d", "2s", "--export-csv", rows,
                        env=on(quorum))
    lab.wait_for(lambda: quorum.attempts() > before + 100, "cycles")
    quorum.kill(0, 1, 2)
    found = sound(lab.finish(process).expect(0).json())
    check(found["held"] > 0 and found["not_acquired"].get("no_quorum", 0) > 0, f"{found}")
    compare(found, rows)
    check(found["nodes"][3]["ready"] > 0, "the others are counted as ready")
    check(0 < found["failing_longest_ms"] <= found["failing_ms"], f"{found}")
    text = bench(quorum, "--warmup", "0", "-n", "3").expect(NO_QUORUM).err
    matches(text, "3 of 5 nodes failed", "text")


# --- keys, and what is left ---

@case("keys: under the prefix, of this run and its worker, and none of them at the end")
def _(quorum):
    quorum.occupy("redlock-bench:mine")
    running = Running(quorum, "-c", "40", "--prefix", "some:")
    seen = set()

    def look():
        seen.update(quorum[0].call("KEYS", "*"))
        return len(seen) > 20
    lab.wait_for(look, "keys")
    ours = [re.fullmatch(r"some:redlock-bench:([0-9a-f]{16}):(\d+)", key)
            for key in seen - {"redlock-bench:mine"}]
    check(all(ours), f"keys: {seen}")
    equal(len({match[1] for match in ours}), 1, "one run")
    check(len({match[2] for match in ours}) > 10, "lanes")
    running.end().expect(130)
    equal(quorum.keys(), 5, "keys")
    equal(quorum.values("redlock-bench:mine"), ["foreign"] * 5, "another's lock")


@case("TERM and HUP end it, with all measurements; the files are complete")
def _(quorum):
    for number in (signal.SIGTERM, signal.SIGHUP):
        rows, whole = lab.temporary("rows"), lab.temporary("whole")
        running = Running(quorum, "-c", "8", "--export-csv", rows, "--export-json", whole)
        found = sound(running.end(number).expect(128 + number).json())
        equal(found["signal"], number, "signal")
        compare(found, rows)
        equal(json.loads(lab.read(whole))["cycles"], found["cycles"], "cycles in the file")
        nothing_is_stored(quorum)


@case("a second signal ends it at once, without files that have no content")
def _(quorum):
    path = lab.temporary("x")
    running = Running(quorum, *HANGING, "--export-json", path)
    check(os.path.exists(path), "the file")
    hang(quorum, running.process)
    running.process.send_signal(signal.SIGINT)
    # Two pending signals of one kind count as one.
    lab.wait_for(lambda: not pending(running.process.pid), "the first signal is handled")
    running.process.send_signal(signal.SIGINT)
    outcome = lab.finish(running.process)
    for server in quorum.servers[:3]:
        server.go_on()
    outcome.expect(130, err="again: ended at once", out="")
    check(not os.path.exists(path), "the file is left")


def pending(pid):
    """A signal is pending."""
    found = re.findall(r"(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", lab.read(f"/proc/{pid}/status"))
    return any(int(mask, 16) for mask in found)


@case("a signal before anything was measured: no result, and no new file")
def _(quorum):
    for server in quorum.servers:
        server.stop()
    path = lab.temporary("rows")
    process = lab.start("bench", "--json", *PATIENT, "--export-csv", path, env=on(quorum))
    lab.wait_for(lambda: os.path.exists(path), "the file")
    process.send_signal(signal.SIGTERM)
    found = lab.finish(process).expect(143, err="nothing was measured").json()
    equal(found["cause"], "cancelled", "cause")
    check(not os.path.exists(path), "the file is left")
    for server in quorum.servers:
        server.go_on()
    old, before = lab.write(lab.temporary("old"), "as it was"), quorum.attempts()
    process = lab.start("bench", "--warmup", "1h", "--export-csv", old, env=on(quorum))
    lab.wait_for(lambda: quorum.attempts() > before + 100, "cycles of the warm-up")
    process.send_signal(signal.SIGINT)
    lab.finish(process).expect(130, err="nothing was measured", out="")
    equal(lab.read(old), "as it was", "the old file")
    lab.wait_for(lambda: quorum.keys() == 0, "the end of all keys")


@case("--html: the page with what --export-json writes")
def _(quorum):
    page, whole = lab.temporary("x.html"), lab.temporary("x")
    bench(quorum, *QUICK, "--html", page, "--export-json", whole).expect(0, err=PROGRESS)
    equal(page_data(page), json.loads(lab.read(whole)), "data")
    check("default-src 'none'" in lab.read(page), "a policy")


# --- no lock at all ---

@case("no quorum: 69 with the reason, nothing on stdout; an old file stays unchanged")
def _(quorum):
    quorum.kill(0, 1, 2)
    old, new = lab.write(lab.temporary("old"), "as it was"), lab.temporary("new")
    bench(quorum, "--export-csv", old, "--export-json", new).expect(
        NO_QUORUM, err="3 of 5 nodes failed", out="")
    equal(lab.read(old), "as it was", "the old file")
    check(not os.path.exists(new), "a new file")
    found = bench(quorum, "--json").expect(NO_QUORUM).json()
    equal(found["cause"], "no_quorum", "cause")
    equal(len(found["nodes"]), 5, "nodes")


@case("a quorum that is gone when it begins to count: 69, with what was counted")
def _(quorum):
    path, before = lab.temporary("x.html"), quorum.attempts()
    process = lab.start("bench", "--json", "--warmup", "3s", "-n", "5", "--html", path,
                        env=on(quorum))
    lab.wait_for(lambda: quorum.attempts() > before + 100, "cycles of the warm-up")
    quorum.kill(0, 1, 2)
    found = sound(lab.finish(process).expect(NO_QUORUM, err="3 of 5 nodes failed").json())
    equal([found["cycles"], found["held"], found["validity"]], [5, 0, None], "counts")
    equal(found["what_if"]["all"]["not_held_share"], 1, "not held")
    equal(found["what_if"]["fewer"][3]["not_held_share"], 0.6, "any one of them")
    check(abs(found["failing_ms"] - found["elapsed_ms"]) <= 1, f"no lock at any time: {found}")
    equal(page_data(path)["cycles"], 5, "cycles in the page")


@case("a user without the right to SET: 77")
def _(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "me", "on", ">pw", "~*", "&*", "+@all", "-set")
    env = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "pw"}
    bench(quorum, env=env).expect(DENIED, err="the user lacks a right", out="")


# --- arguments and files ---

@case("invalid arguments: 64, before anything is sent")
def _(quorum):
    before = quorum.attempts()
    for words, why in (
            (("-d", "1s", "-n", "5"), "exclude"), (("-n", "0"), "from 1"),
            (("-d", "0"), "from 1"), (("-c", "0"), "from 1"), (("-c", "10001"), "to 10000"),
            (("-n", "-1"), "not a number"), (("-n", "10000000001"), "to 10000000000"),
            (("-d", "25h"), "to 24h"),
            (("--warmup", "25h"), "at most 24h"), (("-n", "9" * 30), "not a number"),
            (("-d", "soon"), "not a duration"), (("k",), "one operand too many"),
            (("-t", "0"), "--ttl"), (("-t", "25h"), "--ttl"), (("--fence",), "no option")):
        outcome = bench(quorum, *words).expect(USAGE, err=why, out="")
        equal(outcome.err.count("\n"), 1, f"lines of {outcome}")
    redlock("bench").expect(CONFIG, err="no nodes", out="")
    equal(quorum.attempts(), before, "SETs")


@case("files that cannot be written: 78 before anything is sent; one file for two: 64")
def _(quorum):
    before = quorum.attempts()
    folder = os.path.dirname(lab.temporary("x"))
    for option in ("--export-json", "--export-csv", "--html"):
        bench(quorum, option, folder).expect(CONFIG, err="directory", out="")
        bench(quorum, option, folder + "/none/x").expect(CONFIG, err="No such file", out="")
    path = lab.temporary("x")
    bench(quorum, "--export-json", path, "--export-csv", path).expect(USAGE, err="same file")
    bench(quorum, "--export-json", path, "--html", folder).expect(CONFIG, err="directory")
    check(not os.path.exists(path), "a file is left")
    os.mkfifo(path)
    bench(quorum, "--export-csv", path).expect(CONFIG, err="a pipe without a reader", out="")
    bench(quorum, "--export-csv", "").expect(USAGE, err="--export-csv: an empty name", out="")
    equal(quorum.attempts(), before, "SETs")


@case("a full disk, at stdout or in a file: 125, and the rest is printed all the same")
def _(quorum):
    with open("/dev/full", "wb") as full:
        bench(quorum, *QUICK, stdout=full).expect(FAILED, err="stdout: ")
    for option in ("--export-json", "--export-csv", "--html"):
        outcome = bench(quorum, *QUICK, "--json", option, "/dev/full")
        outcome.expect(FAILED, err="^(redlock: bench: .*\n)*"  # progress, on a slow machine
                                   "redlock: /dev/full: No space left on device\n$")
    nothing_is_stored(quorum)


# --- progress ---

@case("progress: a line in a pipe, nothing with -q; the table on stdout")
def _(quorum):
    quorum.kill(3)
    words = ("-d", "1500ms", "--warmup", "0", *PATIENT)
    told = bench(quorum, *words).expect(
        0, err=r"^redlock: bench: [\d.]+ s: [\d,]+ cycles, 0 failed; acquire p50 [\d.]+ ms, "
               r"p99 [\d.]+ ms; [^\n]*4\.sock: [^\n]*\n$")
    matches(told.out, r"^[\d,]+ cycles in .* failed\n.*\nMEASURED.*\nNODE.*\nWHAT IF", "table")
    for name in ("acquire, 3 of 5 nodes", "release, 3 of 5 nodes", "all 5, 3 needed",
                 "without " + quorum.uris[3], "any 4, 3 needed", "any 1, 1 needed"):
        equal(told.out.count(f"\n{name}  "), 1, f"rows of {name} in {told.out}")
    bench(quorum, *words, "-q").expect(0, err="^$")


@case("progress on a terminal: redrawn in its place")
def _(quorum):
    master, slave = pty.openpty()
    process = lab.start("bench", "-d", "2s", "--warmup", "0", env=on(quorum), stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while part := os.read(master, 4096):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(master)
    matches(lab.finish(process).expect(0).out, "MEASURED", "stdout")
    frames = re.findall(rb"(\033\[\dA)?\033\[K(bench: [^\r\n]*)", seen)
    check(not frames[0][0] and all(up for up, _ in frames[1:]), f"where it is drawn: {frames}")
    last = frames[-1][1].decode()
    matches(last, r"bench: [\d.]+ s: [\d,]+ cycles, \d+ failed; acquire p50", "the last one")


@case("a signal while nodes hang: progress shows what it waits for")
def _(quorum):
    master, slave = pty.openpty()
    process = lab.start("bench", "-d", "1h", "--warmup", "0", *HANGING, env=on(quorum),
                        stderr=slave)
    os.close(slave)

    def read_until(pattern):
        seen = b""
        while not re.search(pattern, seen):
            seen += os.read(master, 4096)
    read_until(rb"[1-9]\d* cycles, 0 failed")
    hang(quorum, process)
    process.send_signal(signal.SIGINT)
    read_until(rb"; ends when the nodes have answered, or at once by another signal")
    for server in quorum.servers[:3]:
        server.go_on()
    lab.finish(process).expect(130)
    os.close(master)


lab.main()

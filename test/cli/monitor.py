#!/usr/bin/env python3
"""redlock monitor: the canary, the nodes, what locks take and would take, and its HTTP."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import lab
from fencing import state
from lab import PATIENT, case, check, equal, matches, on, redlock
from monitoring import Connection, Monitor

SOON = 20  # s; on an idle machine it is a tenth of that
FAST = ("--every", "100ms")
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
           "Referrer-Policy": "no-referrer", "Connection": "close"}


def canary(monitor):
    """{result: cycles}"""
    found = monitor.metrics("redlock_canary_cycles_total")
    return {re.search('"(.*)"', labels)[1]: int(count) for labels, count in found.items() if count}


def results(monitor, name):
    return {re.search('"(.*)"', labels)[1]: int(count)
            for labels, count in monitor.metrics(name).items() if count}


def until_ok(monitor, cycles=3):
    return lab.wait_for(lambda: canary(monitor).get("ok", 0) >= cycles, "cycles of the canary")


def until_nodes(monitor, condition, what, seconds=lab.STATE_SECONDS):
    return lab.wait_for(lambda: (found := monitor.json("nodes")) and condition(found) and found, what, seconds)


def ask(connection, method, path, headers=None):
    connection.request(method, path, headers=headers or {})
    with connection.getresponse() as answer:
        return answer.status, dict(answer.getheaders()), answer.read()


def send(monitor, text):
    """The first line of what is replied to these bytes."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(lab.STATE_SECONDS)
        one.connect(monitor.path)
        one.sendall(text.encode())
        return one.makefile().readline().strip()


# --- the nodes and the canary ---

@case("a node that is killed and comes back; fewer nodes than a quorum; none")
def _(quorum):
    with Monitor(quorum, *FAST, "--durable") as monitor:
        until_ok(monitor)
        found = until_nodes(monitor, lambda found: found["checked_ago_ms"] is not None, "a check")
        equal([found["votes"], found["quorum"], found["healthy"], found["reason"]],
              [5, 3, True, None], "all vote")
        equal(found["votes_fenced"], None, "not admitted")
        equal([node["uri"] for node in found["nodes"]], quorum.uris, "nodes")
        for node in found["nodes"]:
            equal([node["connected"], node["votes"], node["state"], node["fault"], node["text"],
                   node["fit"]], [True, True, "ready", None, None, False], node["uri"])
            check("forgets" in [one["code"] for one in node["findings"]], node)
            matches(node["version"], "^(redis|valkey) ", "version")
            check(node["round_trip_us"] > 0, node)
        equal(monitor.get("/healthz"), (200, "ok\n"), "healthz")
        since_ms = found["since_ms"]

        quorum.kill(1)
        found = until_nodes(monitor, lambda found: found["nodes"][1]["fault"] == "connect",
                            "a node that is away")
        equal([node["votes"] for node in found["nodes"]], [True, False, True, True, True], "votes")
        equal(found["votes"], 4, "votes")
        matches(found["nodes"][1]["text"], "connect", "text")
        until_nodes(monitor, lambda found: "unreachable" in [
            one["code"] for one in found["nodes"][1]["findings"]], "a check after the change")
        equal([found["healthy"], found["since_ms"]], [True, since_ms], "healthy")
        equal(monitor.get("/healthz")[0], 200, "healthz with four")

        quorum.kill(2, 3)
        found = until_nodes(monitor, lambda found: found["votes"] == 2, "two nodes")
        check(not found["healthy"] and found["since_ms"] > since_ms, found)
        status, text = monitor.get("/healthz")
        equal(status, 503, "healthz with two")
        for words in (text, found["reason"]):  # the faults change while it tries to connect
            matches(words, "^3 of 5 nodes failed: .*(cannot connect|closed)", "why")
        for index in (1, 2, 3):
            check(quorum.uris[index] in text, text)

        quorum.kill(0, 4)
        until_nodes(monitor, lambda found: found["votes"] == 0, "no nodes")
        lab.wait_for(lambda: canary(monitor).get("no_quorum", 0) >= 3, "cycles that fail")
        equal(monitor.get("/healthz")[0], 503, "healthz with none")

        quorum.start()
        until_nodes(monitor, lambda found: found["votes"] == 5 and found["healthy"], "all back")
        until_nodes(monitor, lambda found: "unreachable" not in json.dumps(found["nodes"]), "a check of all")
        until_ok(monitor, canary(monitor)["ok"] + 1)


@case("nodes that refuse the release only: the reason names them")
def _(quorum):
    with Monitor(quorum) as monitor:
        until_ok(monitor, 1)
        for server in quorum.servers[:3]:
            server.call("ACL", "SETUSER", "default", "-getrange")
        try:
            found = until_nodes(monitor, lambda found: not found["healthy"], "the refusal")
            matches(found["reason"], "^the canary failed: too few nodes confirmed the release: 3 of 5 nodes failed: "
                    + ", ".join(quorum.uris[:3]) + r": the user lacks a right \(ACL\)", "why")
        finally:
            for server in quorum.servers[:3]:
                server.call("ACL", "SETUSER", "default", "+@all")


@case("nodes that hang: one cycle at a time, and the page goes on")
def _(quorum):
    with Monitor(quorum, *FAST, "--timeout", "200ms") as monitor:
        until_ok(monitor)
        for index in range(3):
            quorum[index].stop()

        def failures():
            [acquiring] = monitor.metrics("redlock_acquiring").values()
            check(acquiring <= 1, f"{acquiring} acquires at once")
            return canary(monitor).get("no_quorum", 0)
        lab.wait_for(lambda: monitor.get("/healthz")[0] == 503, "a quorum that does not reply")
        failed = lab.wait_for(failures, "a cycle that fails")
        lab.wait_for(lambda: failures() > failed, "another one")
        for index in range(3):
            quorum[index].go_on()
        lab.wait_for(lambda: monitor.get("/healthz")[0] == 200, "nodes that reply again")


@case("it leaves nothing behind, at whatever moment TERM comes")
def _(quorum):
    for _ in range(5):
        with Monitor(quorum, *FAST) as monitor:
            until_ok(monitor, 1)
        check(not os.path.exists(monitor.path), "the socket is there")
        equal(quorum.keys(), 0, "keys")


@case("with the nodes away it starts, and ends by TERM")
def _(quorum):
    quorum.kill(0, 1, 2, 3, 4)
    with Monitor(quorum) as monitor:
        equal(monitor.get("/healthz")[0], 503, "healthz")
        found = monitor.json("nodes")
        equal([found["votes"], len(found["nodes"])], [0, 5], "nodes")


@case("a clock that is 3 s off: a finding, and both metrics, soon; and they end with it")
def _(_):
    with lab.durable(3, wrong=[1]) as quorum, Monitor(quorum) as monitor:
        def codes(found):
            return [[one["code"] for one in node.get("findings", [{"code": "none yet"}])] for node in found["nodes"]]
        until_nodes(monitor, lambda found: codes(found) == [[], [], []], "a check without a finding")
        equal(monitor.metrics("redlock_node_finding"), {}, "findings")
        quorum[1].clock.jump(3000000)
        begun = time.monotonic()
        until_nodes(monitor, lambda found: codes(found) == [[], ["clock_off"], []], "the finding", SOON)
        lab.say(f"a clock that is 3 s off is found after {time.monotonic() - begun:.1f} s")
        off = monitor.metrics("redlock_node_clock_offset_seconds")
        check(abs(off[f'node="{quorum.uris[1]}"'] - 3) < 0.5, f"{off}")
        equal(monitor.metrics("redlock_node_finding"),
              {f'node="{quorum.uris[1]}",code="clock_off",severity="warning"': 1}, "findings")
        equal(monitor.json("nodes")["healthy"], True, "locks can be taken")
        quorum.kill(2)
        lab.wait_for(lambda: any('code="unreachable"' in labels for labels in
                                 monitor.metrics("redlock_node_finding")), "a node that is away", SOON)
        equal(len(monitor.metrics("redlock_node_clock_offset_seconds")), 2, "offsets")
        quorum[1].clock.mend()
        until_nodes(monitor, lambda found: codes(found) == [[], [], ["unreachable"]], "no finding")


@case("a node that is down does not flicker; since when it is, and the last events")
def _(_):
    with lab.durable(3) as quorum, Monitor(quorum, *FAST) as monitor:
        found = until_nodes(monitor, lambda found: found["checked_ago_ms"] is not None and found["healthy"], "a check")
        equal([node["state"] for node in found["nodes"]], ["ready"] * 3, "states")
        check(found["nodes"][1]["since_ms"] <= found["at_ms"], found)
        equal([one["text"] for one in found["events"]], ["locks can be taken"], "events")
        quorum.kill(1)
        down = until_nodes(monitor, lambda found: found["nodes"][1]["state"] != "ready", "a node that is away")

        def failures():
            [number] = [count for labels, count in
                        monitor.metrics("redlock_node_connect_failures_total").items() if quorum.uris[1] in labels]
            return number
        first, seen = failures(), set()

        def tries_again():
            node = monitor.json("nodes")["nodes"][1]
            seen.add((node["state"], node["since_ms"], node["text"] is None))
            return failures() >= first + 4
        lab.wait_for(tries_again, "four more tries to connect")
        until_nodes(monitor, lambda found: "unreachable" in json.dumps(found["nodes"]), "a check")
        equal(seen, {("down", down["nodes"][1]["since_ms"], False)}, "states")
        check(down["nodes"][1]["since_ms"] > found["nodes"][1]["since_ms"],
              f"since when: {found['at_ms']}, {found['nodes']}, then {down['at_ms']}, {down['nodes']}")
        quorum.start()
        found = until_nodes(monitor, lambda found: found["nodes"][1]["state"] == "quarantined" and any(
            one["code"] == "restarted" for one in found["nodes"][1]["findings"]), "a node that is back")
        check(found["nodes"][1]["since_ms"] > down["nodes"][1]["since_ms"], "since when it is back")
        events = [(one["level"], one["node"], one["text"]) for one in found["events"]]
        of_node = [(level, text) for level, node, text in events if node == quorum.uris[1]][::-1]
        equal(of_node[0][0], "error", "the first event")
        matches(of_node[0][1], "^down: ", "the first event")
        lasting = [text.partition(":")[0] for _, text in of_node]
        for text in ("defect unreachable", "quarantined", "no longer unreachable", "defect restarted"):
            check(text in lasting, f"{text} in {of_node}")
        equal(events[-1], ("info", None, "locks can be taken"), "the oldest event")


@case("no more than 50 events are kept, the newest ones")
def _(_):
    with lab.durable(3) as quorum, Monitor(quorum, *FAST) as monitor:
        def count(code):
            found = monitor.json("nodes")
            return sum(code in [one["code"] for one in node.get("findings", [])] for node in found["nodes"])
        until_nodes(monitor, lambda found: found["checked_ago_ms"] is not None, "a check")
        for _ in range(9):
            for policy, wanted in (("allkeys-lru", 3), ("noeviction", 0)):
                for server in quorum.servers:
                    server.call("CONFIG", "SET", "maxmemory-policy", policy)
                lab.wait_for(lambda: count("could_evict") == wanted, policy)
        events = monitor.json("nodes")["events"]
        equal(len(events), 50, "events")
        equal(events[0]["text"], "no longer could_evict", "the newest")
        check(all(one["text"] != "locks can be taken" for one in events), "the oldest one is gone")
        times = [one["at_ms"] for one in events]
        equal(times, sorted(times, reverse=True), "times")


UNWATCHED = "nodes of fenced locks are not watched: "


def admit(quorum, *words):
    redlock("admit", *PATIENT, "--new", "--at-once", *words, env=on(quorum)).expect(0)


def watches(monitor):
    [watches] = monitor.metrics("redlock_watches_members").values()
    return watches == 1


@case("nodes that were admitted show their fenced votes; one that restarts is readmitted")
def _(quorum):
    admit(quorum, "--max-ttl", "1s", "--promise", "durable")
    with Monitor(quorum, *FAST) as monitor:
        found = until_nodes(monitor, lambda found: found["votes_fenced"] == 5, "fenced votes")
        equal({node["votes_fenced"] for node in found["nodes"]}, {True}, "nodes")
        equal(found["nodes"][0]["member"]["generation"], 1, "as redlock check")
        equal(found["nodes"][0]["member"]["promises"], ["durable"], "promises")
        check(watches(monitor), "it watches")
        equal(monitor.get("/healthz"), (200, "ok\n"), "healthz")
        quorum.kill(1)
        quorum.start()
        lab.wait_for(lambda: state(quorum[1]) == "barred", "a quarantine")

        def is_shown(found):
            codes = [one["code"] for one in found["nodes"][1]["findings"]]
            return "quarantined" in codes
        until_nodes(monitor, lambda found: found["votes_fenced"] == 4 and is_shown(found),
                    "a node without a vote, and a check")
        equal(monitor.get("/healthz"), (200, "ok\n"), "healthz with four")
        lab.wait_for(lambda: state(quorum[1]) == "sound", "its vote", 60)
        until_nodes(monitor, lambda found: found["votes_fenced"] == 5 and not is_shown(found),
                    "all votes, and a check")


@case("without a fenced quorum /healthz is 503, also if plain locks can be taken; sole recovers it")
def _(quorum):
    admit(quorum, "--max-ttl", "1s")
    with Monitor(quorum, *FAST) as monitor:
        until_nodes(monitor, lambda found: found["votes_fenced"] == 5, "fenced votes")
        for index in (0, 1, 2):
            quorum[index].call("FLUSHALL")
        found = until_nodes(monitor, lambda found: found["votes_fenced"] == 2, "two fenced votes")
        status, text = monitor.get("/healthz")
        equal(status, 503, text)
        matches(text, "^fenced locks: 3 of 5 nodes failed: .*without the promise sole an operator has "
                "to readmit these nodes by redlock admit --readmit", "why")
    quorum.reset()
    admit(quorum, "--max-ttl", "1s", "--promise", "sole")
    with Monitor(quorum, *FAST) as monitor:
        until_nodes(monitor, lambda found: found["votes_fenced"] == 5, "fenced votes")
        for server in quorum.servers:
            server.call("FLUSHALL")
        lab.wait_for(lambda: monitor.get("/healthz")[0] == 503, "no fenced quorum")
        lab.wait_for(lambda: monitor.get("/healthz") == (200, "ok\n"), "a fenced quorum", 60)
        equal([state(server) for server in quorum.servers].count("sound") >= 3, True, "markers")


@case("--no-recover, or a user without the right: no marker is watched, and /healthz says so")
def _(quorum):
    admit(quorum, "--max-ttl", "1s", "--promise", "sole")
    allow(quorum, "reset", "on", ">secret", "~*", "&*", "+@all", "-set")
    for words, env, why in ((["--no-recover"], {}, "--no-recover"),
                            ([], USER, "its user lacks a right, see redlock check")):
        with Monitor(quorum, *FAST, *words, **env) as monitor:
            lab.wait_for(lambda: monitor.get("/healthz") == (200, f"ok\n{UNWATCHED}{why}\n"), why)
            check(not watches(monitor), "it watches")
            equal(monitor.json("nodes")["votes_fenced"], None, "fenced votes")


# --- what it measured ---

USER = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "secret"}


def allow(quorum, *rules):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "me", *rules)


@case("counters, history and nodes agree exactly; a user who may not write watches only")
def _(quorum):
    allow(quorum, "reset", "on", ">secret", "~*", "&*", "+@all")
    for server in quorum.servers:
        server.call("CONFIG", "RESETSTAT")
    with Monitor(quorum, *FAST, **USER) as monitor:
        until_ok(monitor, 10)
        allow(quorum, "-set")
        found = until_nodes(monitor, lambda found: not found["canary"]["writes"], "a refusal")
        matches(found["canary"]["text"], "permission|right", "why")
        equal(monitor.get("/healthz"), (200, "ok\n"), "the nodes are fit")
        equal(list(monitor.metrics("redlock_canary_writes").values()), [0], "writes")

        def numbers():
            """Between two tries: the same before and after."""
            before = canary(monitor)
            latency = monitor.json("latency", **{"for": 3600})
            acquires = results(monitor, "redlock_acquires_total")
            counts = [int(*monitor.metrics(f"redlock_canary_{name}_seconds_count").values())
                      for name in ("acquire", "release")]
            sets = quorum.attempts()
            same = before == canary(monitor) and sum(before.values()) == latency["cycles"]
            whole = sets % 5 == 0 and sets == quorum.attempts()  # no check was under way
            return same and whole and (before, latency, acquires, counts, sets)
        cycles, latency, acquires, counts, sets = lab.wait_for(numbers, "a pause of the canary")
        equal(set(cycles), {"ok", "denied"}, "results")
        equal(latency["held"], cycles["ok"], "held")
        equal(latency["not_acquired"], {"denied": cycles["denied"]}, "failures")
        equal([latency["acquire"]["count"], latency["release"]["count"]], [cycles["ok"]] * 2, "times")
        equal([slot["codes"] for slot in latency["timeline"]["slots"] if slot["codes"]],
              [{"denied": 1}], "failures over time")
        equal(acquires, cycles, "the client's acquires")
        equal(counts, [cycles["ok"]] * 2, "histograms")
        # A check tries whether SET is allowed, once on each server.
        tried = sets - 5 * cycles["ok"]
        check(tried > 0, f"{sets} SETs on the servers, {cycles}")
        for node in latency["nodes"]:
            equal(node["granted"], cycles["ok"], node["uri"])

        matches(monitor.process.stderr.readline().decode(), "page is at", "the first line")
        matches(monitor.process.stderr.readline().decode(), "it only watches.*permission|right",
                "the second line")
        allow(quorum, "+set")
        until_ok(monitor, cycles["ok"] + 1)
        check(monitor.json("nodes")["canary"]["writes"], "it writes again")
        text = monitor.get("/metrics")[1] + monitor.get("/api/nodes")[1]
        check("secret" not in text, "the password is shown")


@case("its key has the prefix")
def _(quorum):
    with Monitor(quorum, *FAST, "--prefix", "here:") as monitor:
        key = monitor.json("nodes")["canary"]["key"]
        matches(key, "^here:redlock-monitor:[^:]+:[0-9a-f]{16}:0$", "key")
        for server in quorum.servers:
            server.call("SET", key, "foreign", "PX", 600000)
        lab.wait_for(lambda: canary(monitor).get("taken", 0) >= 1, "a cycle that others stop")
        equal(monitor.get("/healthz")[0], 200, "others are no fault")


@case("latency: the object of bench, of the last seconds")
def _(quorum):
    whole = lab.temporary("whole")
    redlock("bench", *PATIENT, "-n", "20", "--warmup", "0", "--export-json", whole,
            env=on(quorum)).expect(0)
    with Monitor(quorum, *FAST, "--keep", "10m") as monitor:
        until_ok(monitor, 5)
        latency = monitor.json("latency")
        equal(set(latency) - {"began_at_ms"}, set(json.loads(lab.read(whole))), "members")
        equal([latency["quorum"], latency["lanes"], latency["cause"]], [3, 1, "ok"], "words")
        equal([node["uri"] for node in latency["nodes"]], quorum.uris, "nodes")
        began_ms, elapsed_ms = latency["began_at_ms"], latency["elapsed_ms"]
        check(0 < elapsed_ms < 600000, f"{elapsed_ms} ms: no longer than it runs")
        check(abs(time.time() * 1000 - began_ms - elapsed_ms) < 60000, f"it began at {began_ms}")
        equal(monitor.json("latency", **{"for": 999999})["began_at_ms"] // 1000, began_ms // 1000,
              "all that is kept")
        until_ok(monitor, 20)
        short = monitor.json("latency", **{"for": 1})
        check(short["cycles"] < 20, f"{short['cycles']} cycles in a second")
        for wrong in ("0", "-1", "x", ""):
            status, text = monitor.get("/api/latency", **{"for": wrong})
            equal((status, set(json.loads(text))), (400, {"error"}), wrong)


@case("what if: the same, without nodes, moved, fewer and more")
def _(quorum):
    with Monitor(quorum, *FAST) as monitor:
        until_ok(monitor, 10)

        def what_if(**query):
            found = monitor.json("whatif", **query)
            matches(found["computed"], "Computed", "how")
            return found
        same = what_if()
        equal(same["then"], same["now"], "without changes")
        equal([same["node_count"], same["quorum"], same["may_fail"], same["without"], same["for_s"]],
              [5, 3, 2, [], 600], "defaults")
        equal(what_if(without="0,4")["then"]["not_held_share"], 0, "three are enough")
        lost = what_if(without="0,4,1")
        equal([lost["then"]["not_held_share"], lost["then"]["p50_us"], lost["without"]],
              [1, None, [0, 1, 4]], "two are not")
        check(what_if(rtt="1000,,1000,1000")["then"]["p50_us"] > 900000, "three are far")
        check(what_if(rtt="1000,,1000")["then"]["p50_us"] < 900000, "two are far")
        check(what_if(rtt="0.5,0.5,0.5,0.5,0.5", quorum=5)["then"]["p50_us"] >= 500, "all")
        for nodes, q, may_fail in ((3, 2, 1), (7, 4, 3), (1, 1, 0)):
            found = what_if(node_count=nodes)
            equal([found["quorum"], found["may_fail"]], [q, may_fail], f"{nodes} nodes")
            equal(found["then"]["not_held_share"], 0, f"{nodes} nodes")
        for name, value in (("node_count", 0), ("node_count", 33), ("node_count", "x"), ("quorum", 2),
                            ("quorum", 6), ("without", 5), ("without", "1.5"), ("rtt", "1,2,3,4,5,6"),
                            ("rtt", "nan"), ("rtt", "1e9"), ("rtt", "60001"), ("for", 0)):
            status, text = monitor.get("/api/whatif", **{name: value})
            equal((status, set(json.loads(text))), (400, {"error"}), f"{name}={value}")


@case("each metric of docs/telemetry.md has its type and its labels")
def _(quorum):
    page = lab.read(os.path.join(os.path.dirname(__file__), "../../docs/telemetry.md"))
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in
              re.findall(r"^- `(redlock_\w+)`, (\w+)((?: by (?:`\w+`(?:, )?)*)?)", page, re.MULTILINE)}
    with Monitor(quorum, *FAST) as monitor:
        until_ok(monitor)
        quorum.occupy("k", value="p" + "a" * 32 + "@h")
        lab.wait_for(lambda: monitor.metrics("redlock_locks"), "locks in the metrics")
        text = monitor.get("/metrics")[1]
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    equal(types, {name: kind for name, (kind, _) in listed.items()}, "types")
    for name, words in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?{(.*)} ", text, re.MULTILINE):
        found = set(re.findall(r'(\w+)="', words)) - {"le"}
        equal(found, listed[name][1], f"labels of {name}")
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                              text=True)
        equal(done.stdout + done.stderr, "", "promtool check metrics")


# --- HTTP ---

@case("headers, methods, other sites and HTTP/1.0")
def _(quorum):
    with Monitor(quorum) as monitor:
        for path in ("/", "/healthz", "/metrics", "/api/nodes", "/api/latency", "/api/whatif",
                     "/api/locks"):
            status, headers, body = ask(Connection(monitor.path), "GET", path)
            check(status == 200 or path == "/healthz", f"{path}: {status}")
            for name, value in HEADERS.items():
                equal(headers[name], value, f"{name} of {path}")
            check("default-src 'none'" in headers["Content-Security-Policy"], headers)
            equal(int(headers["Content-Length"]), len(body), "length")
            status, headers, body = ask(Connection(monitor.path), "HEAD", path)
            check(int(headers["Content-Length"]) > 0 and body == b"", f"HEAD {path}")
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
                status, headers, _ = ask(Connection(monitor.path), method, path)
                equal((status, headers["Allow"]), (405, "GET, HEAD"), f"{method} {path}")
        equal(ask(Connection(monitor.path), "GET", "/x")[0], 404, "another path")
        other = {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
        for path, status in (("/", 200), ("/api/whatif", 403), ("/api/locks", 403)):
            equal(ask(Connection(monitor.path), "GET", path, other)[0], status, path)
        matches(send(monitor, "GET /metrics HTTP/1.0\r\n\r\n"), "200", "no Host")


@case("a connection too many closes the oldest, and others are answered")
def _(quorum):
    with Monitor(quorum) as monitor:
        until_ok(monitor, 1)
        before = monitor.files()
        idle = []
        for _ in range(150):
            one = socket.socket(socket.AF_UNIX)
            one.connect(monitor.path)  # waits for room in the queue, if it has no timeout
            one.settimeout(lab.STATE_SECONDS)
            one.sendall(b"GET /metr")
            idle.append(one)
        equal(monitor.get("/healthz")[0], 200, "healthz")
        equal(idle[0].recv(1), b"", "the oldest one is closed")
        lab.wait_for(lambda: monitor.files() <= before + 64, "at most 64 connections")
        idle[-1].sendall(b"ics HTTP/1.0\r\n\r\n")
        matches(idle[-1].makefile().readline(), "200", "the newest one")
        for one in idle:
            one.close()
        lab.wait_for(lambda: monitor.files() <= before, "no connection")


# --- its socket ---

def refused(quorum, code, err, *words):
    redlock("monitor", *words, env=on(quorum)).expect(code, err=err)


@case("a unix socket: of this user only, never one in use, never another file")
def _(quorum):
    with Monitor(quorum) as monitor:
        equal(stat.S_IMODE(os.stat(monitor.path).st_mode), 0o600, "mode")
        refused(quorum, 78, "another process uses it", "--listen", f"unix:{monitor.path}")
        equal(monitor.get("/metrics")[0], 200, "it goes on")
    path = lab.temporary("old")
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    process = lab.start("monitor", "--listen", f"unix:{path}", env=on(quorum))
    matches(process.stderr.readline().decode(), "page is at unix:", "an old socket is replaced")
    os.unlink(path)
    lab.write(path, "precious")
    process.terminate()
    lab.finish(process).expect(0)
    equal(lab.read(path), "precious", "what took the place of the socket")
    refused(quorum, 78, "is no socket", "--listen", f"unix:{path}")
    equal(lab.read(path), "precious", "a file")
    refused(quorum, 78, "empty or too long", "--listen", "unix:")
    refused(quorum, 78, "empty or too long", "--listen", "unix:/" + "x" * 200)
    refused(quorum, 78, "No such file", "--listen", "unix:/none/socket")


@case("an address: any port, and other hosts only if they may")
def _(quorum):
    for place, words in (("127.0.0.1", ()), ("0.0.0.0", ("--allow-remote",))):
        process = lab.start("monitor", "--listen", f"{place}:0", *words, env=on(quorum))
        line = process.stderr.readline().decode()
        port = re.search(r"page is at http://\S+:(\d+)/", line)[1]
        equal("everybody who can connect" in line, bool(words), line)
        with socket.create_connection(("localhost", port), lab.STATE_SECONDS) as one:
            one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            matches(one.makefile().readline(), "200", place)
        refused(quorum, 78, "in use", "--listen", f"{place}:{port}", *words)
        process.send_signal(signal.SIGINT)
        lab.finish(process).expect(0)
    refused(quorum, 64, "--allow-remote", "--listen", "0.0.0.0:0")
    for wrong in ("127.0.0.1", ":80", "80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999"):
        refused(quorum, 78, "--listen", "--listen", wrong)
    for name in "localhost", "[localhost]", "host.invalid", "1.2.3.4.5":
        refused(quorum, 78, "a name is not looked up", "--listen", f"{name}:0")


@case("options that are out of range")
def _(quorum):
    for words in (("--every", "99ms"), ("--every", "61m"), ("--every", "0")):
        refused(quorum, 64, "--every is from", *words)
    for words in (("--keep", "999ms"), ("--keep", "25h"), ("--every", "100ms", "--keep", "3h")):
        refused(quorum, 64, "--keep is from", *words)
    refused(quorum, 64, "too many", "key")


lab.main()

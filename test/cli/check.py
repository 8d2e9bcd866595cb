#!/usr/bin/env python3
"""Each fault that makes a node unfit, produced on real servers: the finding, its node, and its text."""
import os
import re
import signal
import socket
import threading

import lab
from fencing import marker, state
from lab import case, check, durable, equal, matches, on, redlock
from relay import Relay

FIT, WARNINGS, NO_QUORUM, NOT_TRIED = range(4)


def keys(quorum):
    return sum(server.call("DBSIZE") for server in quorum.servers
               if server.is_running() and lab.state(server.process.pid) != "T")


def ask(quorum, *words, nodes=None, env=None):
    return redlock("check", *words, env={**on(quorum), **(env or {}),
                                         "REDLOCK_NODES": ",".join(nodes or quorum.uris)})


def codes(found):
    return [[one["code"] for one in node["findings"]] for node in found["nodes"]]


def told(table):
    """The table's contents for each node: {URI: (state, [(severity, code)])}"""
    nodes, finding = {}, None
    for line in table.splitlines()[1:-1]:
        words = line.split()
        if line.startswith("fenced locks: "):
            continue
        if found := re.match(r"(defect|warning|note) (\w+): \S", line):
            check(all(found.groups() not in node[1] for node in nodes.values()), f"once: {line}")
            finding = found.groups()
        elif line.startswith("    "):
            nodes[words[0]][1].append(finding)
        else:
            nodes[words[0]] = (words[1], [])
    return {uri: (state, sorted(findings)) for uri, (state, findings) in nodes.items()}


def expect(quorum, code, wanted, detail="", *words, nodes=None, env=None):
    """Checks the exit code and the codes of each node, also in the table. Returns the JSON."""
    before = keys(quorum)
    outcome = ask(quorum, "--json", *words, nodes=nodes, env=env).expect(code, err="^$")
    found = outcome.json()
    equal(found["schema"], "redlock.check/1", "schema")
    equal(codes(found), wanted, f"findings of {outcome}")
    equal(found["health"], ["fit", "warnings", "no_quorum"][code], "health")
    equal([node["uri"] for node in found["nodes"]], nodes or quorum.uris, "nodes")
    equal(found["fit"], sum(node["fit"] for node in found["nodes"]), "fit nodes")
    for node in found["nodes"]:
        ranks = [one["severity"] for one in node["findings"]]
        equal(node["fit"], "defect" not in ranks, f"fit: {node}")
    details = [one["detail"] or "" for node in found["nodes"] for one in node["findings"]]
    check(any(re.search(detail, one) for one in details or [""]), f"{detail} in {details}")
    table = ask(quorum, *words, nodes=nodes, env=env).expect(code, err="^$").out
    equal(told(table), {node["uri"]: (
        "unfit" if not node["fit"] else
        "warning" if any(one["severity"] == "warning" for one in node["findings"]) else "fit",
        sorted((one["severity"], one["code"]) for one in node["findings"]))
        for node in found["nodes"]},
        f"table {table}")
    equal(keys(quorum), before, "keys")
    return found


@case("no finding: 0, also with --strict and --durable")
def _():
    with durable() as quorum:
        for words in ([], ["--strict"], ["--strict", "--durable"]):
            found = expect(quorum, FIT, [[], [], []], "", *words)
            equal([node["fsync"] for node in found["nodes"]], ["always"] * 3, "fsync")
            equal([node["maxmemory_policy"] for node in found["nodes"]], ["noeviction"] * 3,
                  "policy")
            for node in found["nodes"]:
                matches(node["version"], r"^(redis|valkey) \d+\.\d+\.\d+$", "version")
                check(abs(node["offset_us"]) <= node["offset_err_us"] + 1000, f"clock of {node}")
        matches(ask(quorum).out, r"3 of 3 nodes are fit, 2 are needed: fit\n$", "the last line")


@case("fsync and restarts: warnings; defects with --strict or --durable")
def _():
    with durable() as quorum:
        def each(wanted, detail):
            expect(quorum, WARNINGS, wanted, detail)
            expect(quorum, WARNINGS, wanted, detail, "--strict")  # one defect of three nodes
            # no client keeps a durable node out
            found = expect(quorum, WARNINGS, wanted, detail.partition(";")[0], "--durable")
            equal(found["fit"], 2, "fit nodes")
        quorum[1].call("CONFIG", "SET", "appendfsync", "everysec")
        each([[], ["forgets_seconds"], []], "^appendfsync everysec; a client keeps a node that "
             "restarted out for 66.6 s, less with a shorter max-ttl$")
        quorum[1].call("CONFIG", "SET", "appendfsync", "always")
        quorum[1].call("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
        each([[], ["forgets_in_rewrite"], []], "on-rewrite yes")
        quorum[1].call("CONFIG", "SET", "appendonly", "no")
        each([[], ["forgets"], []], "^appendonly no; a client keeps a node ")
        quorum[0].call("CONFIG", "SET", "appendonly", "no")
        both = [["forgets"], ["forgets"], []]
        expect(quorum, WARNINGS, both)
        expect(quorum, NO_QUORUM, both, "", "--strict")
        expect(quorum, NO_QUORUM, both, "", "--durable")


@case("an evicting policy: a defect with a limit, a warning without")
def _():
    with durable() as quorum:
        quorum[2].call("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        expect(quorum, WARNINGS, [[], [], ["could_evict"]], "volatile-ttl")
        quorum[2].call("CONFIG", "SET", "maxmemory", "1gb")
        found = expect(quorum, WARNINGS, [[], [], ["evicts"]], "volatile-ttl")
        equal([node["fit"] for node in found["nodes"]], [True, True, False], "fit")
        equal(found["nodes"][2]["maxmemory"], 1 << 30, "maxmemory")


@case("over maxmemory: SET is refused, and that is reported; two of three are no quorum")
def _():
    with durable() as quorum:
        quorum[0].call("CONFIG", "SET", "maxmemory", "1")
        expect(quorum, WARNINGS, [["over_memory"], [], []], "maxmemory 1 bytes")
        quorum[1].call("CONFIG", "SET", "maxmemory", "1")
        expect(quorum, NO_QUORUM, [["over_memory"], ["over_memory"], []])


@case("a replica is a defect, and its master has one connected")
def _():
    with durable() as quorum:
        port = quorum[0].listen()
        quorum[2].call("REPLICAOF", "127.0.0.1", port)
        lab.wait_for(lambda: "connected_slaves:1" in quorum[0].call("INFO", "replication"),
                     "a connected replica")
        expect(quorum, WARNINGS, [["has_replicas"], [], ["replica"]], "connected_slaves 1")
        expect(quorum, NO_QUORUM, [["has_replicas"], [], ["replica"]], "", "--durable")


@case("cluster mode")
def _():
    quorum = durable()
    # The bus would take port 10000, as for every other server.
    quorum[1].words += ["--cluster-enabled", "yes", "--cluster-port", str(lab.free_port())]
    with quorum:
        expect(quorum, WARNINGS, [[], ["cluster"], []])


@case("one server behind two names: the second is reported, with the first")
def _():
    with durable() as quorum:
        alias = quorum[0].path + ".alias"
        os.symlink(quorum[0].path, alias)
        nodes = [quorum.uris[0], quorum.uris[1], "unix://" + alias]
        found = ask(quorum, "--json", nodes=nodes).expect(WARNINGS).json()
        same = [node for node in found["nodes"] if node["findings"]]
        equal(len(same), 1, "nodes with findings")
        names = {nodes[0], nodes[2]}
        check(same[0]["uri"] in names, f"the node: {same}")
        equal(same[0]["findings"][0]["code"], "same_server", "code")
        other = (names - {same[0]["uri"]}).pop()
        equal(same[0]["findings"][0]["detail"], f"the other node is {other}", "detail")
        redlock("check", "-N", f"{nodes[0]},{nodes[0]}").expect(78, err="are the same", out="")


@case("dead and stopped nodes: unreachable, with the reason")
def _():
    with durable(5) as quorum:
        quorum[0].kill()
        expect(quorum, WARNINGS, [["unreachable"], [], [], [], []], "cannot connect: No such file or directory")
        quorum[1].stop()
        expect(quorum, WARNINGS, [["unreachable"], ["unreachable"], [], [], []], "no reply in time")
        quorum[2].kill()
        expect(quorum, NO_QUORUM, [["unreachable"]] * 3 + [[], []])
        quorum[1].go_on()


@case("no node at all can be reached: 2")
def _():
    nodes = ["unix://" + lab.temporary("nobody"), "redis://nobody.invalid"]
    found = redlock("check", "--json", "-N", ",".join(nodes)).expect(NO_QUORUM).json()
    equal(codes(found), [["unreachable"]] * 2, "findings")
    equal(found["nodes"][0]["version"], None, "version")


@case("passwords: wrong, or missing where one is required")
def _():
    with durable() as quorum:
        quorum[1].call("ACL", "SETUSER", "default", "resetpass", ">right")
        expect(quorum, WARNINGS, [[], ["wrong_password"], []], "requires a password")
        for server in (quorum[0], quorum[2]):
            server.call("ACL", "SETUSER", "default", "resetpass", ">wrong")
        expect(quorum, WARNINGS, [[], ["wrong_password"], []], "rejected the user or password",
               env={"REDLOCK_PASSWORD": "wrong"})


class Refusal:
    """A server that sends this on each connection, and closes it."""

    def __init__(self, text):
        self.text = text
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.uri = "redis://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                client.sendall(self.text)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@case("what a server sends before it closes: too many clients, protected mode")
def _():
    with durable() as quorum:
        quorum[1].call("CONFIG", "SET", "maxclients", "1")
        found = expect(quorum, WARNINGS, [[], ["too_many_clients"], []])
        matches(found["nodes"][1]["findings"][0]["text"], "maxclients", "the advice")
        outcome = redlock("status", "k", env=on(quorum)).expect(1)  # free
        matches(outcome.out, "reached its maxclients limit", "the output of status")
        denied, other = (Refusal(b"-DENIED Redis is running in protected mode because protected "
                                 b"mode is enabled and no password is set.\r\n") for _ in "12")
        nodes = [quorum.uris[0], denied.uri, quorum.uris[2]]
        try:
            found = expect(quorum, WARNINGS, [[], ["protected_mode"], []], nodes=nodes)
            matches(found["nodes"][1]["findings"][0]["text"], "password", "the advice")
            outcome = redlock("status", "-N", ",".join(nodes), "k").expect(1)
            matches(outcome.out, "protected mode", "the output of status")
            nodes[0] = other.uri
            redlock("status", "-N", ",".join(nodes), "k").expect(77)
            outcome = redlock("run", "-N", ",".join(nodes), "k", "true").expect(77)
            matches(outcome.err, "protected mode", "the output of run, without a wait")
        finally:
            denied.close()
            other.close()


@case("each missing right: which one, and on which keys; a refused CONFIG GET is a note")
def _():
    with durable() as quorum:
        for server in quorum.servers:
            server.call("ACL", "SETUSER", "me", "on", ">pw", "~lock:*", "&lock:*", "+@all")
        env = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "pw"}
        prefix = ["--prefix", "lock:"]
        expect(quorum, FIT, [[], [], []], "", *prefix, env=env)
        for name in ("SET", "GETRANGE", "PTTL", "PEXPIRE", "DEL", "EVALSHA"):
            quorum[2].call("ACL", "SETUSER", "me", "-" + name)
            expect(quorum, WARNINGS, [[], [], ["no_right"]], f"^{name} on keys .*\"lock:\"$",
                   *prefix, env=env)
            quorum[2].call("ACL", "SETUSER", "me", "+" + name)
        for name in ("INFO", "EVAL"):  # of the greeting
            quorum[2].call("ACL", "SETUSER", "me", "-" + name)
            expect(quorum, WARNINGS, [[], [], ["no_right"]], f"^{name}$", *prefix, env=env)
            quorum[2].call("ACL", "SETUSER", "me", "+" + name)
        quorum[2].call("ACL", "SETUSER", "me", "-time")
        expect(quorum, WARNINGS, [[], [], ["no_time"]], "^TIME$", *prefix, env=env)
        quorum[2].call("ACL", "SETUSER", "me", "+time")
        for name in ("ZADD", "ZRANGE", "ZREM", "PUBLISH"):
            quorum[2].call("ACL", "SETUSER", "me", "-" + name)
            expect(quorum, WARNINGS, [[], [], ["no_calls"]], f"^{name}$", *prefix, env=env)
            quorum[2].call("ACL", "SETUSER", "me", "+" + name)
        quorum[2].call("ACL", "SETUSER", "me", "-exists")
        expect(quorum, WARNINGS, [[], [], ["no_sets"]], "^EXISTS$", *prefix, env=env)
        quorum[2].call("ACL", "SETUSER", "me", "+exists")
        quorum[2].call("ACL", "SETUSER", "me", "resetchannels", "&other:*")
        expect(quorum, WARNINGS, [[], [], ["no_calls"]], "^PUBLISH$", *prefix, env=env)
        quorum[2].call("ACL", "SETUSER", "me", "&lock:*", "-config")
        found = expect(quorum, FIT, [[], [], ["fsync_unknown"]], "", *prefix, "--strict", env=env)
        equal(found["nodes"][2]["fsync"], None, "fsync")
        quorum[2].call("ACL", "SETUSER", "me", "+config")
        expect(quorum, NO_QUORUM, [["no_right", "no_sets", "no_calls"]] * 3, "other:", "--prefix", "other:", env=env)


@case("a command that was renamed away")
def _():
    quorum = durable()
    quorum[0].words += ["--rename-command", "EVALSHA", ""]
    with quorum:
        expect(quorum, WARNINGS, [["no_command"], [], []], "^EVALSHA$")
    quorum = durable()
    quorum[0].words += ["--rename-command", "EVAL", ""]
    with quorum:
        expect(quorum, WARNINGS, [["no_command"], [], []], "EVAL.*: ERR unknown command .?EVAL")


@case("loading, another version, another time of day")
def _():
    with durable() as quorum:
        def behind(pattern, change, code, wanted, detail):
            relay = Relay(quorum[1], pattern, change)
            try:
                return expect(quorum, code, [[], [wanted], []], detail,
                              nodes=[quorum.uris[0], relay.uri, quorum.uris[2]])
            finally:
                relay.close()
                os.unlink(relay.path)
        behind(rb"\nloading:0", b"\nloading:1", WARNINGS, "loading", "")
        behind(rb"(?<=[sy]_version:)[\d.]+", lambda was: re.sub(rb"\d", b"9", was[0]), WARNINGS,
               "other_version", r"9\.9\S* while ")
        late = lambda was: b"\r\n%d\r\n$" % (int(was[1]) + 5)
        found = behind(rb"\r\n(\d{10})\r\n\$", late, WARNINGS, "clock_off", r"by \+(4\.9|5\.0)")
        check(4500000 < found["nodes"][1]["offset_us"] < 5500000, f"offset in {found}")


@case("DEBUG that is enabled, also for local connections alone")
def _():
    quorum = durable()
    for index, value in ((0, "no"), (1, "yes"), (2, "local")):
        quorum[index].words += ["--enable-debug-command", value]
    with quorum:
        expect(quorum, WARNINGS, [[], ["debug"], ["debug"]])
        expect(quorum, NO_QUORUM, [[], ["debug"], ["debug"]], "", "--strict")


# --- fenced locks ---

def marked(*words):
    """Three nodes, admitted with these options."""
    quorum = durable().__enter__()
    redlock("admit", "--new", "--at-once", *words, env=on(quorum)).expect(0)
    return quorum


def bar(quorum, old):
    """Leaves the quarantine of the node that has no marker, once all nodes know its incarnation."""
    process = lab.start("admit", "--readmit", env=on(quorum))
    lab.wait_for(lambda: state(quorum[2]) == "barred" and
                 all(marker(server) != was for server, was in zip(quorum.servers, old)),
                 "markers")
    process.send_signal(signal.SIGINT)
    lab.finish(process).expect(130)


def change(server, number, to):
    """Replaces one word of the marker."""
    words = server.call("GET", "!marker").split()
    words[number] = to
    server.call("SET", "!marker", " ".join(words))


def each(quorum, code, detail, *others, index=2):
    """The finding of one node: a warning; a defect with --fence."""
    wanted = [[] for _ in quorum.uris]
    wanted[index] = [code]
    for at, other in others:
        wanted[at] = [other]
    found = expect(quorum, WARNINGS, wanted, detail)
    equal(found["fit"], len(wanted), "fit nodes")
    fit = sum(not one for one in wanted)
    found = expect(quorum, WARNINGS if fit > len(wanted) // 2 else NO_QUORUM, wanted, detail,
                   "--fence")
    equal(found["fit"], fit, "fit nodes with --fence")
    return found


@case("fenced locks: no finding if no node has a marker, or all do; --fence requires them")
def _():
    with durable() as quorum:
        found = expect(quorum, FIT, [[], [], []])
        equal([node["member"] for node in found["nodes"]],
              [{"state": "unmarked", "member_index": None, "generation": None, "quarantine_ms": None,
                "max_ttl_ms": None, "promises": None}] * 3, "JSON")
        matches(ask(quorum, "--fence").out, r"\nfenced locks: 0 of 3 nodes vote, 2 are needed\n",
                "the deployment")
        equal({line.split()[-1] for line in ask(quorum).out.splitlines()[1:-1]}, {"-"}, "column")
        expect(quorum, NO_QUORUM, [["unmarked"]] * 3, "", "--fence")
        redlock("admit", "--new", "--at-once", "--max-ttl", "5s", env=on(quorum)).expect(0)
        found = expect(quorum, FIT, [[], [], []], "", "--fence", "--strict", "--durable")
        equal([node["member"] for node in found["nodes"]],
              [{"state": "active", "member_index": seat, "generation": 1, "quarantine_ms": None,
                "max_ttl_ms": 5000, "promises": []} for seat in range(3)], "JSON")
        matches(ask(quorum, "--fence").out, r"\nfenced locks: 3 of 3 nodes vote, 2 are needed; "
                r"longest TTL 5\.0 s; promises: none\n", "the deployment")
        for line in ask(quorum).out.splitlines()[1:-1]:
            matches(line, r" active 1$", "column")


@case("fenced locks: --fence does not want durable memory; a promise or --durable does")
def _():
    with lab.Quorum(3) as quorum:
        equal(codes(ask(quorum, "--json").expect(1).json()), [["forgets"]] * 3, "plain locks")
        redlock("admit", "--new", "--at-once", "--max-ttl", "1s", env=on(quorum)).expect(0)
        for words in ([], ["--strict"]):
            expect(quorum, FIT, [[], [], []], "", "--fence", *words)
        expect(quorum, NO_QUORUM, [["forgets"]] * 3, "", "--fence", "--durable")
        redlock("admit", "--readmit", "--promise", "durable", env=on(quorum)).expect(0)
        found = expect(quorum, NO_QUORUM, [["not_durable"]] * 3, "^appendonly no$", "--fence")
        matches(found["nodes"][0]["findings"][0]["text"], "redlock admit --readmit --promise", "advice")


CLIENT = "redlock monitor or a client of fenced locks"
LONGEST = r" readmits it in 13\.1 s at most"


@case("fenced locks: unmarked, no majority, and in quarantine; the generation of each member")
def _():
    with marked("--max-ttl", "1s") as quorum:
        quorum[2].call("DEL", "!marker")
        each(quorum, "unmarked", f"^{CLIENT} that knew it{LONGEST}$")
        quorum[1].call("DEL", "!marker")
        each(quorum, "no_majority", "", (1, "unmarked"), (2, "unmarked"), index=0)
    with marked("--max-ttl", "1s") as quorum:
        old = [server.call("GET", "!marker") for server in quorum.servers]
        quorum[2].call("DEL", "!marker")
        bar(quorum, old)
        found = each(quorum, "quarantined", f"^{CLIENT}{LONGEST}$")
        equal([node["member"]["generation"] for node in found["nodes"]], [1, 1, 2], "generations")
        matches(ask(quorum).out, r"3\.sock [^\n]* quarantined 2\n", "column")
        new = quorum[2].call("GET", "!marker")
        quorum[2].call("SET", "!marker", old[2])
        each(quorum, "replaced", "^member index 2 has generation 2, and this node 1$")
        quorum[2].call("SET", "!marker", new)
        quorum[1].call("SET", "!marker", old[1])
        each(quorum, "quarantined", "", (1, "behind"))


@case("fenced locks: of another process, and of another deployment, with the difference")
def _():
    with marked() as quorum:
        whole = quorum[2].call("GET", "!marker")
        change(quorum[2], 6, "a" * 40)
        each(quorum, "other_process", f"^its run_id changed; {CLIENT} that knew it ")
        quorum[2].call("SET", "!marker", whole)
        change(quorum[2], 7, "a" * 40)
        each(quorum, "other_process", f"^its master_replid changed; {CLIENT} that knew it ")
        change(quorum[2], 3, "a" * 16)
        each(quorum, "other_deployment", "^deployment a{16}; most nodes belong to [0-9a-f]{16}$")
        quorum[2].call("SET", "!marker", "anything")
        each(quorum, "other_deployment", "^the key !marker holds no valid marker: it was replaced")
        quorum[2].call("SET", "!marker", whole)
        found = expect(quorum, WARNINGS, [["other_deployment"]] * 2,
                       "^its deployment has 3 nodes, but 2 are configured$", nodes=quorum.uris[:2])
        equal(found["nodes"][0]["member"]["state"], "other_deployment", "state")
        quorum[1].kill()
        expect(quorum, WARNINGS, [[], ["unreachable"], []], "", "--fence")


@case("fenced locks: promises that settings contradict, and that differ; what a lost majority needs")
def _():
    with marked("--max-ttl", "1s", "--promise", "durable") as quorum:
        def broken(detail, *others):
            wanted = [[], [], [*others, "not_durable"]]
            found = expect(quorum, WARNINGS, wanted, detail)
            equal(found["nodes"][2]["fit"], False, "fit")
        found = expect(quorum, FIT, [[], [], []], "", "--fence", "--strict")
        equal([node["member"]["promises"] for node in found["nodes"]], [["durable"]] * 3, "JSON")
        quorum[2].call("CONFIG", "SET", "appendfsync", "everysec")
        broken("^appendfsync everysec$", "forgets_seconds")
        quorum[2].call("CONFIG", "SET", "appendonly", "no")
        broken("^appendonly no$", "forgets")
        quorum[2].call("CONFIG", "SET", "appendonly", "yes")
        quorum[2].call("CONFIG", "SET", "appendfsync", "always")
        quorum[2].call("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
        broken("^no-appendfsync-on-rewrite yes$", "forgets_in_rewrite")
        quorum[2].call("CONFIG", "SET", "no-appendfsync-on-rewrite", "no")
        change(quorum[2], 5, "ds")
        expect(quorum, WARNINGS, [[], [], ["promises_differ"]],
               "^durable, sole; most markers: durable$")
        redlock("admit", "--readmit", "--promise", "durable,sole", env=on(quorum)).expect(0)
        expect(quorum, FIT, [[], [], []], "", "--fence")
        matches(ask(quorum, "--fence").out, r"; longest TTL 1\.0 s; promises: durable, sole\n",
                "the deployment")
        whole = [server.call("GET", "!marker") for server in quorum.servers]
        for server in quorum.servers[1:]:
            change(server, 6, "a" * 40)
            change(server, 5, "-")
        lost = [[], ["other_process"], ["other_process"]]
        lost[0] = ["promises_differ"]
        expect(quorum, WARNINGS, lost, "; an operator has to readmit it, in 13.1 s at most")
        for server, text in zip(quorum.servers, whole):
            server.call("SET", "!marker", text)
            change(server, 5, "s")
        for server in quorum.servers[1:]:
            change(server, 6, "a" * 40)
        expect(quorum, WARNINGS, [[], *lost[1:]], f"; once all nodes reply, {CLIENT}{LONGEST}")


@case("a lock that is held stays as it is, and no check script writes")
def _():
    with durable() as quorum:
        for server in quorum.servers:
            server.call("SET", "k", "token", "PX", 600000)
        expires = [server.call("PEXPIRETIME", "k") for server in quorum.servers]
        expect(quorum, FIT, [[], [], []])
        equal(quorum.values("k"), ["token"] * 3, "values")
        equal([server.call("PEXPIRETIME", "k") for server in quorum.servers], expires, "expiry")
        for server in quorum.servers:
            matches(server.call("INFO", "stats"), "expired_keys:0\r", "keys that expired")


@case("what is printed where: --json, -q, colours, operands, a full disk, no descriptors")
def _():
    with durable() as quorum:
        quorum[0].kill()
        ask(quorum, "-q").expect(WARNINGS, err="^$", out="")
        matches(ask(quorum, "--color=always").out, "\033\\[31munfit *\033\\[0m", "colours")
        check("\033" not in ask(quorum).out, "colours in a pipe")
        ask(quorum, "k").expect(64, err="one operand too many", out="")
        redlock("check").expect(78, err="no nodes", out="")
        with open("/dev/full", "wb") as full:
            redlock("check", env=on(quorum), stdout=full).expect(125, err="stdout: ")
        process = lab.spawn(["sh", "-c", 'ulimit -n 4; exec "$0" check', lab.program],
                            env=lab.environment(on(quorum)), stdout=lab.subprocess.PIPE,
                            stderr=lab.subprocess.PIPE)
        lab.finish(process).expect(NOT_TRIED, err="Too many open files: .*ulimit -n", out="")


lab.main(servers=0)

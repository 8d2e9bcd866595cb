#!/usr/bin/env python3
"""redlock admit: nodes become a deployment and stay one; an admission is complete or leaves nothing."""
import os
import signal
import time

import lab
from fencing import (ADMITTED, LOOK_SECONDS, QUARANTINE_S, SHORT, TTL, fence, found, is_without_a_vote, marker, state, states,
                     together)
from lab import case, check, equal, matches, on, redlock

NOT_YET, UNREACHED, DENIED, CONFIG, LOST = 75, 69, 77, 78, 124


def admit(quorum, *words, env=None):
    return redlock("admit", *words, env={**on(quorum), **(env or {})})


def content(server):
    return {key: server.call("GET", key) for key in sorted(server.call("KEYS", "*"))}


def contents(quorum):
    return [content(server) if server.is_running() else None for server in quorum.servers]


def deployments(quorum):
    return {marker(server).split()[3] for server in quorum.servers if marker(server)}


def refused(quorum, code, err, *words, env=None, cause=None):
    """Checks this exit code, in words and in JSON, and that no server has changed."""
    before = contents(quorum)
    admit(quorum, *words, env=env).expect(code, err=err, out="")
    said = admit(quorum, "--json", *words, env=env).expect(code).json()
    equal(said["schema"], "redlock.admit/1", "schema")
    equal(said["cause"], cause, "cause")
    equal(contents(quorum), before, "what is stored")
    return said


# --- admitted, or refused ---

@case("--new --at-once: all vote, and fenced locks work; the report, in words and in JSON")
def _(quorum):
    outcome = found(quorum)
    matches(outcome.out, r"^5 of 5 nodes vote on fenced locks; [^\n]*\nnodes = ([^\n]*)\n$", "out")
    equal(outcome.out.splitlines()[1], "nodes = " + quorum.nodes, "configuration")
    equal(states(quorum), ["sound"] * 5, "states")
    equal(len(deployments(quorum)), 1, "deployments")
    check(int(fence(quorum).expect(0).out) > 10**15, "a fence")
    quorum.reset()
    said = admit(quorum, "--new", "--at-once", "--json").expect(0, err=ADMITTED).json()
    equal([said[name] for name in ("schema", "how", "cause", "node", "configuration")],
          ["redlock.admit/1", "at_once", "ok", None, "nodes = " + quorum.nodes], "JSON")
    equal([node["verdict"] for node in said["nodes"]], ["active"] * 5, "verdicts")


@case("--new says which longest TTL it takes of the configuration, and --max-ttl goes before it")
def _(quorum):
    path = lab.write(lab.temporary("redlock.conf"), "max-ttl = 7s\n")
    longest = "^redlock: no fenced lock of these nodes will have a TTL above 7.0 s, by max-ttl of the configuration\n"
    admit(quorum, "--new", "--at-once", env={"REDLOCK_CONFIG": path}).expect(0, err=longest)
    fence(quorum, "-t", "8s").expect(64, err="longer than the --max-ttl")
    quorum.reset()
    admit(quorum, "--new", "--at-once", "--max-ttl", "9s",
          env={"REDLOCK_CONFIG": path}).expect(0, err=ADMITTED)
    fence(quorum, "-t", "9s").expect(0)


@case("the longest TTL is raised by emptying all nodes and --new: fences rise, and clients need nothing")
def _(quorum):
    found(quorum, "--max-ttl", "5s")
    first = int(fence(quorum, "-t", "5s").expect(0).out)
    fence(quorum, "-t", "6s").expect(64, err="longer than the --max-ttl")
    leads = lab.temporary("leads")
    leader = lab.start("elect", "-t", "5s", "boss", "--", "sh", "-c", f"echo >> {leads}; exec sleep 300",
                       env=on(quorum))
    lab.wait_for(lambda: os.path.exists(leads), "a leader")
    quorum.reset()
    admit(quorum, "--new", "--max-ttl", "6s").expect(0, err=ADMITTED)
    check(int(fence(quorum, "-t", "6s").expect(0).out) > first, "the fence does not rise")
    lab.wait_for(lambda: len(lab.read(leads).splitlines()) == 2, "the leader again", 60)
    leader.terminate()
    lab.finish(leader).expect(128 + signal.SIGTERM)


@case("--new twice, with a marker on one node, or a malformed one: 75, and nothing is changed")
def _(quorum):
    found(quorum)
    fence(quorum).expect(0)
    for words in (["--new"], ["--new", "--at-once"]):
        said = refused(quorum, NOT_YET, r"1\.sock: it has a marker: nothing was changed", *words,
                       cause="not_empty")
        equal(said["node"], quorum.uris[0], "node")
    one = marker(quorum[3])
    quorum.reset()
    for text in (one, "anything"):
        quorum[3].call("SET", "!marker", text)
        refused(quorum, NOT_YET, r"4\.sock: ", "--new", "--at-once", cause="not_empty")
        if text == "anything":
            refused(quorum, CONFIG, "nothing was changed", "--readmit", cause="wrong_deployment")


@case("--new with a key of the prefix: 75, and the key is named; other prefixes do not matter")
def _(quorum):
    quorum[4].call("SET", "job", "token")
    refused(quorum, NOT_YET, r"5\.sock: it has the key job: nothing", "--new", "--at-once",
            cause="not_empty")
    for prefix, key in (("a*[b]", "a*[b]x"), ("x:", "x:y"), ("\\", "\\z")):
        for server in quorum.servers:  # equal only if the prefix is taken for a pattern
            server.call("SET", "aa[b]x", "1")
            server.call("SET", "X:y", "1")
        quorum[1].call("SET", key, "1")
        refused(quorum, NOT_YET, "it has the key", "--new", "--at-once", "--prefix", prefix,
                cause="not_empty")
        quorum[1].call("DEL", key)
        found(quorum, "--prefix", prefix)
        fence(quorum, "--prefix", prefix).expect(0)
    equal(quorum.values("!marker"), [None] * 5, "markers without a prefix")


@case("--new among very many keys of others: all of them are scanned")
def _(quorum):
    quorum[2].call("EVAL", "for i = 1, 20000 do redis.call('SET', 'other:' .. i, '') end", 0)
    quorum[2].call("SET", "mine:1", "")
    before = quorum[2].call("DBSIZE")
    admit(quorum, "--new", "--at-once", "--prefix", "mine:").expect(NOT_YET, err="the key mine:1")
    equal(quorum[2].call("DBSIZE"), before, "keys")
    quorum[2].call("DEL", "mine:1")
    found(quorum, "--prefix", "mine:")


@case("with a node down: 69; refused by one: 77; nothing is changed")
def _(quorum):
    quorum.kill(2)
    for words in (["--new"], ["--new", "--at-once"], ["--readmit"]):
        said = refused(quorum, UNREACHED, r"3\.sock: cannot connect.*not all nodes replied", *words,
                       cause="unreached")
        equal(said["node"], quorum.uris[2], "node")
    quorum.start()
    quorum[1].call("ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-scan")
    env = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "pw"}
    for index in (0, 2, 3, 4):
        quorum[index].call("ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all")
    refused(quorum, DENIED, r"2\.sock: the user lacks a right", "--new", "--at-once", env=env,
            cause="denied")
    env["REDLOCK_PASSWORD"] = "other"
    refused(quorum, DENIED, r"1\.sock: the server rejected", "--new", env=env, cause="unreached")
    for server in quorum.servers:
        server.call("ACL", "DELUSER", "me")


@case("two or three admit the same nodes at once: at most one wins, and no part of the others is left")
def _(quorum):
    won = 0
    for turn in range(24):
        words = ["--new", "--at-once", "-w", "20s"]
        rivals = [lab.start("admit", *words, env=on(quorum)) for _ in range(2 + turn % 2)]
        ended = [lab.finish(rival) for rival in rivals]
        codes = sorted(one.code for one in ended)
        check(set(codes) <= {0, NOT_YET} and codes.count(0) <= 1, f"{[str(one) for one in ended]}")
        for one in ended:
            if one.code:
                matches(one.err, "has a marker|another admits these nodes", "the loser")
        if codes[0] == 0:
            won += 1
            equal(states(quorum), ["sound"] * 5, "states")
            equal(len(deployments(quorum)), 1, "deployments")
        else:
            equal(contents(quorum), [{}] * 5, "what is left")
        quorum.reset()
    check(won > 0, "no admission ever wins")


@case("clients of {1,2,3} and {3,4,5} of an admitted five are refused, with the reason")
def _(quorum):
    found(quorum)
    fence(quorum).expect(0)
    before = contents(quorum)
    for indexes in ((0, 1, 2), (2, 3, 4)):
        env = {"REDLOCK_NODES": ",".join(quorum.uris[index] for index in indexes)}
        fence(quorum, wait="0", env=env).expect(69, err="belongs to another deployment.*"
                                              "compare the list", out="")
        refused(quorum, CONFIG, "belongs to another deployment", "--readmit", env=env,
                cause="wrong_deployment")
        refused(quorum, NOT_YET, "nothing was changed", "--new", env=env, cause="not_empty")
    equal(contents(quorum), before, "what is stored")


@case("most of them flushed: only an operator can recover them, and the output says so")
def _(quorum):
    found(quorum)
    name = deployments(quorum)
    for index in (0, 2, 3):
        quorum[index].call("FLUSHALL")
    fence(quorum, wait="0").expect(69, err="readmit .* by redlock admit --readmit", out="")
    refused(quorum, NOT_YET, "it has a marker", "--new", cause="not_empty")
    admit(quorum, "--readmit", "-w", "1s").expect(NOT_YET, err="2 of 5 nodes vote")
    equal(deployments(quorum), name, "deployments")
    equal(states(quorum), ["barred", "sound", "barred", "barred", "sound"], "states")


@case("those with markers are down and the others flushed: no advice to admit all as new")
def _(quorum):
    found(quorum)
    for index in (0, 2, 3):
        quorum[index].call("FLUSHALL")
    quorum.kill(1, 4)
    last = r"no connected node has a marker[^\n]*; correct the faults of the other nodes first[^\n]*\n$"
    fence(quorum, wait="0").expect(69, err=last, out="")


@case("most come back with older data: the advice is to delete their markers, for --readmit")
def _(quorum):
    found(quorum)
    older = {index: marker(quorum[index]) for index in (0, 2, 3)}
    for index in older:
        quorum[index].call("FLUSHALL")
    admit(quorum, "--readmit", "-w", "1s").expect(NOT_YET)
    equal(states(quorum), ["barred", "sound", "barred", "barred", "sound"], "states")
    for index, text in older.items():
        quorum[index].call("SET", "!marker", text)
    advice = ("assigned again.*; put the servers that replaced these into the list of nodes; if none "
              "did, delete the key !marker of these and run redlock admit --readmit")
    fence(quorum, wait="0").expect(69, err=advice, out="")
    admit(quorum, "--readmit").expect(CONFIG, err=advice, out="")
    for index in older:
        quorum[index].call("DEL", "!marker")
    fence(quorum, wait="0").expect(69, err="readmit them by redlock admit --readmit", out="")
    admit(quorum, "--readmit", "-w", "1s").expect(NOT_YET, err="2 of 5 nodes vote")


@case("wrong words: 64; wrong nodes: 78")
def _(quorum):
    for words in ([], ["--new", "--readmit"], ["--at-once", "--readmit"], ["--replace", "x"], ["k"],
                  ["--replace", quorum.uris[0] + "="], ["--new", "-w", "soon"]):
        admit(quorum, *words).expect(64, out="")
    admit(quorum, "--replace", "redis://a=redis://b").expect(CONFIG, err="not one of the nodes")
    admit(quorum, "--replace", f"{quorum.uris[0]}={quorum.uris[1]}").expect(CONFIG, err="same")
    known = {"REDLOCK_NODES": ",".join(["redis://me:pw@127.0.0.1:1", *quorum.uris[1:]])}
    said = admit(quorum, "--replace", f"redis://127.0.0.1:1={quorum.uris[0]}", env=known)
    said.expect(CONFIG, err="nothing was changed")  # OLD is found without its password
    for scheme in ("rediss", "unixs"):
        old = f"{scheme}://127.0.0.1:1"
        admit(quorum, "--replace", f"{old}={quorum.uris[0]}", env=known).expect(
            CONFIG, err="not one of the nodes")
    admit(quorum, "--new", "--max-ttl", "25h").expect(CONFIG, err="--max-ttl is 25 h 0 min, and must be at most 24 h 0 min")
    equal(quorum.keys(), 0, "keys")


@case("--replace is refused: 75 with a marker or a key there, 69 down, 78 where nothing was admitted")
def _(quorum):
    with lab.Quorum(1) as spare:
        words = ["--replace", f"{quorum.uris[0]}={spare.uris[0]}"]
        refused(quorum, CONFIG, "nothing was changed", *words, cause="unadmitted")
        found(quorum, *SHORT)
        spare[0].call("SET", "!marker", marker(quorum[0]))
        refused(quorum, NOT_YET, "nothing was changed", *words, cause="not_empty")
        spare[0].call("DEL", "!marker")
        spare[0].call("SET", "job", "someone")
        said = refused(quorum, NOT_YET, "nothing was changed", *words, cause="not_empty")
        equal((said["node"], said["text"]), (spare.uris[0], "it has the key job"), "the reason")
        equal(spare[0].call("KEYS", "*"), ["job"], "the replacement's keys")
        spare[0].call("DEL", "job")
        quorum[4].call("FLUSHALL")
        said = refused(quorum, NOT_YET, "5.sock: .*--readmit, which waits for this node", *words, cause="member_inactive")
        equal(said["node"], quorum.uris[4], "node")
        equal(spare.keys(), 0, "keys of the replacement")
        spare.kill(0)
        refused(quorum, UNREACHED, "not all nodes replied", *words, cause="unreached")


# --- cases that take a quarantine: all at the same time ---

def waits(quorum, *words):
    """Waits until all vote, which takes a quarantine; checks the progress in between."""
    outcome = admit(quorum, *words).expect(0)
    check(QUARANTINE_S <= outcome.seconds, f"it took {outcome.seconds} s")
    lines = outcome.err.splitlines()
    check(1 <= len(lines) <= 3 + outcome.seconds / 10, f"lines: {lines}")  # about one in ten seconds
    # The first line comes after a second; a busy machine may not have written the marker by then.
    matches(outcome.err, r"admit: waiting: \d of \d nodes vote; [^\n]*: another (1[0-2]|\d)\.\d s",
            "progress")
    equal(states(quorum), ["sound"] * len(quorum.servers), "states")
    fence(quorum).expect(0, err="^$")
    return outcome


def as_new():
    with lab.Quorum(3) as quorum:
        waits(quorum, "--new", *SHORT)


def flushed():
    """One of five forgets: the others continue, and it does not vote before its quarantine ends."""
    with lab.Quorum(5) as quorum:
        found(quorum, *SHORT)
        first = int(fence(quorum).expect(0).out)
        quorum[1].call("FLUSHALL")
        process = lab.start("admit", "--readmit", env=on(quorum))
        lab.wait_for(lambda: state(quorum[1]) == "barred", "a seat")
        fences = [first]

        def vote():
            fences.append(int(fence(quorum).expect(0).out))
            check(fences[-1] > fences[-2], f"the fences {fences[-2:]}")
        while is_without_a_vote(quorum[1], vote):
            time.sleep(LOOK_SECONDS)
        check(len(fences) > 5, f"{len(fences)} locks meanwhile")
        lab.finish(process).expect(0)
        vote()
        lab.wait_for(lambda: quorum[1].call("GET", "k!fence") or fence(quorum) is None, "its vote")


def restarted_empty():
    with lab.Quorum(3) as quorum:
        found(quorum, *SHORT)
        quorum.kill(2)
        fence(quorum).expect(0)
        quorum.start()
        waits(quorum, "--readmit")


def all_restarted():
    """All five restart with what they had stored: they attest for each other, and wait."""
    quorum = lab.Quorum(5)
    for index, server in enumerate(quorum.servers):
        server.words += ["--dbfilename", f"{index}.rdb"]
    with quorum:
        found(quorum, *SHORT)
        name = deployments(quorum)
        for index, server in enumerate(quorum.servers):
            server.call("SAVE")
            quorum.kill(index)
        quorum.start()
        fence(quorum, wait="0").expect(69, err="run_id.*admit --readmit", out="")
        waits(quorum, "--readmit")
        equal(deployments(quorum), name, "deployments")


def interrupted():
    """Ctrl-C and a timeout keep what was begun; the next admit continues it."""
    with lab.Quorum(3) as quorum:
        process = lab.start("admit", "--new", *SHORT, env=on(quorum))
        lab.wait_for(lambda: states(quorum) == ["barred"] * 3, "markers")
        name = deployments(quorum)
        process.send_signal(signal.SIGINT)
        lab.finish(process).expect(130, err="redlock admit --readmit continues it", out="")
        equal(states(quorum), ["barred"] * 3, "states")
        fence(quorum, wait="0").expect(69, err="in quarantine", out="")
        admit(quorum, "--readmit", "-w", "200ms").expect(NOT_YET, err="the wait ran out: 0 of 3")
        said = admit(quorum, "--readmit", "-w", "200ms", "--json").expect(NOT_YET).json()
        equal(said["cause"], "timeout", "cause")
        waits(quorum, "--readmit")
        equal(deployments(quorum), name, "deployments")


def kept_by_a_holder():
    """A client that holds a fenced lock brings a node back, without an operator."""
    with lab.Quorum(3) as quorum:
        found(quorum, *SHORT)
        def hold():
            return lab.start("run", "-t", TTL, "-w", "1m", "--fence", "long", "sleep", "1h",
                             env=on(quorum))

        def wait_for(condition, what, seconds=lab.STATE_SECONDS):
            def is_so():
                nonlocal process
                if process.poll() is not None:  # the machine stood still for a TTL
                    lab.finish(process).expect(LOST)
                    process = hold()
                return condition()
            lab.wait_for(is_so, what, seconds)

        process = hold()
        wait_for(lambda: quorum.values("long").count(None) == 0, "a lock on all nodes")
        quorum.kill(0)
        quorum.start()
        wait_for(lambda: state(quorum[0]) == "barred", "a seat")
        wait_for(lambda: state(quorum[0]) == "sound", "a vote", QUARANTINE_S + lab.STATE_SECONDS)
        wait_for(lambda: quorum[0].call("GET", "long"), "the lock, also on that node")
        process.send_signal(signal.SIGTERM)
        lab.finish(process).expect(128 + signal.SIGTERM)


def replaced():
    """Under load: the fences keep rising, the old member votes no more, the new one does."""
    with lab.Quorum(5) as quorum, lab.Quorum(1) as spare:
        found(quorum, *SHORT)
        last = int(fence(quorum).expect(0).out)
        new_list = quorum.uris[:1] + spare.uris + quorum.uris[2:]
        process = lab.start("admit", "--replace", f"{quorum.uris[1]}={spare.uris[0]}",
                            env=on(quorum))
        lab.wait_for(lambda: state(spare[0]) == "barred", "a seat")
        turns = 0
        while process.poll() is None:
            nodes = [quorum.uris, new_list][turns % 2]
            turns += 1
            now = int(fence(quorum, env={"REDLOCK_NODES": ",".join(nodes)}).expect(0).out)
            check(now > last, f"the fence {now} after {last}")
            last = now
        outcome = lab.finish(process).expect(0)
        equal(outcome.out.splitlines()[-1], "nodes = " + ",".join(new_list), "configuration")
        check(turns > 5, f"{turns} locks meanwhile")
        quorum[1].call("DEL", "k!fence")
        check(int(fence(quorum).expect(0).out) > last, "the fence of a client with the old list")
        equal(quorum[1].call("GET", "k!fence"), None, "the vote of the replaced server")
        admit(quorum, "--readmit").expect(CONFIG, err="put the server that replaced this one into", out="")
        fence(quorum, env={"REDLOCK_NODES": ",".join(new_list)}).expect(0)
        lab.wait_for(lambda: spare[0].call("GET", "k!fence") or
                     fence(quorum, env={"REDLOCK_NODES": ",".join(new_list)}) is None,
                     "the vote of the replacement")


@case("--new, --readmit and --replace, each with a quarantine, and the locks in that time")
def _(_quorum):
    together(as_new, flushed, restarted_empty, all_restarted, interrupted, kept_by_a_holder,
             replaced)


@case("on a terminal a line per node is redrawn")
def _(quorum):
    ours, theirs = os.openpty()
    process = lab.start("admit", "--new", *SHORT, "-w", "3s", env=on(quorum), stderr=theirs)
    os.close(theirs)
    lab.finish(process).expect(NOT_YET, out="")
    shown = ""
    while "the wait ran out" not in shown:
        shown += os.read(ours, 4096).decode()
    os.close(ours)
    frames = shown.split("\033[5A")
    check(3 <= len(frames) <= 20, f"{len(frames)} frames: {shown!r}")
    for line in frames[1].splitlines()[:5]:
        matches(line, r"^\033\[K.*\.sock  another (1[012]|\d)\.\d s$", "a line")
    matches(shown, "the wait ran out: 0 of 5 nodes vote", "the end")


lab.main()

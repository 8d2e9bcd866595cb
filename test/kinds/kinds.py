#!/usr/bin/env python3
"""Every kind of lock on five servers that die one after the other: kinds.py REDLOCK USER
[--seconds N] [--only KIND] [--json FILE]

For each kind 16 processes lock a few keys, hold them briefly, extend some and stall with others,
while one node at a time is killed and returns empty. The next one is killed only when all may
vote again. Then judge.py reads who held what: no two held what only one may hold,
and no four what three may. At last two halves of the processes take the slots of a semaphore on
different nodes, so that the judge has something to find.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import slow  # noqa: E402
import judge as judging  # noqa: E402
import lab  # noqa: E402

PROCESSES = 16
NODES = 5
KINDS = ("plain", "many", "redisson", "shared", "slots", "mixed", "fenced", "fenced-many",
         "fenced-shared", "fenced-slots")
PLAIN_S, FENCED_S = 5, 15  # between two deaths: at least the quarantine


def is_fenced(kind):
    return kind.startswith("fenced")


def keys(kind):
    """So few that the processes often wait for each other."""
    return 2 if "slots" in kind else 5


def votes(quorum):
    """How many nodes vote on fenced locks."""
    found = json.loads(lab.redlock("check", "--fence", "--json", "--timeout", "5s",
                                   env=lab.on(quorum)).out)
    return sum(node["fenced"]["state"] == "active" for node in found["nodes"])


def start(quorum, kind, folder, nodes_of):
    return [lab.spawn([options.program, kind, str(i + 1), str(keys(kind)), f"{folder}/{i}.log"],
                      env=lab.environment({"REDLOCK_NODES": nodes_of(i)}),
                      stdout=subprocess.PIPE, text=True)
            for i in range(PROCESSES)]


def end(users):
    for user in users:
        user.terminate()
    for user in users:
        lab.equal(user.wait(lab.END_SECONDS), 0, "exit code of a user")


def judge(folder):
    return judging.judge(f"{folder}/{i}.log" for i in range(PROCESSES))


def kill_nodes(quorum, kind, until):
    """One after the other, in any order; returns how many."""
    prng, deaths = random.Random(1), 0
    pause = FENCED_S if is_fenced(kind) else PLAIN_S
    while time.monotonic() + pause < until:
        server = prng.choice(quorum.servers)
        server.kill()
        server.start()
        deaths += 1
        again = time.monotonic() + pause
        if is_fenced(kind):
            lab.wait_for(lambda: votes(quorum) == NODES, "all votes")
        time.sleep(max(0, again - time.monotonic()))
    time.sleep(max(0, until - time.monotonic()))
    return deaths


def play(kind):
    folder = tempfile.mkdtemp(dir=lab.folder)
    with lab.Quorum(NODES) as quorum:
        nodes = lab.on(quorum)["REDLOCK_NODES"]
        if is_fenced(kind):
            lab.redlock("admit", "--new", "--max-ttl", "2s", env=lab.on(quorum)).expect(0)
        users = start(quorum, kind, folder, lambda i: nodes)
        deaths = kill_nodes(quorum, kind, time.monotonic() + options.seconds)
        end(users)
    found = judge(folder)
    if found.text:
        print(found.text, file=sys.stderr)
    return {"acquisitions": found.acquisitions, "violations": found.violations, "deaths": deaths}


def plant():
    """A semaphore of two groups that never meet."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    with lab.Quorum(2) as quorum:
        nodes = lab.on(quorum)["REDLOCK_NODES"].split(",")
        users = start(quorum, "slots", folder, lambda i: nodes[i % 2])
        time.sleep(min(2, options.seconds))
        end(users)
    return judge(folder)


def main():
    rows, wrong = {}, 0
    for kind in KINDS:
        if options.only and kind != options.only:
            continue
        rows[kind] = play(kind)
        wrong += rows[kind]["violations"] or not rows[kind]["acquisitions"]
        print(f"{kind:<14}{rows[kind]['acquisitions']:>9} acquisitions, "
              f"{rows[kind]['deaths']:>3} deaths, {rows[kind]['violations']:>3} violations",
              flush=True)
    planted = plant()
    print(f"{'planted':<14}{planted.acquisitions:>9} acquisitions, "
          f"{planted.violations} violations, to be found")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"kinds": rows, "planted": planted._asdict()}, indent=1) + "\n")
    return 0 if not wrong and planted.violations > 0 else 1


options = slow.arguments("kinds", 60, "of each kind", KINDS)
slow.run(main)

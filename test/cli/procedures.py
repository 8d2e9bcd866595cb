#!/usr/bin/env python3
"""The procedures of docs/production.md for fenced locks, each with a holder that it keeps or loses."""
import os
import re
import time

import lab
from fencing import ADMITTED, fence, states, together
from lab import Quorum, Skipped, case, check, durable, equal, on, redlock, wait_for
from monitoring import Monitor
from operating import ROOT, TTL, TTL_S, Holder, commands, type_in

# A restart of servers that takes longer than a holder's TTL lasts says nothing about the holder.
SOON_SECONDS = 2
TRIES = 5


def admit(quorum, *promises):
    words = ["--promise", ",".join(promises)] if promises else []
    redlock("admit", "--new", "--at-once", "--max-ttl", TTL, *words,
            env=on(quorum)).expect(0, err=ADMITTED)


def lock(quorum, **more):
    """Another fenced lock, with a TTL that these nodes allow."""
    return fence(quorum, "-t", TTL, **more)


def restart(quorum, *indexes):
    """Whether they were back before a holder could notice."""
    began = time.monotonic()
    quorum.kill(*indexes)
    quorum.start()
    return time.monotonic() - began < SOON_SECONDS


def kept_over(quorum, event):
    """The holder lives on. A try on a machine that stood still does not count."""
    for _ in range(TRIES):
        holder = Holder(quorum)
        counts = event()
        if holder.keeps() and counts:
            holder.end()
            return
        check(not counts, f"the holder lost its lock: {lab.finish(holder.process)}")
        if holder.process.poll() is None:
            holder.end()
    raise Skipped("this machine restarts servers too slowly")


# --- one node, or a power cut ---

def one_restarts():
    """Row 1, without a promise: the holder lives, and brings the node back."""
    with Quorum(3) as quorum:
        admit(quorum)
        holder = Holder(quorum)
        quorum.kill(1)
        quorum.start()
        wait_for(lambda: states(quorum)[1] == "barred", "a quarantine")
        wait_for(lambda: states(quorum)[1] == "sound", "a vote", lab.STATE_SECONDS + 60)
        check(holder.keeps(), "the holder lost its lock")
        holder.end()


def power_cut_sole():
    """Row 3: the monitor brings back empty nodes; the holder has lost its lock."""
    with Quorum(3) as quorum:
        admit(quorum, "sole")
        holder = Holder(quorum)
        with Monitor(quorum) as monitor:
            wait_for(lambda: monitor.metrics("redlock_watches_members") == {"": 1},
                     "that it watches")
            quorum.kill(0, 1, 2)
            quorum.start()
            holder.loses()
            lock(quorum, wait="3m").expect(0)


def power_cut():
    """Row 2 without a promise: nothing comes back until the operator does what the page says."""
    with durable() as quorum:
        admit(quorum)
        holder = Holder(quorum)
        quorum.kill(0, 1, 2)
        quorum.start()
        holder.loses()
        lock(quorum, wait="0").expect(69, err="without the promise sole an operator has to")
        said = redlock("check", "--fence", env=on(quorum)).expect(2).out
        equal(len(re.findall("; an operator has to readmit it, .* s at most", said)), 3, said)
        lab.matches(said, "promises: none; an operator has to run redlock admit --readmit\n", "check")
        type_in(quorum, "After a power cut", "check").expect(0)
        lock(quorum).expect(0)


def power_cut_wiped():
    """Row 3 with durable: two of three come back empty, and the operator forgets them."""
    with durable() as quorum:
        admit(quorum, "durable")
        quorum.kill(0, 1)
        for server in quorum.servers[:2]:
            server.words[server.words.index("--appenddirname") + 1] += ".new"
        quorum.start()
        redlock("admit", "--readmit", env=on(quorum)).expect(75, err="--forget")
        script = commands("After a power cut", "--forget")
        check(script.endswith(" --forget redis://empty\n"), script)
        redlock(*script.split()[1:-1], quorum.uris[0], "--forget", quorum.uris[1],
                env=on(quorum)).expect(0, err=ADMITTED)
        lock(quorum).expect(0)


def cron_only():
    """contrib/systemd: what the timer starts readmits what no client does."""
    unit = (ROOT / "contrib/systemd/admit.service").read_text()
    [command] = re.findall(r"^ExecStart=redlock (.*)$", unit, re.MULTILINE)
    with Quorum(3) as quorum:
        admit(quorum, "sole")
        quorum.kill(0, 1)
        quorum.start()
        redlock(*command.split(), env=on(quorum)).expect(0, out="", err="^$")
        lock(quorum).expect(0)


# --- other servers ---

def failed_over():
    """One address: the replica is promoted. The operator admits it."""
    with Quorum(1) as quorum, Quorum(1) as spare:
        admit(quorum)
        holder = Holder(quorum)
        spare[0].call("REPLICAOF", "127.0.0.1", quorum[0].listen())
        wait_for(lambda: spare[0].call("GET", "!marker"), "a copy of the marker")
        quorum.kill(0)
        spare[0].call("REPLICAOF", "NO", "ONE")
        os.rename(spare[0].path, quorum[0].path)
        holder.loses()
        type_in(quorum, "After a failover behind one address", "admit").expect(0, err=ADMITTED)
        lock(quorum).expect(0)


def failed_over_sole():
    """One address: another server, which is empty. A waiter that knew the node admits it."""
    with Quorum(1) as quorum:
        admit(quorum, "sole")
        observer = lab.start("elect", "--observe", "job", env=on(quorum))
        observer.stdout.readline()
        quorum.kill(0)
        quorum.start()
        lock(quorum, wait="3m").expect(0)
        observer.terminate()
        lab.finish(observer)


def replaced():
    """A server is lost for good: the holder, which has the old list, lives."""
    with Quorum(3) as quorum, Quorum(1) as spare:
        admit(quorum, "sole")
        holder = Holder(quorum)
        quorum.kill(2)
        done = type_in(quorum, "Losing a node for good", "--replace", change={
            "redis://old": quorum.uris[2], "redis://new": spare.uris[0]})
        done.expect(0, err="it was replaced, and its marker is as before")
        check(holder.keeps(), "the holder lost its lock")
        new_list = ",".join([*quorum.uris[:2], *spare.uris])
        lock(quorum, env={"REDLOCK_NODES": new_list}).expect(0)
        holder.end()


@case("durable: a holder lives on over a power cut, and the operator has nothing to do")
def _():
    with durable() as quorum:
        admit(quorum, "durable")
        kept_over(quorum, lambda: restart(quorum, 0, 1, 2))
        lock(quorum).expect(0)
        done = type_in(quorum, "After a power cut", "check").expect(0)
        lab.matches(done.out, f"fenced locks: 3 of 3 nodes vote, 2 are needed; longest TTL {TTL_S}.0 s; "
                    "promises: durable\n", "check")


@case("a restart, power cuts, a failover and a replacement, as docs/production.md says")
def _():
    together(one_restarts, power_cut_sole, power_cut, power_cut_wiped, cron_only, failed_over,
             failed_over_sole, replaced)


@case("the command that admits nodes")
def _():
    with durable() as quorum:
        script = commands("Fenced locks", "--new")
        equal(script, "redlock admit --new --max-ttl 1m --promise durable,sole\n", "the script")
        redlock(*script.split()[1:], "--at-once", env=on(quorum)).expect(0, err="^$")
        redlock("check", "--fence", "--strict", env=on(quorum)).expect(0)


lab.main(servers=0)

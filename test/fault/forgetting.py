#!/usr/bin/env python3
"""Fenced locks while the nodes lose their memory: forgetting.py REDLOCK; WORKER in the
environment.

Many processes acquire and release a few fenced locks, and write to a storage that compares
the tokens, while one node after the other is killed and returns empty or with an old
snapshot, is flushed, has its databases swapped, or fails over behind its address to a copy
while the old server lives on. At no time more nodes are without a vote than a quorum can
spare. The test checks: the tokens of each key rise in the order of the reports; no two holds
overlap; no write of a holder was refused; and no node that had lost its memory stored or
extended a lock before its quarantine was over, as its own MONITOR shows.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import lab  # noqa: E402
from lab import case, check, equal, main, say, wait_for  # noqa: E402

WORKERS = 8
KEYS = 6
LOSSES = int(os.environ.get("LOSSES", "30"))
ACQUISITIONS = int(os.environ.get("ACQUISITIONS", "100000"))
LOST_AT_ONCE = 2  # of five
OLD_LIVES = 20  # seconds, at most, beside the server that took its address
LAST = 10  # seconds, in which a worker must still acquire
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "contrib/fence/redis.lua"
MARKER = "!marker"


class Losses:
    """Makes nodes lose their memory, and watches each until it has its vote again."""

    def __init__(self, quorum, seed):
        self.quorum = quorum
        self.prng = random.Random(seed)
        self.lost = {}  # node: the thread that watches it
        self.count = {}
        self.votes = []  # that a node granted in its quarantine
        self.old = []  # servers that live on without their address

    def kill(self, node):
        server = self.quorum[node]
        server.kill()
        server.start()

    def snapshot(self, node):
        server = self.quorum[node]
        server.call("SAVE")
        server.kill()
        server.start()  # with what it saved: its marker, too

    def flush(self, node):
        self.quorum[node].call("FLUSHALL")

    def swap(self, node):
        self.quorum[node].call("SWAPDB", 0, 7)

    def failover(self, node):
        """Another process, with the same data, is behind the address from now on."""
        old = self.quorum[node]
        old.call("SAVE")
        new = lab.Server(self.quorum.home, 100 + sum(self.count.values()))
        shutil.copy(self.dump(node), os.path.join(self.quorum.home, "copy.rdb"))
        new.words += ["--dbfilename", "copy.rdb"]
        new.start()
        os.rename(new.path, old.path)
        new.words = [old.path if word == new.path else word for word in new.words]
        new.path, new.uri = old.path, old.uri
        old.connection = None
        self.old.append((old, time.monotonic() + self.prng.uniform(0, OLD_LIVES)))
        self.quorum.servers[node] = new
        new.words += ["--dbfilename", f"{node + 1}.rdb"]

    def dump(self, node):
        return os.path.join(self.quorum.home, f"{node + 1}.rdb")

    def watch(self, node, monitor, begins):
        """Reads MONITOR of the node until its marker is active again."""
        for line in iter(monitor.file.readline, b""):
            text = line.decode(errors="replace")
            if begins and begins not in text:
                continue
            begins = None
            if re.search(rf'"SET" "{MARKER}" "\w+ sound ', text):
                break
            if re.search(r' lua\] "(SET|PEXPIRE)" "lock:\d+" ("f:|"\d)', text):
                self.votes.append((node, text.strip()))
        monitor.__exit__()

    def begin(self):
        node = self.prng.choice([i for i in range(5) if i not in self.lost])
        way = self.prng.choice([self.kill, self.snapshot, self.flush, self.swap,
                                  self.failover])
        begins = {self.flush: "FLUSHALL", self.swap: "SWAPDB"}.get(way)
        monitor = None
        if begins:
            monitor = lab.Redis(self.quorum[node].path, timeout=120)
            monitor.call("MONITOR")
        elif os.path.exists(self.dump(node)):
            os.unlink(self.dump(node))
        way(node)
        if not monitor:
            monitor = lab.Redis(self.quorum[node].path, timeout=120)
            monitor.call("MONITOR")
        self.count[way.__name__] = self.count.get(way.__name__, 0) + 1
        self.lost[node] = threading.Thread(target=self.watch, args=(node, monitor, begins),
                                           daemon=True)
        self.lost[node].start()

    def reap(self):
        self.lost = {node: thread for node, thread in self.lost.items() if thread.is_alive()}
        self.end_old(time.monotonic())
        return len(self.lost)

    def end_old(self, now):
        """Until then a client of an old server may not have seen the new one."""
        for server, until in self.old:
            if now >= until:
                server.process.kill()
                server.process.wait()
        self.old = [(server, until) for server, until in self.old if now < until]


class Workers:
    """Processes that acquire the locks of some nodes, and the storage that they write to."""

    def __init__(self, quorum):
        self.home = quorum.home
        self.running = []
        self.storage = lab.Server(quorum.home, 50)
        self.storage.start()
        self.script = self.storage.call("SCRIPT", "LOAD", SCRIPT.read_text())

    def start(self, count, nodes):
        for _ in range(count):
            index = len(self.running) + 1
            log = os.path.join(self.home, f"{index}.holds")
            words = [os.environ["WORKER"], str(index), str(KEYS), self.storage.path,
                     self.script, log]
            process = lab.spawn(words, env=lab.environment({"REDLOCK_NODES": nodes}))
            self.running.append((process, log))

    def check(self):
        for process, _ in self.running:
            check(process.poll() is None, f"a worker ended: {process.returncode}")

    def finish(self):
        """Ends them, and returns all their holds in the order of the reports."""
        for process, _ in self.running:
            process.send_signal(signal.SIGTERM)
        holds = []
        for process, log in self.running:
            equal(process.wait(20), 0, "exit of a worker")
            with open(log, encoding="ascii") as file:
                holds += [tuple(map(int, line.split())) for line in file]
        return sorted(holds, key=lambda hold: hold[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in self.running:
            process.kill()
            process.wait()
        self.storage.kill()


def judge(holds):
    last = {}
    for key, told, end, fence, stored in holds:
        check(stored != 0, f"a write of a holder was refused: key {key}, token {fence}")
        if key in last:
            check(fence > last[key][1], f"key {key}: token {fence} after {last[key][1]}")
            check(told >= last[key][0],
                  f"key {key}: {fence} was told {last[key][0] - told} us before "
                  f"{last[key][1]} ended")
        last[key] = (end, fence)


def admit(quorum):
    lab.redlock("admit", "--new", "--at-once", "--max-ttl", "1s", env=lab.on(quorum)).expect(0)


def lose(losses, workers):
    """Until there were enough losses, and every node has its vote again."""
    while True:
        workers.check()
        lost = losses.reap()
        if sum(losses.count.values()) < LOSSES:
            if lost < LOST_AT_ONCE:
                losses.begin()
        elif not lost:
            break
        time.sleep(losses.prng.random())


@case("tokens rise and holds never overlap while the nodes lose their memory")
def _(quorum):
    seed = int(os.environ.get("SEED", time.time_ns() % 10 ** 9))
    say(f"SEED={seed}")
    admit(quorum)
    losses = Losses(quorum, seed)
    begun = time.monotonic()
    try:
        with Workers(quorum) as workers:
            workers.start(WORKERS, quorum.nodes)
            lose(losses, workers)
            calm = time.monotonic()
            wait_for(lambda: time.monotonic() > calm + LAST, "the last seconds", 2 * LAST)
            holds = workers.finish()
    finally:
        losses.end_old(float("inf"))
    late = sum(hold[1] > calm * 1e6 for hold in holds)
    say(json.dumps({
        "acquisitions": len(holds), "losses": losses.count,
        "seconds": round(time.monotonic() - begun), "in_the_last_seconds": late,
        "refused_after_their_deadline": sum(hold[4] < 0 for hold in holds),
        "votes_in_quarantine": len(losses.votes)}))
    judge(holds)
    equal(losses.votes, [], "votes of nodes in quarantine")
    check(late > 0, "no worker acquired in the end")
    check(len(holds) >= ACQUISITIONS, f"only {len(holds)} acquisitions")


@case("one of five is replaced under load, with clients of the old list and of the new one")
def _(quorum):
    admit(quorum)
    with lab.Quorum(1) as spare, Workers(quorum) as workers:
        new_list = ",".join([*quorum.uris[:2], *spare.uris, *quorum.uris[3:]])
        workers.start(WORKERS // 2, quorum.nodes)
        process = lab.start("admit", "--replace", f"{quorum.uris[2]}={spare.uris[0]}",
                            env=lab.on(quorum))
        wait_for(lambda: spare[0].call("GET", MARKER), "a seat")
        workers.start(WORKERS // 2, new_list)
        lab.finish(process, seconds=60).expect(0)
        replaced = time.monotonic()
        wait_for(lambda: time.monotonic() > replaced + LAST, "the last seconds", 2 * LAST)
        workers.check()
        votes = [server.call("INFO", "commandstats") for server in (quorum[2], spare[0])]
        holds = workers.finish()
    since = [hold for hold in holds if hold[1] > replaced * 1e6]
    say(json.dumps({"acquisitions": len(holds), "since_it_was_replaced": len(since)}))
    judge(holds)
    check(since, "no worker acquired after it was replaced")
    check("cmdstat_set" in votes[1], "the new member never voted")


class Snapshots(lab.Quorum):
    """Each server saves to its own file."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        for index, server in enumerate(self.servers):
            server.words += ["--dbfilename", f"{index + 1}.rdb"]


if __name__ == "__main__":
    lab.Quorum = Snapshots
    lab.CASE_SECONDS = 900
    main()

#!/usr/bin/env python3
"""Jobs of `redlock run` that must not work without the lock: jobs.py REDLOCK FAST [--runs N]
[--only WORD]

Each run has its own lock on the same five servers, and several run at once.

    keeper  the keeper is stopped before it starts the command, and redlock soon after that;
            once another client has the lock, both continue, in either order
    left    a job whose worker is in another process group or session; redlock gets SIGTERM, or
            the command ends by itself

In the first the command writes the time as its first action: a time after another client was
granted the lock is a failure. In the second the worker writes it all the time: a time after
the lock was free on all nodes is a failure.
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
sys.dont_write_bytecode = True
import lab  # noqa: E402

LANES = 4
TTL_MS = 300
STOP_WITHIN_S = 0.05  # after the lock was granted redlock is stopped, at random
AFTER_S = 0.03  # the time that a surviving worker has to write

AWAY = {
    "timeout": "timeout 20 {}",
    "set -m": "bash -c 'set -m; {} & wait'",
    "setsid": "setsid {} & wait",
    "orphan": "(setsid {} &) & wait; while :; do sleep 0.05; done",
    "nohup": "(nohup {} >/dev/null 2>&1 &) ; while :; do sleep 0.05; done",
}


class Nodes:
    """The servers, with connections of this test alone."""

    def __init__(self, quorum, key):
        self.redis = [lab.Redis(server.path) for server in quorum.servers]
        self.key = key

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for redis in self.redis:
            redis.call("DEL", self.key)
            redis.__exit__()

    def values(self):
        return [redis.call("GET", self.key) for redis in self.redis]

    def take(self):
        """As another client: returns when all nodes have granted it, in us."""
        for redis in self.redis:
            lab.wait_for(lambda r=redis: r.call("SET", self.key, "other", "NX", "PX", 60000),
                         "the end of the lock")
        return lab.now_us()

    def leave(self):
        for redis in self.redis:
            redis.call("DEL", self.key)


def wrote_late(out, granted_us):
    if not os.path.exists(out):
        return False
    text = lab.read(out)
    if text:
        return int(text) >= granted_us
    offset_us = lab.now_us() - time.time_ns() // 1000  # killed between its first two actions
    return os.stat(out).st_mtime_ns // 1000 + offset_us >= granted_us


def keeper_of(process):
    def look():
        children = lab.read(f"/proc/{process.pid}/task/{process.pid}/children").split()
        return children and lab.read(f"/proc/{children[0]}/comm") == "lock-keeper\n" and children[0]
    return int(lab.wait_for(look, "the keeper"))


def keeper(quorum, nodes, out):
    nodes.take()
    process = lab.start("run", "-t", f"{TTL_MS}ms", nodes.key, fast, out, env=lab.on(quorum))
    stopped = [keeper_of(process), process.pid]
    os.kill(stopped[0], signal.SIGSTOP)
    nodes.leave()
    lab.wait_for(lambda: any(nodes.values()), "the lock")
    time.sleep(random.uniform(0, STOP_WITHIN_S))
    os.kill(process.pid, signal.SIGSTOP)
    granted = nodes.take()
    random.shuffle(stopped)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    with contextlib.suppress(Exception):
        process.wait(2)
    process.terminate()
    lab.finish(process)
    return wrote_late(out, granted)


def left(quorum, nodes, out):
    script = random.choice(list(AWAY.values())).format(shlex.join(lab.beat(out)))
    ends_by_itself = random.random() < 0.5
    if ends_by_itself:
        script = f"({script}) & until [ -s {out} ]; do sleep 0.01; done"
    process = lab.start("run", nodes.key, "sh", "-c", script, env=lab.on(quorum),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.wait_for_beats(out)
    if not ends_by_itself:
        process.terminate()
    lab.wait_for(lambda: not any(nodes.values()), "the release")
    free = lab.now_us()
    lab.redlock("status", nodes.key, env=lab.on(quorum)).expect(1)
    process.wait(20)
    time.sleep(AFTER_S)
    return max(lab.beats(out).values()) >= free


def one(what, quorum, index):
    out = lab.temporary("out")
    with Nodes(quorum, f"{what.__name__}-{index}") as nodes:
        return what(quorum, nodes, out)


def play(what, quorum, runs):
    """How often the job worked without the lock."""
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        late = sum(lanes.map(lambda index: one(what, quorum, index), range(runs)))
    lab.kill_what_is_left()
    print(f"{what.__name__:7} {late} of {runs} runs worked without the lock", flush=True)
    return late


def main():
    global fast
    words = argparse.ArgumentParser(prog="./dev try jobs")
    words.add_argument("redlock")
    words.add_argument("fast")
    words.add_argument("--runs", type=int, default=100, help="of each kind (%(default)s)")
    words.add_argument("--only", choices=("keeper", "left"), help="only this kind")
    options = words.parse_args()
    lab.program, fast = map(os.path.abspath, (options.redlock, options.fast))
    chosen = [what for what in (keeper, left) if options.only in (None, what.__name__)]
    with lab.Quorum() as quorum:
        return sum(play(what, quorum, options.runs) for what in chosen) > 0


if __name__ == "__main__":
    lab.run(main)

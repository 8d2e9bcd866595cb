#!/usr/bin/env python3
"""The rolling restart of docs/production.md, under holders of every kind."""
import importlib.util
import os
import pathlib
import re
import sys

import lab
from fencing import found
from lab import case, check, equal
from operating import Hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/production.md"
TTL = "5s"
PLAIN = {  # each a redlock run or elect; its name is its key
    "plain": ["run"],
    "other": ["run"],
    "slot": ["run", "--slots", "2"],
    "reader": ["run", "--shared"],
    "set": ["run", "--and", "set-2", "--and", "set-3"],
    "redisson": ["run", "--redisson"],
}
FENCED = {
    "fenced": ["run", "--fence"],
    "leader": ["elect"],
    "slot": ["run", "--fence", "--slots", "2"],
    "reader": ["run", "--fence", "--shared"],
    "set": ["run", "--fence", "--and", "set-2"],
}


def procedure():
    """The lines of the page's script."""
    blocks = re.findall(r"(?:^    .*\n)+", lab.read(PAGE), re.MULTILINE)
    [block] = [block for block in blocks if "systemctl restart" in block]
    return "".join(line[4:] for line in block.splitlines(True))


class Holder:
    """A process that writes signs of life while it holds the lock of this name."""

    def __init__(self, name, words, env):
        self.name = name
        self.path = lab.temporary(name)
        self.process = self.begin(words, env)

    def begin(self, words, env):
        return lab.start(*words, "-t", TTL, self.name, "--", *lab.beat(self.path), env=env)

    def end(self):
        """It has held the lock all the time: it did not end, and no second one began."""
        check(self.process.poll() is None, f"{self.name} has lost its lock")
        equal(len(lab.beats(self.path)), 1, f"signs of life of {self.name}")
        self.process.terminate()  # a keeper outlives a redlock that is killed
        lab.finish(self.process)


class Thread(Holder):
    """A thread, by the bindings for Python."""

    SCRIPT = """
import os, sys, time
import redlock_quorum
with redlock_quorum.Client().lock(sys.argv[1], ttl=5) as hold:
    while True:
        hold.check()
        with open(sys.argv[2], "a") as file:
            print(os.getpid(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000, file=file)
        time.sleep(0.05)
"""

    def begin(self, words, env):
        library = pathlib.Path(lab.program).parents[1] / "libredlock.so.1"
        env = {**env, "PYTHONPATH": str(ROOT / "python"), "REDLOCK_LIBRARY": str(library)}
        return lab.spawn([sys.executable, "-B", "-c", self.SCRIPT, self.name, self.path],
                         env=lab.environment(env), stdin=lab.subprocess.DEVNULL,
                         stdout=lab.subprocess.PIPE, stderr=lab.subprocess.PIPE)


def settings(quorum):
    path = lab.write(lab.temporary("redlock.conf"),
                     f"nodes = {quorum.nodes}\ntimeout = {lab.PATIENCE}\nmax-ttl = {TTL}\n")
    return {"REDLOCK_CONFIG": path}


def restart_all(quorum, holders):
    """Plays the page's procedure under these holders."""
    for holder in holders:
        lab.wait_for_beats(holder.path)
    restarts = []

    def restart(_, host, *words):
        """The server has no memory then."""
        equal(words, ("systemctl", "restart", "redis-server"), "what is run on a host")
        index = int(host.removeprefix("redis-")) - 1
        quorum[index].kill()
        quorum[index].start()
        restarts.append(index + 1)
    hosts = Hosts(restart, "ssh")
    os.symlink(lab.program, os.path.join(hosts.home, "redlock"))
    path = f"{hosts.home}:{os.environ['PATH']}"
    env = lab.environment({**settings(quorum), "PATH": path})
    done = lab.finish(lab.spawn(["sh", "-c", procedure()], env=env,
                                stdin=lab.subprocess.DEVNULL, stdout=lab.subprocess.PIPE,
                                stderr=lab.subprocess.PIPE), seconds=lab.CASE_SECONDS)
    hosts.end()
    for holder in holders:
        holder.end()
    done.expect(0)
    equal(restarts, [1, 2, 3], "restarts")


@case("holders of plain locks keep them over a rolling restart of nodes without memory")
def _(quorum):
    env = settings(quorum)
    holders = [Holder(name, words, env) for name, words in PLAIN.items()]
    if importlib.util.find_spec("cffi"):
        holders.append(Thread("thread", [], env))
    restart_all(quorum, holders)


@case("so do holders of fenced locks, and a leader")
def _(quorum):
    found(quorum, "--max-ttl", TTL)
    restart_all(quorum, [Holder(name, words, settings(quorum))
                         for name, words in FENCED.items()])


lab.main(servers=3)

#!/usr/bin/env python3
"""redlock run and elect when redlock is killed: its keeper releases the lock, once all that the
command started is dead. The TTL is so long that no lock ends by it in the time of a test."""
import contextlib
import errno
import os
import re
import shlex
import signal

import lab
from lab import PATIENT, case, check, equal, finish, on, redlock

TTL, TTL_MS = "20m", 20 * 60 * 1000
LONG = ("-t", TTL)
SECRET = "s3cret"


class Job:
    """A command that lives until end(); `words` are the options and the key."""

    def __init__(self, quorum, *words, verb="run", script=":", env=None, **more):
        self.end_path, self.token_path = lab.temporary("end"), lab.temporary("token")
        script += (f"; echo $REDLOCK_TOKEN >{self.token_path}.new; "
                   f"mv {self.token_path}.new {self.token_path}; "
                   f"until test -e {self.end_path}; do sleep 0.02; done")
        self.process = lab.start(verb, *PATIENT, *words, "--", "sh", "-c", script,
                                 env=on(quorum, **more) if env is None else env)
        lab.wait_for(lambda: os.path.exists(self.token_path) or self.process.poll() is not None,
                     "the command to run")
        check(self.process.poll() is None, "redlock has ended")
        self.keeper = lab.keeper_of(self.process)

    def token(self):
        return lab.read(self.token_path).strip()

    def shows(self):
        """What other processes see of the keeper."""
        return "".join(lab.read(f"/proc/{self.keeper}/{name}") for name in ("cmdline", "environ"))

    def command(self):
        [command] = lab.read(f"/proc/{self.keeper}/task/{self.keeper}/children").split()
        return int(command)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        lab.wait_for(lambda: lab.state(self.process.pid) == "T", "redlock to stop")

    def kill(self):
        """Kills redlock, and waits for the end of its keeper."""
        self.process.kill()
        self.process.communicate()
        lab.wait_for(lambda: not lab.is_alive(self.keeper), "the end of the keeper")

    def end(self, code=0):
        lab.write(self.end_path, "")
        return finish(self.process).expect(code)


def admit(quorum, *words):
    redlock("admit", "--new", "--at-once", *PATIENT, "--max-ttl", TTL, *words,
            env=on(quorum)).expect(0)


def is_free(quorum, *words):
    """Nothing is left, and another client gets the lock."""
    lab.nothing_is_left()
    redlock("run", *PATIENT, "-w", "100s", *(words or ("k",)), "--", "true",
            env=on(quorum)).expect(0)


def stays(quorum, key="k", least_ms=TTL_MS / 2):
    """All nodes store the key, for long."""
    lab.nothing_is_left()
    left = [server.call("PTTL", key) for server in quorum.servers]
    check(min(left) > least_ms, f"left: {left}")


def deletions(server):
    """How often the server has executed DEL, by scripts too."""
    found = re.search(r"cmdstat_del:calls=(\d+)", server.call("INFO", "commandstats"))
    return int(found[1]) if found else 0


@contextlib.contextmanager
def stopped(*servers):
    for server in servers:
        server.stop()
    yield
    for server in servers:
        server.go_on()


@contextlib.contextmanager
def password(quorum):
    for server in quorum.servers:
        server.call("CONFIG", "SET", "requirepass", SECRET)
    yield
    for server in quorum.servers:
        server.call("CONFIG", "SET", "requirepass", "")


# --- the lock is released ---

KINDS = {
    "plain": (), "fenced": ("--fence",), "slot": ("--slots", "1"), "redisson": ("--redisson",),
    "fenced slot": ("--slots", "1", "--fence"), "set": ("--and", "k2", "--and", "k3"),
    "fenced set": ("--and", "k2", "--and", "k3", "--fence"),
}


@case("each kind: a client that waits gets the lock; nodes and names come from the command line")
def _(quorum):
    admit(quorum, "--prefix", "p:")
    for name, words in KINDS.items():
        job = Job(quorum, *LONG, "-N", quorum.nodes, "--prefix", "p:", *words, "k",
                  env={"REDLOCK_CONFIG": "/dev/null"})
        other = lab.start("run", *PATIENT, "--prefix", "p:", *words, "k", "--", "true",
                          env=on(quorum))
        lab.wait_for(lambda: all(server.call("KEYS", "*!queue") for server in quorum.servers),
                     f"a waiter: {name}")
        job.kill()
        finish(other).expect(0)


@case("readers: one that is killed reads no more, and the other one does")
def _(quorum):
    admit(quorum)
    for words in ((), ("--fence",)):
        one, other = (Job(quorum, *LONG, "--shared", *words, "k") for _ in range(2))
        one.kill()
        for server in quorum.servers:
            equal(server.call("ZRANGE", "k", 0, -1), [other.token()], "readers")
        other.end()


@case("elect: the next candidate leads, also after a leader of a later term, with names of hosts")
def _(quorum):
    nodes = ",".join(f"redis://localhost:{server.listen()}" for server in quorum.servers)
    admit(quorum)
    words = ("-t", "20s", "job")
    one = Job(quorum, *words, verb="elect", REDLOCK_NODES=nodes)
    os.unlink(one.token_path)
    redlock("break", *PATIENT, "--yes", "job", env=on(quorum)).expect(0)
    lab.wait_for(lambda: os.path.exists(one.token_path), "a later term")
    one.stop()
    lab.wait_for(lambda: len(set(quorum.values("job"))) == 1, "the token on all nodes")
    end_us = quorum.expires_us("job")
    one.process.kill()
    Job(quorum, *words, verb="elect").end()
    check(lab.now_us() < end_us - 10 * 1000 * 1000, "the leader led until its TTL had passed")


@case("a node is dead, and one hangs: the lock is released on the others")
def _(quorum):
    job = Job(quorum, *LONG, "k")
    quorum.kill(0)
    with stopped(quorum[1]):
        job.kill()
        lab.wait_for(lambda: not any(server.call("DBSIZE") for server in quorum.servers[2:]),
                     "the release")


@case("--at-least, which has passed; --once-per with --retry, before a success")
def _(quorum):
    Job(quorum, *LONG, "--at-least", "10ms", "k", script="sleep 0.02").kill()
    is_free(quorum)
    words = ("--durable", "--once-per", "1d", "--once-id", "monday", "--retry", "k")
    Job(quorum, *LONG, *words).kill()
    is_free(quorum, *words)


@case("redlock and the command are killed at the same time")
def _(quorum):
    for first in (True, False):
        job = Job(quorum, *LONG, "k")
        pids = (job.process.pid, job.command())
        for pid in pids if first else pids[::-1]:
            os.kill(pid, signal.SIGKILL)
        job.kill()
        is_free(quorum)


@case("redlock is killed after all of the command has ended, before the release")
def _(quorum):
    job = Job(quorum, *LONG, "k")
    job.stop()
    command = job.command()
    lab.write(job.end_path, "")
    lab.wait_for(lambda: lab.state(command) == "Z", "the end of the command")
    job.kill()
    is_free(quorum)


# --- the lock stays ---

@case("--at-least, of which some is left; --spare-daemons; the record of a period")
def _(quorum):
    for words in (("--at-least", "1h"), ("--spare-daemons",)):
        Job(quorum, *LONG, *words, "k").kill()
        stays(quorum)
        quorum.reset()
    Job(quorum, "-t", "1m", "--durable", "--once-per", "1d", "--once-id", "monday", "k").kill()
    stays(quorum, "k@monday", 86400 * 1000)


@case("--retry: the record of a success, which redlock is about to store")
def _(quorum):
    job = Job(quorum, *LONG, "--durable", "--once-per", "1d", "--once-id", "monday", "--retry", "k")
    with stopped(*quorum.servers[:3]):
        lab.write(job.end_path, "")
        lab.wait_for(lambda: not lab.is_alive(job.keeper), "the end of the keeper")
        job.kill()
    stays(quorum, "k@monday")


@case("a process is left, or may be")
def _(quorum):
    path = lab.temporary("beats")
    script = f"setsid {shlex.join(lab.beat(path))} >/dev/null 2>&1 & :"
    jobs = [Job(quorum, *LONG, key, script=script, **lab.keeper_shim(**shim))
            for key, shim in (("k", {"SHIM_NO_LISTS": str(errno.EMFILE)}),
                              ("k2", {"SHIM_NO_PROC": "1"}))]
    lab.wait_for_beats(path, 2)
    for job in jobs:
        job.process.kill()
    for job in jobs:
        job.kill()
    for pid in lab.beats(path):
        check(lab.is_alive(pid), "it was found and killed")
        os.kill(pid, signal.SIGKILL)
    stays(quorum)
    stays(quorum, "k2")


@case("the keeper is killed, too")
def _(quorum):
    job = Job(quorum, *LONG, "k")
    lab.die(job.process)
    job.kill()
    stays(quorum)


@case("no quorum can be reached: the keeper ends, and tells nobody what it knows")
def _(quorum):
    with password(quorum):
        nodes = quorum.nodes.replace("://", f"://:{SECRET}@")
        job = Job(quorum, *LONG, "-N", nodes, "k", env={"REDLOCK_CONFIG": "/dev/null"})
        seen = job.shows()
        with stopped(*quorum.servers):
            command = job.command()
            job.process.kill()
            job.process.communicate()
            lab.wait_for(lambda: lab.state(command) == "Z", "the end of the command")
            seen += job.shows()
            lab.nothing_is_left()
    for text in (job.token(), SECRET):
        check(text not in seen, f"{text} is in {seen!r}")


@case("the lock is lost: nothing is released, and the lock of another client stays")
def _(quorum):
    job = Job(quorum, *LONG, "k")
    for server in quorum.servers:
        server.call("SET", "k", "other", "PX", TTL_MS)
    job.kill()
    stays(quorum)
    equal(quorum.values("k"), 5 * ["other"], "values")
    quorum.reset()
    heard = lab.temporary("heard")
    job = Job(quorum, "-t", "10s", "k", script=f"trap 'echo >{heard}' TERM")
    with stopped(*quorum.servers[:3]):
        lab.wait_for(lambda: os.path.exists(heard), "the loss")
        before = list(map(deletions, quorum.servers[3:]))
        job.kill()
        equal(list(map(deletions, quorum.servers[3:])), before, "deletions")


lab.main()

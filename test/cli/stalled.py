#!/usr/bin/env python3
"""The command while nobody reads its output: a full pipe, a terminal after ctrl-S, no reader.

Locks are extended meanwhile, warnings are dropped if there are too many, results wait, and TERM
ends the command.
"""
import contextlib
import fcntl
import json
import os
import re
import signal

import lab
import terminal
from lab import case, check, equal, finish, matches, on, redlock

SMALL_PIPE = 4096
LONG = "10s"  # the rest after the tries of extensions is longer than a machine stalls
QUICK = ("--timeout", "200ms")  # so long a node that is stopped is waited for
A_SECOND_US = 1000000
STOPPED = range(3)  # of five nodes
LOCKS = 500


class FullPipe:
    """A pipe into which nothing can be written until take() has been called."""

    def __enter__(self):
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
        os.set_blocking(self.writer, False)
        self.filled = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.filled += os.write(self.writer, b"x" * SMALL_PIPE)
        os.set_blocking(self.writer, True)
        return self

    def __exit__(self, *_):
        for fd in (self.reader, self.writer):
            if fd >= 0:
                os.close(fd)

    def take(self, pattern=None):
        """What was written after it was full: until that matches, or until its end."""
        if pattern is None:
            os.close(self.writer)
            self.writer = -1
        seen = b""
        while part := os.read(self.reader, SMALL_PIPE):
            seen += part
            text = seen[self.filled:].decode()
            if pattern and re.search(pattern, text):
                break
        return seen[self.filled:].decode()

    def is_blocking(self):
        """Others who write to it rely on that."""
        check(os.get_blocking(self.writer), "O_NONBLOCK was set on the pipe")


class Job:
    """A `redlock run` whose command shows signs of life; nodes go away for a while."""

    def __init__(self, quorum, begin=None, **more):
        self.quorum, self.path = quorum, lab.temporary("beats")
        words = (*QUICK, "run", "-t", LONG, "k", *lab.beat(self.path))
        self.process = begin(words) if begin else lab.start(*words, env=on(quorum), **more)
        lab.wait_for_beats(self.path)

    def is_writing(self):
        """A thread is in write() to stdout or stderr."""
        tasks = f"/proc/{self.process.pid}/task"
        calls = [lab.read(f"{tasks}/{task}/syscall").split() for task in os.listdir(tasks)]
        return any(call[1:2] in (["0x1"], ["0x2"]) for call in calls)

    def lose_nodes(self, until=None):
        """Until an extension has failed, and redlock says so."""
        for index in STOPPED:
            self.quorum[index].stop()
        lab.wait_for(until or self.is_writing, "a warning")
        for index in STOPPED:
            self.quorum[index].go_on()

    def is_extended(self):
        """The lock, on the nodes that were away, and the command lives."""
        before = self.quorum.expires_us("k")
        lab.wait_for(lambda: self.quorum.expires_us("k") > before + A_SECOND_US, "an extension")
        now = lab.now_us()
        lab.wait_for(lambda: max(lab.beats(self.path).values()) > now, "signs of life")

    def end(self):
        self.process.terminate()
        return finish(self.process).expect(143)


def start_full(quorum, *words, env=None, out=None, err=None):
    """Starts the command with a full pipe as stdout, stderr or both."""
    more = {name: pipe.writer for name, pipe in (("stdout", out), ("stderr", err)) if pipe}
    return lab.start(*words, env=on(quorum, **(env or {})), **more)


def admit(quorum):
    redlock("admit", "--new", "--at-once", *lab.PATIENT, env=on(quorum)).expect(0)


# --- run ---

@case("run, stderr is full, nodes are away for a while: the lock is extended, the command lives")
def _(quorum):
    with FullPipe() as err:
        job = Job(quorum, stderr=err.writer)
        job.lose_nodes()
        job.is_extended()
        err.is_blocking()
        matches(err.take("again\n"), "^redlock: k: not extended: [^\n]*\n"
                "redlock: k: the lock is extended again\n$", "what was printed")
        job.end()


@case("run, the reader of stderr goes away: the same")
def _(quorum):
    job = Job(quorum)
    job.lose_nodes(until=job.process.stderr.readline)
    job.process.stderr.close()
    job.is_extended()
    job.process.terminate()
    equal(job.process.wait(lab.END_SECONDS), 143, "exit code")


@case("run on a terminal that ctrl-S stopped: the same, and ctrl-Q shows what happened")
def _(quorum):
    opened = []

    def begin(words):
        opened.append(terminal.Terminal([lab.program, *words], on(quorum)))
        opened[0].type("\x13")
        return opened[0].process
    try:
        job = Job(quorum, begin=begin)
        job.lose_nodes()
        job.is_extended()
        equal(opened[0].seen, "", "what the terminal shows")
        opened[0].type("\x11")
        opened[0].expect("redlock: k: not extended: .*failed.*\\n.*extended again")
        job.process.terminate()
        opened[0].end(143)
    finally:
        opened[0].__exit__()


@case("run --json, stderr is full: the object waits for a reader, and TERM drops it")
def _(quorum):
    with FullPipe() as err:
        process = start_full(quorum, "run", "--json", "k", "true", err=err)
        lab.wait_for(lambda: quorum.attempts() > 0 and quorum.keys() == 0, "the release")
        lab.wait_for(lambda: lab.are_asleep([process.pid]), "redlock to wait")
        equal(process.poll(), None, "exit code")
        equal(json.loads(err.take("\n"))["cause"], "child", "cause")
        finish(process).expect(0)
    with FullPipe() as err:
        process = start_full(quorum, "run", "--json", "k", "sleep", "600", err=err)
        lab.wait_for(lambda: lab.named(lab.marked(), "^sleep"), "the command")
        process.terminate()
        finish(process).expect(143)
        equal(err.take(), "", "what was printed")
    equal(quorum.keys(), 0, "keys")


@case("elect, stderr is full: a candidate whose term ended campaigns again")
def _(quorum):
    admit(quorum)
    path = lab.temporary("terms")
    with FullPipe() as err:
        process = start_full(quorum, *QUICK, "elect", "--json", "-t", "3s", "job", "--", "sh",
                             "-c", f"echo $REDLOCK_TERM >> {path}; exec sleep 600", err=err)
        lab.wait_for(lambda: os.path.exists(path), "a term")
        redlock("break", "--yes", "job", *lab.PATIENT, env=on(quorum)).expect(0)
        lab.wait_for(lambda: lab.read(path).count("\n") >= 2, "another term")
        process.terminate()
        finish(process).expect(143)


# --- results ---

@case("acquire, stdout is full: the lock is extended until somebody reads the token")
def _(quorum):
    with FullPipe() as out:
        process = start_full(quorum, "acquire", "-t", LONG, "k", out=out)
        lab.wait_for(lambda: None not in quorum.values("k"), "the lock")
        first = quorum.expires_us("k")
        lab.wait_for(lambda: quorum.expires_us("k") > first + A_SECOND_US, "an extension")
        token = out.take("\n")
        finish(process).expect(0)
        equal(quorum.values("k"), [token.strip()] * 5, "the token")
    env = on(quorum, REDLOCK_TOKEN=token.strip())
    redlock("release", "k", env=env).expect(0)


@case("acquire, stdout is full, and TERM: the lock is released")
def _(quorum):
    for words in ([], ["--json"]):
        with FullPipe() as out:
            process = start_full(quorum, "acquire", "-t", LONG, *words, "k", out=out)
            lab.wait_for(lambda: None not in quorum.values("k"), "the lock")
            process.terminate()
            finish(process).expect(143, err="^redlock: k: Terminated; the lock is not held\n$")
            equal(quorum.keys(), 0, "keys")


def occupy(quorum):
    """Many locks of others; their keys."""
    keys = [f"job:{number}" for number in range(LOCKS)]
    for server in quorum.servers:
        for key in keys:
            server.call("SET", key, "p" + "a" * 32 + "@someone", "PX", 600000)
    return keys


@case("list to a slow reader: every lock, once, and whole lines")
def _(quorum):
    keys = occupy(quorum)
    with FullPipe() as out:
        process = start_full(quorum, "list", "--json", out=out)
        lab.wait_for(lambda: lab.are_asleep([process.pid]), "redlock to wait")
        found = [json.loads(line)["key"] for line in out.take().splitlines()]
        finish(process).expect(0)
    equal(sorted(found), sorted(keys), "keys")


@case("list to a reader that stops after a line: 141, and no message")
def _(quorum):
    occupy(quorum)
    process = lab.start("list", "--json", env=on(quorum))
    process.stdout.readline()
    process.stdout.close()
    equal(process.wait(lab.END_SECONDS), 141, "exit code")
    equal(process.stderr.read(), b"", "stderr")


# --- TERM ---

def ends_by_term(quorum, words, code, until=None):
    """With stdout and stderr full."""
    with FullPipe() as out, FullPipe() as err:
        process = start_full(quorum, *words, out=out, err=err)
        lab.wait_for(until or (lambda: lab.are_asleep([process.pid])), f"{words} to work, or wait")
        process.terminate()
        found = finish(process)
        check(found.code in (code if isinstance(code, tuple) else (code,)), f"{found}")
        out.is_blocking()
        err.is_blocking()
    lab.nothing_is_left()


@case("stdout and stderr are full: TERM ends each command")
def _(quorum):
    admit(quorum)
    occupy(quorum)
    for words in (["status", "--watch", "k"], ["list"], ["list", "--json"],
                  ["elect", "--observe", "job"], ["-v", "acquire", "k"], ["local"]):
        ends_by_term(quorum, words, (143, 0) if words == ["local"] else 143)
    for words in (["-v", "status", "k"], ["check"], ["--help"], ["list", "--help"]):
        ends_by_term(quorum, words, (143, -signal.SIGTERM))
    quorum.occupy("k")
    for words in (["-v", "acquire", "k"], ["-v", "run", "--json", "k", "true"]):
        ends_by_term(quorum, words, 143)


@case("TERM waits for the loop, so that who waits for a reader sees it, too")
def _(quorum):
    admit(quorum)
    for words in (["status", "--watch", "k"], ["elect", "--observe", "job"]):
        process = lab.start(*words, env=on(quorum))
        process.stdout.readline()
        lab.wait_for(lambda: lab.are_asleep([process.pid]), f"{words} to wait")  # noqa: B023
        mask = re.search(r"^SigBlk:\s*(\w+)$", lab.read(f"/proc/{process.pid}/status"), re.M)[1]
        check(int(mask, 16) >> (signal.SIGTERM - 1) & 1, f"{words} catches TERM in a callback")
        process.terminate()
        finish(process).expect(143, err=None)


@case("stdout and stderr are full: TERM ends what works on all the time")
def _(quorum):
    for words in (["-v", "bench", "-d", "1h"], ["-v", "bench", "--json", "-d", "1h"]):
        quorum.reset()
        before = quorum.attempts()
        ends_by_term(quorum, words, 143, lambda: quorum.attempts() > before + 5)  # noqa: B023
    place = lab.temporary("page")
    ends_by_term(quorum, ["-v", "monitor", "--listen", f"unix:{place}"], 0,
                 lambda: os.path.exists(place))


@case("stdout and stderr are full: TERM ends run, its command, and the lock")
def _(quorum):
    ends_by_term(quorum, ["-v", "run", "--json", "k", "sleep", "600"], 143,
                 lambda: lab.named(lab.marked(), "^sleep"))
    equal(quorum.values("k"), [None] * 5, "values")


lab.main()

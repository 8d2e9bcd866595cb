#!/usr/bin/env python3
"""redlock run between the lock and the command: no command starts without the lock.

KEEPER_SHIM (test/support/keepershim.c) holds processes at places that a signal cannot hit.
"""
import contextlib
import os
import signal
import socket
import subprocess
import time

import lab
from lab import case, check, equal, finish, on

# Long enough that the lock is seen to be held, and short enough that it expires within a case.
TTL = "2s"


def wait_until_held(quorum, key):
    lab.wait_for(lambda: None not in quorum.values(key), "the lock on all nodes")


def wait_until_expired(quorum, key):
    lab.wait_for(lambda: quorum.keys() == 0, "the end of the lock")
    quorum.occupy(key, value="other")


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    lab.wait_for(lambda: lab.state(pid) == "T", "a stopped process")


@case("redlock stands still while it prints what the nodes replied, until the lock has expired: "
      "the command is not started, 124")
def _(quorum):
    out, forked, fifo = (lab.temporary(name) for name in ("out", "forked", "fifo"))
    os.mkfifo(fifo)
    process = lab.start("-v", "run", "-t", TTL, "k", "touch", out,
                        env=on(quorum, **lab.keeper_shim(SHIM_FORKED=forked, SHIM_HOLD_THREAD=fifo)))
    lab.wait_for(lambda: os.path.exists(fifo + ".pid"), "redlock before its thread")
    wait_until_held(quorum, "k")
    wait_until_expired(quorum, "k")
    os.close(os.open(fifo, os.O_WRONLY))
    finish(process).expect(124, err="the lock expired before the command was started")
    check(not os.path.exists(forked), "the keeper has forked")
    check(not os.path.exists(out), "the command has run")
    equal(quorum.values("k"), ["other"] * 5, "values")


@case("the lock expires between fork and exec, while redlock and the keeper are stopped: the "
      "command is not started, 124")
def _(quorum):
    out, fifo = lab.temporary("out"), lab.temporary("fifo")
    os.mkfifo(fifo)
    process = lab.start("run", "-t", TTL, "k", "touch", out,
                        env=on(quorum, **lab.keeper_shim(SHIM_HOLD=fifo)))
    child = lab.wait_for(lambda: os.path.exists(fifo + ".pid") and lab.read(fifo + ".pid").strip(),
                         "the child before exec")
    [keeper] = [pid for pid in lab.named(lab.marked(), "^lock-keeper") if pid != int(child)]
    stop(keeper)
    stop(process.pid)
    wait_until_expired(quorum, "k")
    os.close(os.open(fifo, os.O_WRONLY))
    lab.wait_for(lambda: not lab.is_alive(child), "the end of the child")
    os.kill(keeper, signal.SIGCONT)
    os.kill(process.pid, signal.SIGCONT)
    finish(process).expect(124)
    check(not os.path.exists(out), "the command has run")
    equal(quorum.values("k"), ["other"] * 5, "values")


@contextlib.contextmanager
def notified(name):
    """A socket as systemd has it, and how many datagrams came: all are READY=1."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unit:
        unit.bind(name.replace("@", "\0"))
        unit.setblocking(False)

        def count():
            found = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    equal(unit.recv(100), b"READY=1", "a datagram")
                    found += 1
            return found
        yield count


@case("NOTIFY_SOCKET gets READY=1 when the command has started, and not while redlock waits")
def _(quorum):
    for name in (lab.temporary("notify"), f"@redlock-test-{os.getpid()}"):
        with notified(name) as count:
            quorum.occupy("k")
            process = lab.start("run", "k", "sh", "-c", 'echo "$NOTIFY_SOCKET"; cat',
                                stdin=subprocess.PIPE, env=on(quorum, NOTIFY_SOCKET=name))
            lab.wait_for(lambda: quorum.attempts() > 0, "an attempt")
            equal(count(), 0, "datagrams while it waits")
            quorum.reset()
            lab.wait_for(lambda: count() == 1, "READY=1")
            check(sum(map(bool, quorum.values("k"))) >= 3, "it is held by a quorum")
            finish(process, text="").expect(0, out=f"{name}\n", err="^(?!.*systemd)")
            equal(count(), 0, "datagrams after that")


@case("NOTIFY_SOCKET gets nothing if the command cannot be executed; it may be out of order")
def _(quorum):
    name = lab.temporary("notify")
    with notified(name) as count:
        lab.redlock("run", "k", "/no/such/command", env=on(quorum, NOTIFY_SOCKET=name)).expect(127)
        equal(count(), 0, "datagrams")
    for name, why in ((name, "Connection refused"), ("/no/such", "No such file or directory"),
                      ("/" + 200 * "x", "File name too long"), ("vsock:1", "not supported")):
        lab.redlock("run", "k", "true", env=on(quorum, NOTIFY_SOCKET=name)).expect(
            0, err=f"redlock: k: systemd could not be notified by {name}: .*{why}")


@case("NOTIFY_SOCKET is full: the command runs, and the lock is extended meanwhile")
def _(quorum):
    name = lab.temporary("notify")
    with notified(name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"READY=1", name)
        lab.redlock("run", "k", "true", env=on(quorum, NOTIFY_SOCKET=name)).expect(
            0, err="systemd could not be notified by .*: Resource temporarily unavailable")


@case("the keeper is killed before redlock sends it the command: one line that says so, 125")
def _(quorum):
    out, fifo = lab.temporary("out"), lab.temporary("fifo")
    os.mkfifo(fifo)
    for words in (("run", "-t", "60s", "k"), ("local", "-n", "1")):
        process = lab.start(*words, "touch", out,
                            env=on(quorum, **lab.keeper_shim(SHIM_HOLD_START=fifo)))
        lab.wait_for(lambda: os.path.exists(fifo + ".pid"), "the command to the keeper")
        [keeper] = lab.named(lab.marked(), "^lock-keeper")
        os.kill(keeper, signal.SIGKILL)
        lab.wait_for(lambda: not lab.is_alive(keeper), "the end of the keeper")
        os.close(os.open(fifo, os.O_WRONLY))
        finish(process).expect(125, err=r"^redlock: [^\n]*the keeper process:? was killed[^\n]*\n$")
        os.remove(fifo + ".pid")
    check(not os.path.exists(out), "the command has run")
    equal(quorum.keys(), 0, "keys")


@case("a keeper that cannot begin: one line with the reason, 125")
def _(quorum):
    for words in (("run", "k"), ("local", "-n", "1")):
        outcome = lab.redlock(*words, "true", env=on(quorum, **lab.keeper_shim(SHIM_NO_TIMER="1")))
        outcome.expect(125, err=r"^redlock: [^\n]*the keeper process could not begin: "
                                r"Too many open files[^\n]*\n$")
    equal(quorum.keys(), 0, "keys")


@case("a keeper that cannot read its commands: one line that says so, 125, and no command")
def _(quorum):
    out = lab.temporary("out")
    for words in (("run", "k"), ("local", "-n", "1")):
        outcome = lab.redlock(*words, "touch", out, env=on(quorum, **lab.keeper_shim(SHIM_DEAF="1")))
        outcome.expect(125, err=r"^redlock: [^\n]*the keeper process:? lost redlock[^\n]*\n$")
        check(not os.path.exists(out), "the command has run")
    equal(quorum.keys(), 0, "keys")


@case("a keeper that finds no memory for its reports sends them again after a while")
def _(quorum):
    for script in ("until [ $(wc -c < {0}) -ge 40 ]; do sleep 0.02; done", "true"):
        path = lab.temporary("starved")
        lab.write(path, "")
        begun = time.monotonic()
        lab.redlock("run", "k", "sh", "-c", script.format(path),
                    env=on(quorum, **lab.keeper_shim(SHIM_STARVED=path))).expect(0, err="^$")
        equal(len(lab.read(path)), 40, "reports without memory")
        check(time.monotonic() - begun > 0.2, "it did not wait")
    equal(quorum.keys(), 0, "keys")


@case("a keeper that is stopped before it starts the command: the command never runs, 125, "
      "and the lock is released")
def _(quorum):
    out = lab.temporary("out")
    quorum.occupy("k")
    process = lab.start("run", "-t", TTL, "k", "touch", out, env=on(quorum))
    [keeper] = lab.wait_for(lambda: lab.named(lab.marked(), "^lock-keeper"), "the keeper")
    stop(keeper)
    for server in quorum.servers:
        server.call("DEL", "k")
    finish(process).expect(125, err="the keeper process does not reply")
    check(not os.path.exists(out), "the command has run")
    equal(quorum.keys(), 0, "keys")


lab.main()

#!/usr/bin/env python3
"""redlock run and elect when the lock was gone before the command ended, without an extension
that noticed it: the TTL is so long that none comes while the command runs."""
import json
import os
import re
import shlex
import signal

import lab
from lab import PATIENT, case, check, equal, finish, matches, on, redlock

ENDLESS = ("-t", "20m", *PATIENT)  # the first extension comes after more than 5 minutes
WAS_LOST = r"(?m)^redlock: k: the lock was lost while the command ran: another client may have held it$"


class Job:
    """A command that runs until end(), and then ends with `code`."""

    def __init__(self, quorum, *words, verb="run", code=0):
        self.end_path, self.runs = lab.temporary("end"), lab.temporary("runs")
        script = f"echo >> {self.runs}; until test -e {self.end_path}; do sleep 0.02; done; exit {code}"
        self.process = lab.start(verb, *(words or ENDLESS), "k", "--", "sh", "-c", script,
                                 env=on(quorum))
        lab.wait_for(lambda: os.path.exists(self.runs), "the command to run")

    def end(self, code, err=None):
        lab.write(self.end_path, "")
        outcome = finish(self.process).expect(code, err)
        equal(len(lab.read(self.runs).splitlines()), 1, "runs of the command")
        return outcome


def delete(quorum, indexes=range(5), key="k"):
    for index in indexes:
        equal(quorum[index].call("DEL", key), 1, "keys deleted")


@case("break, and another client beside the command, or before its end: 124, whatever its code")
def _(quorum):
    for verb, code in (("run", 0), ("run", 7)):
        job = Job(quorum, verb=verb, code=code)
        redlock("break", "--yes", "k", env=on(quorum)).expect(0)
        other = Job(quorum)
        job.end(124, WAS_LOST)
        check(None not in quorum.values("k"), "the lock of the other client was released")
        other.end(0, "^$")
        equal(quorum.keys(), 0, "keys")
    job = Job(quorum)
    delete(quorum)
    redlock("run", *PATIENT, "-n", "k", "true", env=on(quorum)).expect(0)
    job.end(124, WAS_LOST)


@case("-q does not quiet it; --json has the cause; a signal that ends the command as well")
def _(quorum):
    job = Job(quorum, "-q", "--json", *ENDLESS)
    delete(quorum)
    line, last = job.end(124).err.splitlines()
    matches(line, WAS_LOST, "stderr")
    found = json.loads(last)
    equal((found["cause"], found["exit"]), ("lost", 124), "cause and exit")
    job = Job(quorum, *ENDLESS)
    delete(quorum)
    job.process.send_signal(signal.SIGTERM)
    finish(job.process).expect(124, WAS_LOST)


@case("a majority of the nodes lost it: 124; a minority: the code of the command")
def _(quorum):
    job = Job(quorum)
    delete(quorum, range(3))
    job.end(124, WAS_LOST)
    equal(quorum.keys(), 0, "keys")
    job = Job(quorum)
    delete(quorum, range(2))
    job.end(0, "^$")


@case("three nodes die: the release is unconfirmed, and nothing shows that the lock was lost")
def _(quorum):
    job = Job(quorum)
    quorum.kill(0, 1, 2)
    job.end(0, "the command has ended, but too few nodes confirmed the release")


@case("a release that fails names each node's reason; the exit code stays that of the command")
def _(quorum):
    job = Job(quorum, "-v", "-t", "20m", "--timeout", "2s", code=7)
    refusing, silent = quorum.servers[:2], quorum[2]
    for server in refusing:
        server.call("ACL", "SETUSER", "default", "-getrange")
    silent.stop()
    try:
        outcome = job.end(7, "the command has ended, but too few nodes confirmed the release, "
                             "what is left ends with its TTL: 3 of 5 nodes failed: "
                             + ", ".join(map(re.escape, quorum.uris[:2]))
                             + r": the user lacks a right \(ACL\)[^;]*; "
                             + re.escape(silent.uri) + ": no reply within the node timeout")
        for uri in quorum.uris[:3]:
            matches(outcome.err, rf"(?m)^redlock: {re.escape(uri)}: ", "-v")
    finally:
        silent.go_on()
        for server in refusing:
            server.call("ACL", "SETUSER", "default", "+@all")


@case("--at-least, with a lock that lasts long enough and with one that does not")
def _(quorum):
    for least in ("1s", "21m"):
        job = Job(quorum, "--at-least", least, *ENDLESS)
        delete(quorum)
        other = Job(quorum)
        job.end(124, WAS_LOST)
        other.end(0)
        equal(quorum.keys(), 0, "keys")
    job = Job(quorum, "--at-least", "1s", *ENDLESS)
    ends = [server.call("PEXPIRETIME", "k") for server in quorum.servers]
    job.end(0, "^$")
    equal([server.call("PEXPIRETIME", "k") for server in quorum.servers], ends, "ends of the key")


@case("--once-per, a record from before the command started and one with --retry")
def _(quorum):
    for words in ((), ("--retry",)):
        job = Job(quorum, "--durable", *PATIENT, "-t", "5h", "--once-per", "1d", "--once-id",
                  "monday", *words)
        delete(quorum, key="k@monday")
        other = lab.start("run", "--durable", *PATIENT, "-t", "5h", "--once-per", "1d",
                          "--once-id", "monday", *words, "k", "--", "true", env=on(quorum))
        finish(other).expect(0)
        job.end(124, WAS_LOST.replace(" k:", " k@monday:"))
        quorum.reset()


@case("it is noticed while processes that the command left are being ended")
def _(quorum):
    path = lab.temporary("beats")
    script = f"(trap '' TERM; exec setsid {shlex.join(lab.beat(path))}) & until test -s {path}; do sleep 0.02; done"
    process = lab.start("run", "-t", "8s", "--kill-after", "1h", *PATIENT, "k", "sh", "-c",
                        script, env=on(quorum))
    lab.wait_for_beats(path)
    delete(quorum)
    finish(process).expect(124)


@case("elect: a leader whose lock was gone ends with 124, and does not run its command again")
def _(quorum):
    redlock("admit", "--new", "--at-once", *PATIENT, "--max-ttl", "20m", env=on(quorum)).expect(0)
    job = Job(quorum, *ENDLESS, verb="elect")
    delete(quorum)
    job.end(124, WAS_LOST)


lab.main()

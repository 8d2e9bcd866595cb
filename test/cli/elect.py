#!/usr/bin/env python3
"""redlock elect: candidates that lead one after the other, and observers."""
import signal
import sys

import lab
from lab import PATIENT, case, check, equal, on, redlock


def admit(quorum):
    redlock("admit", "--new", "--at-once", *PATIENT, env=on(quorum)).expect(0)


class Candidate:
    """Its CMD writes its term, and leads until it is ended."""

    def __init__(self, quorum, name, *words):
        self.path = lab.temporary(name)
        script = f'echo "$REDLOCK_TERM $REDLOCK_FENCE" > {self.path}.new && ' \
                 f"mv {self.path}.new {self.path}; exec sleep 600"
        self.process = lab.start("elect", *PATIENT, "--label", name, *words, "job", "--",
                                 "sh", "-c", script, env=on(quorum))

    def leads(self):
        return lab.os.path.exists(self.path)

    def term(self):
        lab.wait_for(self.leads, "a leader")
        term, fence = map(int, lab.read(self.path).split())
        equal(term, fence, "the fencing token")
        return term

    def resign(self):
        self.process.terminate()
        return lab.finish(self.process).expect(143)


class Observer:
    def __init__(self, quorum):
        self.process = lab.start("elect", *PATIENT, "--observe", "--json", "job", env=on(quorum))

    def sees(self, leader, term):
        """The next line."""
        line = lab.parsed(self.process.stdout.readline())
        equal((line["name"], line["leader"], line["term"]), ("job", leader, term), "what it sees")

    def end(self):
        self.process.terminate()
        equal(lab.finish(self.process).code, 143, "exit code")


@case("one leads after the other, with terms that rise; an observer sees each change")
def _(quorum):
    admit(quorum)
    observer = Observer(quorum)
    observer.sees(None, None)
    one = Candidate(quorum, "one")
    first = one.term()
    observer.sees("one", first)
    other = Candidate(quorum, "other")
    lab.wait_for(lambda: all(server.call("EXISTS", "job!queue") for server in quorum.servers),
                 "the other in the queue")
    check(not other.leads(), "two lead")
    one.resign()
    second = other.term()
    check(second > first, "terms rise")
    seen = [lab.parsed(observer.process.stdout.readline())["leader"]]
    if seen == [None]:
        seen.append(lab.parsed(observer.process.stdout.readline())["leader"])
    equal(seen[-1], "other", "the leader that an observer sees")
    other.resign()
    observer.sees(None, None)
    observer.end()


@case("a leader whose host dies leads until its TTL has passed; then another one does")
def _(quorum):
    admit(quorum)
    one = Candidate(quorum, "one", "-t", "2s")
    first = one.term()
    other = Candidate(quorum, "other", "-t", "2s")
    lab.die(one.process)
    check(other.term() > first, "terms rise")
    lab.finish(one.process)
    other.resign()


@case("who does not lead any more stops CMD, and campaigns again")
def _(quorum):
    admit(quorum)
    one = Candidate(quorum, "one", "-t", "2s")
    first = one.term()
    lab.os.unlink(one.path)
    redlock("break", *PATIENT, "--yes", "job", env=on(quorum)).expect(0)
    check(one.term() > first, "a later term")
    check("the command is stopped" in one.resign().err, "it says so")


@case("--max-hold: the leader stops CMD, and campaigns again")
def _(quorum):
    admit(quorum)
    one = Candidate(quorum, "one", "--max-hold", "2s")
    first = one.term()
    lab.os.unlink(one.path)
    check(one.term() > first, "a later term")
    check("the longest time to hold the lock is over" in one.resign().err, "it says so")


# Notes what it sees, and goes on.
NOTES = """
import signal, sys, time
def note(text):
    with open(sys.argv[1], "a") as file:
        file.write(text + chr(10))
if sys.argv[2] == "goes on":
    signal.signal(signal.SIGTERM, lambda *_: note("told to end"))
note("begun: " + repr(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
while True:
    time.sleep(600)
"""


def begin_notes(quorum, does):
    """A candidate, and a function that returns what its CMD has noted."""
    path = lab.write(lab.temporary("notes"), "")
    process = lab.start("elect", *PATIENT, "-t", "10s", "job", "--",
                        sys.executable, "-c", NOTES, path, does, env=on(quorum))
    return process, lambda: lab.read(path).splitlines()


def break_it(quorum):
    redlock("break", *PATIENT, "--yes", "job", env=on(quorum)).expect(0)


@case("in each term CMD begins with the signals that redlock began with")
def _(quorum):
    admit(quorum)
    process, notes = begin_notes(quorum, "ends")
    lab.wait_for(lambda: len(notes()) == 1, "a leader")
    break_it(quorum)
    lab.wait_for(lambda: len(notes()) == 2, "a later term")
    process.terminate()
    lab.finish(process).expect(143)
    equal(notes(), ["begun: set()"] * 2, "blocked signals")


@case("who was told to end, and then does not lead any more, does not campaign again")
def _(quorum):
    admit(quorum)
    process, notes = begin_notes(quorum, "goes on")
    lab.wait_for(lambda: len(notes()) == 1, "a leader")
    process.terminate()
    lab.wait_for(lambda: len(notes()) == 2, "CMD that was told")
    break_it(quorum)
    lab.finish(process).expect(143, err="the command is stopped")
    equal(sum("begun" in note for note in notes()), 1, "terms")


@case("CMD ends: the leader resigns with its exit code; a candidate that waits ends at once")
def _(quorum):
    admit(quorum)
    redlock("elect", *PATIENT, "job", "--", "sh", "-c", "exit 7", env=on(quorum)).expect(7)
    equal(quorum.values("job"), [None] * 3, "values")
    equal([server.call("EXISTS", "job!term") for server in quorum.servers], [0] * 3, "terms")
    one = Candidate(quorum, "one")
    one.term()
    other = Candidate(quorum, "other")
    lab.wait_for(lambda: all(server.call("EXISTS", "job!queue") for server in quorum.servers),
                 "the other in the queue")
    other.resign()
    check(not other.leads(), "two lead")
    one.resign()


@case("an observer on a terminal-less stdout prints lines; what is refused")
def _(quorum):
    admit(quorum)
    process = lab.start("elect", *PATIENT, "--observe", "job", env=on(quorum))
    line = process.stdout.readline().decode()
    check(line.endswith("Z job: nobody leads\n"), line)
    process.terminate()
    lab.finish(process)
    redlock("elect", "--observe", "job", "true", env=on(quorum)).expect(64, err="--observe")
    redlock("elect", "job", env=on(quorum)).expect(64, err="no command")
    redlock("elect", "--label", "x" * 65, "job", "true", env=on(quorum)).expect(64, err="--label")


lab.main(servers=3)

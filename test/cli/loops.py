#!/usr/bin/env python3
"""docs/guide/loops.md on real servers: services on the loops of others, and a coroutine."""
import os
import pathlib

import lab
from lab import case, equal, redlock, on

BUILT = pathlib.Path(os.environ["EXAMPLES"]).parent / "guide"
ENDLESS = "1000000"  # steps: more than a case takes


def start(name, *words):
    if not (BUILT / name).exists():
        raise lab.Skipped("what it is built with is not installed")
    return lab.spawn([BUILT / name, *words], env=lab.environment({}),
                     stdin=lab.subprocess.DEVNULL, stdout=lab.subprocess.PIPE,
                     stderr=lab.subprocess.PIPE)


def reads(process, line):
    equal(process.stdout.readline().decode(), f"{line}\n", "what it says")


def waits(name, quorum):
    quorum.occupy("job")
    process = start(name, "10", *quorum.uris)
    reads(process, "waiting")  # says a tick of its loop, while the lock is another's
    for server in quorum.servers:
        server.call("DEL", "job")
    done = lab.finish(process)
    done.expect(0)
    lines = [line for line in done.out.splitlines() if line != "waiting"]
    equal(lines, ["held", "done", "released"], "what it says then")
    lab.wait_for(lambda: quorum.keys() == 0, "the end of its lock")


def loses(name, quorum):
    process = start(name, ENDLESS, *quorum.uris)
    while (line := process.stdout.readline()) == b"waiting\n":
        pass
    equal(line, b"held\n", "what it says")
    redlock("break", "--yes", "job", *lab.PATIENT, env=on(quorum)).expect(0)
    lab.finish(process).expect(
        1, out="the nodes no longer store the token of this lock\nreleased\n")


def refuses(name, _quorum):
    lab.finish(start(name)).expect(1, err=f"usage: {name} STEPS NODE...\n")
    lab.finish(start(name, "1", "redis://a/x")).expect(
        1, err="node 1: the URI is malformed: the database is not a number from 0 to 999999\n")


for service in ("uv", "glib", "asio", "await"):
    for what, run in (("its loop ticks while another has the lock; it works, and releases", waits),
                      ("it hears of a loss, and stops its work", loses),
                      ("it refuses arguments that are wrong", refuses)):
        case(f"{service}: {what}")(lambda quorum, name=service, run=run: run(name, quorum))


if __name__ == "__main__":
    lab.main()

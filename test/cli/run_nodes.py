#!/usr/bin/env python3
"""redlock run when its nodes fail: the faults of the last extension are told, not the TTL."""
import json
import os
import re

import lab
from lab import case, check, equal, finish, on

TTL = "4s"
FAILED = r"^redlock: k: not extended: "
ENDS = r"; the lock ends in \d[^\n]* unless the next extension succeeds$"
THREE = r"3 of 5 nodes failed: (unix://\S+, ){2}unix://\S+: "
# Nodes that stopped fail in the round or before it: not all need have the same text.
STOPPED = (r"3 of 5 nodes failed: (?=([^\n]*?unix://){3})"
           r"((unix://[^\s,;]+, )*unix://[^\s,;]+: no reply (in time|within the node timeout)(; )?)+")
LOST = r"^redlock: k: the lock is lost: not extended: "


def begin(quorum, *words, **more):
    path = lab.temporary("beats")
    process = lab.start(*words, "run", "-t", TTL, "k", *lab.beat(path), env=on(quorum, **more))
    lab.wait_for_beats(path)
    return process


def lines(text, pattern):
    return re.findall(pattern, text, re.MULTILINE)


@case("three of five nodes die: a warning, once; the loss, -v and --json name them")
def _(quorum):
    process = begin(quorum, "-v", "--json")
    quorum.kill(0, 1, 2)
    outcome = finish(process).expect(124)
    equal(len(lines(outcome.err, FAILED + ".*" + ENDS)), 1, f"warnings in {outcome}")
    equal(len(lines(outcome.err, LOST + THREE + "cannot connect: No such file or directory; the command is stopped$")), 1,
          f"losses in {outcome}")
    check("TTL" not in outcome.err, f"the TTL is blamed in {outcome}")
    after = outcome.err.partition("the command is stopped")[2]
    equal(len(lines(after, r"^redlock: unix://\S+: absent, cannot connect: No such file or directory$")),
          3, f"nodes after the loss in {outcome}")
    found = json.loads(outcome.err.splitlines()[-1])
    equal([node["fault"] for node in found["nodes"]], ["connect"] * 3 + ["none"] * 2, "faults")
    equal([node["verdict"] for node in found["nodes"]], ["absent"] * 3 + ["granted"] * 2, "verdicts")


@case("three of five nodes stop: they do not reply in time; -q leaves only the loss")
def _(quorum):
    process = begin(quorum, "-q", "--timeout", "300ms")
    for server in quorum.servers[:3]:
        server.stop()
    outcome = finish(process).expect(124)
    for server in quorum.servers[:3]:
        server.go_on()
    lab.matches(outcome.err, LOST + STOPPED + r"; the command is stopped\n$", "stderr")


@case("an outage that ends before the lock does: a warning, and another line when it is over")
def _(quorum):
    path = lab.temporary("end")
    process = lab.start("run", "-t", "9s", "--timeout", "300ms", "k", "sh", "-c",
                        f"until test -e {path}; do sleep 0.02; done", env=on(quorum))
    lab.wait_for(lambda: None not in quorum.values("k"), "the lock on all nodes")
    for server in quorum.servers[:3]:
        server.stop()
    seen = [process.stderr.readline().decode()]
    for server in quorum.servers[:3]:
        server.go_on()
    seen.append(process.stderr.readline().decode())
    lab.matches(seen[0], FAILED + STOPPED + ENDS, "the first line")
    lab.matches(seen[1], "^redlock: k: the lock is extended again$", "the second line")
    lab.write(path, "")
    finish(process).expect(0, err="^$")
    check(os.path.exists(path), "it ended by itself")


lab.main()

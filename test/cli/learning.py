#!/usr/bin/env python3
"""redlock acquire -t auto: a TTL that learns from the last holds."""
import json
import re

import lab
from lab import PATIENT, case, check, equal, on, redlock


class Hold:
    """Each acquire and each release is a process of its own. The base TTL is 5 s."""

    def __init__(self, quorum, *words):
        self.file = lab.temporary("token")
        self.env = on(quorum, REDLOCK_TTL="5s")
        redlock("acquire", *PATIENT, "-t", "auto", "--token-file", self.file, *words, "k",
                env=self.env).expect(0)
        self.ttl_ms = json.loads(lab.read(self.file))["ttl_ms"]

    def release(self, held_ms):
        """As if it had been held for so long."""
        text = json.loads(lab.read(self.file))
        now_us = int(lab.time.clock_gettime(lab.time.CLOCK_BOOTTIME) * 1e6)
        text["begun_us"] = now_us - held_ms * 1000
        lab.write(self.file, json.dumps(text))
        return redlock("release", *PATIENT, "--token-file", self.file, "k", env=self.env).code


def remembered(quorum):
    return [int(server.call("GET", "k!hold") or 0) for server in quorum.servers]


@case("it begins with its own TTL, and grows to twice the longest hold")
def _(quorum):
    hold = Hold(quorum)
    equal(hold.ttl_ms, 5000, "the first TTL")
    hold.release(10000)  # it outlived its TTL: counted twice
    for ms in remembered(quorum):
        check(20000 <= ms < 25000, ms)
    hold = Hold(quorum)
    check(40000 <= hold.ttl_ms < 50000, hold.ttl_ms)
    for server in quorum.servers:
        check(0 < server.call("PTTL", "k") <= hold.ttl_ms, "the key")
        check(0 < server.call("PTTL", "k!hold") <= 86400000, "what is remembered")
    equal(hold.release(6000), 0, "a release")
    check(Hold(quorum).ttl_ms < hold.ttl_ms, "it does not shrink")


@case("it shrinks by 0.6 % a hold, and never below its own TTL nor above the longest")
def _(quorum):
    for server in quorum.servers:
        server.call("SET", "k!hold", "10000")
    for expected in (20000, 19880, 19760, 19642):
        hold = Hold(quorum)
        check(abs(hold.ttl_ms - expected) <= 4, f"{hold.ttl_ms} instead of {expected}")
        hold.release(1)
    for server in quorum.servers:
        server.call("SET", "k!hold", "10000000")
    hold = Hold(quorum)
    equal(hold.ttl_ms, 60000, "the TTL")
    hold.release(1)
    equal(Hold(quorum, "--max-ttl", "2m").ttl_ms, 120000, "the TTL")


@case("what a minority remembers counts if it is asked; what is no number does not")
def _(quorum):
    quorum.kill(3, 4)
    for index, text in enumerate(("12000", "12x", "-5")):
        quorum[index].call("SET", "k!hold", text)
    equal(Hold(quorum).ttl_ms, 5000, "the TTL, with fewer than q answers")
    for server in quorum.servers[:3]:
        server.call("DEL", "k")
    quorum[1].call("DEL", "k!hold")
    quorum[2].call("DEL", "k!hold")
    equal(Hold(quorum).ttl_ms, 24000, "the TTL")


@case("what no hold can have lasted is forgotten by the next hold")
def _(quorum):
    for text in ("inf", "1e300", "nan", "5356800001"):
        for server in quorum.servers:
            server.call("SET", "k!hold", text)
        Hold(quorum).release(3000)
        for ms in remembered(quorum):
            check(3000 <= ms < 60000, f"{ms} after {text}")


@case("a hold that finds its lock gone is remembered, too; one without a time is not")
def _(quorum):
    hold = Hold(quorum)
    for server in quorum.servers:
        server.call("DEL", "k")
    equal(hold.release(7000), 1, "a release")
    for ms in remembered(quorum):
        check(14000 <= ms < 19000, ms)
    quorum.reset()
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    redlock("release", *PATIENT, "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(0)
    equal(quorum.keys(), 0, "keys")


@case("of a fenced lock only nodes that may vote remember it: another node could not be admitted")
def _(quorum):
    redlock("admit", *PATIENT, "--new", "--at-once", env=on(quorum)).expect(0)
    quorum[4].call("FLUSHALL")
    hold = Hold(quorum, "--fence")
    equal(hold.release(3000), 0, "a release")
    equal([ms > 0 for ms in remembered(quorum)], [True] * 4 + [False], "nodes that remember it")


@case("the file of another boot has no time that could be told")
def _(quorum):
    hold = Hold(quorum)
    content = json.loads(lab.read(hold.file))
    content["boot_id"] = "00000000-0000-0000-0000-000000000000"
    lab.write(hold.file, json.dumps(content))
    equal(hold.release(7000), 0, "a release")
    equal(quorum.keys(), 0, "keys")


def outlived(quorum, times_ms):
    """Those of the holds that outlived their TTL."""
    found = []
    for index, ms in enumerate(times_ms):
        hold = Hold(quorum)
        if ms > hold.ttl_ms:
            found.append(index)
        hold.release(ms)
    return found


@case("of holds that grow to the double none outlives its TTL")
def _(quorum):
    growing = [int(4000 * 2 ** (i / 50)) for i in range(51)]
    equal(outlived(quorum, growing), [], "lost")


def commands(quorum):
    return [int(re.search(r"total_commands_processed:(\d+)", server.call("INFO", "stats"))[1])
            for server in quorum.servers]


@case("an acquire sends each node one command more")
def _(quorum):
    took = []
    for words in ((), ("-t", "auto", "--token-file", lab.temporary("token"))):
        before = commands(quorum)
        redlock("acquire", *PATIENT, "-n", *words, f"k{len(took)}", env=on(quorum)).expect(0)
        took.append([after - first for first, after in zip(before, commands(quorum))])
    equal([more - usual for usual, more in zip(*took)], [1] * 5, "commands")


@case("options that do not go together")
def _(quorum):
    for words in (["acquire", "-t", "auto", "k"], ["run", "-t", "auto", "k", "--", "true"],
                  ["acquire", "-t", "auto", "--token-file", lab.temporary("t"), "--and", "b", "k"]):
        redlock(*words, env=on(quorum)).expect(64, err="auto")


lab.main()

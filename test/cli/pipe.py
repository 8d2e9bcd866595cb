#!/usr/bin/env python3
"""`redlock pipe`: its start, and each request of docs/pipe.md."""
import json
import os
import random

import lab
from fencing import found as admit
from lab import case, check, equal, on
from piping import (LARGEST, Pipe, check_until, left_ms, names, wait_expired, wait_until_free)

LONG = 600000
RANDOM_LINES, SEED = 1000, 20261129
WAITERS, HOLDS = 1000, 10000


def refused_start(code, text, *words, env=None, parent=None, **more):
    """The pipe does not start; its only line says why."""
    words = [*words, "pipe"] + (["--parent", str(parent)] if parent else [])
    done = lab.redlock(*words, env=env, text="", **more)
    equal(done.code, code, f"exit code of {done}")
    equal(done.out.count("\n"), 1, f"lines of {done}")
    line = json.loads(done.out)
    import json_schema
    equal(json_schema.faults_of(line, "pipe"), "", "schema")
    equal([line["notice"], line["exit"]], ["error", code], "the line")
    check(text in line["text"], f"{text!r} is not in {line}")
    check(line["text"] in done.err, f"stderr: {done}")


# --- the start ---

@case("hello is there before any node is connected, and has the clock and the boot")
def _(quorum):
    for server in quorum.servers:
        server.stop()
    before = lab.now_us()
    with Pipe(quorum) as pipe:
        after = lab.now_us()
        hello = pipe.hello
        equal(hello["schema"], "redlock.pipe/1", "schema")
        check(before <= hello["now_us"] <= after, f"{before} <= {hello['now_us']} <= {after}")
        equal(hello["boot_id"], lab.read("/proc/sys/kernel/random/boot_id").strip(), "boot_id")
        number = pipe.send("lock", key="k", ttl_ms=LONG)
        for server in quorum.servers:
            server.go_on()
        pipe.unlock(pipe.reply(number)["hold"])


@case("--parent is the process that started the pipe: otherwise 64, and a line that says so")
def _(quorum):
    for parent in (os.getppid(), 1, 4194304, None):
        refused_start(64, "--parent", env=on(quorum), parent=parent)
    for parent in ("x", -1, ""):
        done = lab.redlock("pipe", "--parent", str(parent), env=on(quorum), text="")
        equal([done.code, json.loads(done.out)["exit"]], [64, 64], f"{parent!r}: {done}")


@case("a configuration or a file of TLS that is wrong: one line, with the exit code")
def _(quorum):
    ours = os.getpid()
    refused_start(78, "no nodes", env={}, parent=ours)
    refused_start(78, "REDLOCK_TTL", env=on(quorum, REDLOCK_TTL="soon"), parent=ours)
    refused_start(78, "/no/file", "--config", "/no/file", env={}, parent=ours)
    refused_start(78, "/no/ca", "--cacert", "/no/ca",
                  env={"REDLOCK_NODES": "rediss://localhost:1"}, parent=ours)


@case("stdin or stdout is a regular file: refused")
def _(quorum):
    path = lab.write(lab.temporary("file"), '{"id":1,"op":"lock","key":"k"}\n')
    for stream, mode in (("stdin", "rb"), ("stdout", "ab")):
        with open(path, mode) as file:
            process = lab.start("pipe", "--parent", str(os.getpid()), env=on(quorum),
                                **{"stdin": lab.subprocess.PIPE, stream: file})
            done = lab.finish(process).expect(64, err="must be pipes or sockets")
        line = json.loads(done.out or lab.read(path).splitlines()[-1])
        equal([line["notice"], line["exit"]], ["error", 64], f"the line of {stream}")
    equal(quorum.keys(), 0, "keys")


@case("options and the environment are those of every command")
def _(quorum):
    with Pipe(quorum, "--prefix", "app:", "--label", "me", REDLOCK_TTL="20m") as pipe:
        hold = pipe.lock("k")
        equal(names(quorum), ["app:k"], "keys")
        check(left_ms(quorum, "app:k") > LONG, "TTL")
        pipe.unlock(hold)
        quorum.occupy("app:k", value="p" + "a" * 32 + "@db1:4711")
        reply = pipe.refused("TAKEN", "lock", key="k", wait_ms=0, text="another owner")
        equal([reply["holder"], len(reply["nodes"])], ["db1:4711", 5], "whom the nodes name")
    for server in quorum.servers:
        server.call("DEL", "app:k")


# --- requests ---

@case("lock, unlock, and lock again: numbers of holds are new, a second unlock is GONE")
def _(quorum):
    with Pipe(quorum) as pipe:
        seen = set()
        for _ in range(30):
            reply = pipe.ask("lock", key="k", ttl_ms=LONG)
            equal([reply["fence"], reply["slot"]], [None, None], "fence, slot")
            check(0 < reply["until_us"] - lab.now_us() <= LONG * 1000 * 0.98, f"{reply}")
            check_until(quorum, pipe, reply["hold"], "k")
            check(0 <= reply["hold"] <= LARGEST, f"{reply}")
            seen.add(reply["hold"])
            pipe.unlock(reply["hold"])
            pipe.refused("GONE", "unlock", hold=reply["hold"])
            wait_until_free(quorum)
        equal(len(seen), 30, "numbers of holds")
        for op in ("extend", "beat"):
            pipe.refused("GONE", op, hold=seen.pop())


@case("keys: 2 and 16 as one lock, 17 and the same twice are refused")
def _(quorum):
    with Pipe(quorum) as pipe:
        for count in (1, 2, 16):
            keys = sorted(f"k{i}" for i in range(count))
            hold = pipe.lock(keys=keys, ttl_ms=LONG)
            equal(names(quorum), keys, "keys")
            if count > 1:
                pipe.refused("TAKEN", "lock", key=keys[1], wait_ms=0)
            pipe.unlock(hold)
            wait_until_free(quorum)
        for keys in ([f"k{i}" for i in range(17)], ["k", "k"], ["k", ""], [], ["k", 1], "k",
                     [["k"]]):
            reply = pipe.ask("lock", keys=keys)
            check(reply.get("error") in ("BAD_KEY", "BAD_OPTION"), f"{keys}: {reply}")
        pipe.refused("BAD_KEY", "lock", key="k", keys=["l"])
        wait_until_free(quorum)


@case("a key of any characters is one; NUL, none, too many bytes and reserved ends are refused")
def _(quorum):
    with Pipe(quorum) as pipe:
        for key in ("a key", "\u00e9\u4e2d\U0001f511", "\u202e\n\t\"\\{}", "x" * 512, "{}", "k!1"):
            hold = pipe.lock(key, ttl_ms=LONG)
            equal(names(quorum), [key.encode().decode(errors="surrogateescape")], "keys")
            pipe.unlock(hold)
            wait_until_free(quorum)
        for key in ("", "x" * 513, "\u00e9" * 257, "k!queue", None, 1, True, ["k"], {}):
            reply = pipe.ask("lock", key=key)
            check(reply.get("error") in ("BAD_KEY", "BAD_OPTION"), f"{key!r}: {reply}")
        pipe.refused("BAD_KEY", "lock")
        wait_until_free(quorum)


@case("a key with NUL is refused, and ends nothing")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=LONG)
        for members in ({"key": "a\0b"}, {"key": "\0"}, {"keys": ["a", "b\0"]}):
            reply = pipe.ask("lock", **members)
            check(reply.get("error") in ("BAD_KEY", "BAD_OPTION"), f"{members}: {reply}")
        pipe.unlock(hold)


@case("unknown operations and members, wrong types and numbers are refused, and change nothing")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock("held", ttl_ms=LONG)
        for op in ("acquire", "Lock", "", "lock ", "hello"):
            pipe.refused("UNSUPPORTED", op, key="k")
        for op in (1, None, True, ["lock"]):
            reply = pipe.ask(op, key="k")
            check(reply.get("error") in ("UNSUPPORTED", "BAD_OPTION"), f"{op}: {reply}")
        for name in ("ttl", "TTL_MS", "", "x" * 500, "x" + "\u00e9" * 100, "\u4e2d" * 40, "\n"):
            pipe.refused("UNSUPPORTED", "lock", key="k", **{name: 1})
            pipe.refused("UNSUPPORTED", "unlock", hold=hold, **{name: 1})
        numbers = ("ttl_ms", "wait_ms", "max_hold_ms", "beat_ms", "slots")
        for name in numbers:
            for value in (-1, 2**53, 1.5, "1", True, [], {}, 2**63 - 1):
                pipe.refused("BAD_OPTION", "lock", key="k", **{name: value})
        for members in ({"kind": "record"}, {"kind": "Shared"}, {"kind": 1}, {"kind": ""},
                        {"fence": 1}, {"fence": "true"}, {"slots": 129},
                        {"kind": "shared", "slots": 2}, {"kind": "slot"}):
            pipe.refused("BAD_OPTION", "lock", key="k", **members)
        for op in ("unlock", "extend", "beat"):
            for value in (-1, 2**53, 1.5, "1", None, [hold]):
                pipe.refused("BAD_OPTION", op, hold=value)
            pipe.refused("BAD_OPTION", op)
        pipe.refused("BAD_OPTION", "cancel")
        pipe.refused("BAD_OPTION", "extend", hold=hold, ttl_ms="1")
        for ttl_ms in (0, LARGEST):
            reply = pipe.ask("lock", key="k", ttl_ms=ttl_ms)
            check(reply.get("error") in ("BAD_TTL", "BAD_OPTION"), f"{ttl_ms}: {reply}")
        equal(names(quorum), ["held"], "keys")
        pipe.unlock(hold)


@case("a number that no program can store is refused, and ends nothing")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock("held", ttl_ms=LONG)
        for value in (2**63, 10**30, -10**30):
            pipe.refused("BAD_OPTION", "lock", key="k", ttl_ms=value)
        pipe.unlock(hold)


@case("a limit of 0 is no limit that is left out: slots, max_hold_ms and beat_ms refuse it")
def _(quorum):
    with Pipe(quorum) as pipe:
        for name in ("slots", "max_hold_ms", "beat_ms"):
            pipe.refused("BAD_OPTION", "lock", key="k", **{name: 0})


@case("null is as if the member were not there")
def _(quorum):
    with Pipe(quorum) as pipe:
        pipe.unlock(pipe.lock(key="k", kind=None, slots=None, fence=None, ttl_ms=None,
                              wait_ms=None, max_hold_ms=None, beat_ms=None))


@case("an ID is any integer from 0 to 2^53 - 1")
def _(quorum):
    with Pipe(quorum) as pipe:
        for number in (0, LARGEST, 2**31, 2**32 + 1):
            pipe.last_id = number - 1
            pipe.works()


@case("shared locks: several at once, and no other beside them")
def _(quorum):
    with Pipe(quorum) as pipe, Pipe(quorum) as other:
        holds = [each.lock(kind="shared", ttl_ms=LONG) for each in (pipe, other, pipe)]
        pipe.refused("TAKEN", "lock", key="k", wait_ms=0)
        for each, hold in zip((pipe, other, pipe), holds):
            each.unlock(hold)
        hold = pipe.lock(ttl_ms=LONG)
        other.refused("TAKEN", "lock", key="k", kind="shared", wait_ms=0)
        pipe.unlock(hold)
        wait_until_free(quorum)


@case("a semaphore: each hold has a slot of its own, with or without its kind")
def _(quorum):
    with Pipe(quorum) as pipe:
        first = pipe.ask("lock", key="k", slots=2, ttl_ms=LONG)
        second = pipe.ask("lock", key="k", slots=2, kind="slot", ttl_ms=LONG)
        equal(sorted([first["slot"], second["slot"]]), [1, 2], "slots")
        pipe.refused("TAKEN", "lock", key="k", slots=2, wait_ms=0)
        pipe.unlock(first["hold"])
        equal(pipe.ask("lock", key="k", slots=2, ttl_ms=LONG)["slot"], first["slot"], "slot")


@case("Redisson's layout: a hash with our token")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(kind="redisson", ttl_ms=LONG)
        equal({server.call("TYPE", "k") for server in quorum.servers}, {"hash"}, "types")
        pipe.refused("TAKEN", "lock", key="k", kind="redisson", wait_ms=0)
        pipe.unlock(hold)
        wait_until_free(quorum)


@case("fenced locks and elections have a fence that rises; a node that is not admitted has none")
def _(quorum):
    with Pipe(quorum) as pipe:
        reply = pipe.refused("NO_QUORUM", "lock", key="k", fence=True, wait_ms=0)
        equal(reply["reason"], "NOT_ADMITTED", "why")
    admit(quorum)
    with Pipe(quorum) as pipe:
        last = 0
        for members in ({}, {"kind": "shared"}, {"keys": ["k", "l"]}, {"kind": "election"},
                        {"kind": "election", "fence": False}, {}):
            name = {} if "keys" in members else {"key": "k"}
            reply = pipe.ask("lock", **{"fence": True, "ttl_ms": 5000, **name, **members})
            check(reply.get("fence", 0) > last, f"{members}: {reply} after {last}")
            last = reply["fence"]
            pipe.unlock(reply["hold"])
        reply = pipe.ask("lock", key="k", fence=True, slots=3, ttl_ms=5000)
        check(reply["slot"] and reply["fence"], f"{reply}")
        pipe.unlock(reply["hold"])
        wait_until_free(quorum)
        plain = pipe.ask("lock", key="k", ttl_ms=5000)
        equal(plain["fence"], None, "fence of a plain lock")


# --- waits ---

@case("wait_ms: one attempt, a short wait, no limit")
def _(quorum):
    with Pipe(quorum) as holder, Pipe(quorum) as pipe:
        hold = holder.lock(ttl_ms=LONG)
        reply = pipe.refused("TAKEN", "lock", key="k", wait_ms=0)
        equal([reply["reason"], len(reply["nodes"])], ["NONE", 5], "what was replied")
        equal(reply["holder"].rpartition(":")[2], str(holder.pid), "holder")
        before = lab.now_us()
        pipe.refused("TIMEOUT", "lock", key="k", wait_ms=300)
        check(lab.now_us() - before >= 300000, "the wait was shorter")
        waits = pipe.send("lock", key="k", ttl_ms=LONG)
        lab.wait_for(lambda: sum(server.call("EXISTS", "k!queue") for server in quorum.servers) > 2,
                     "its place in the queue")
        holder.unlock(hold)
        pipe.unlock(pipe.reply(waits)["hold"])


@case("cancel: a lock that waits ends by CANCELLED, one that is held stays")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=LONG)
        waits, other = pipe.send("lock", key="k"), pipe.send("lock", key="k", ttl_ms=LONG)
        cancels = [pipe.send("cancel", lock=waits)]
        reply = pipe.reply(waits)
        equal([reply["error"], reply["reason"]], ["CANCELLED", "BY_CALLER"], "reply")
        asked = pipe.last_id + 1
        held = pipe.lock("other", ttl_ms=LONG)
        cancels += [pipe.send("cancel", lock=number)
                    for number in (asked, waits, pipe.last_id + 3, LARGEST)]
        for number in cancels:
            equal(pipe.reply(number), {"id": number}, "reply to cancel")
        equal(sorted(names(quorum)), ["k", "other"], "keys")
        pipe.unlock(hold)
        pipe.unlock(pipe.reply(other)["hold"])
        pipe.unlock(held)


@case("1,000 wait, and one more is BUSY; all end by cancel")
def _(quorum):
    quorum.occupy("k", range(3))
    with Pipe(quorum) as pipe:
        waiting = [pipe.send("lock", key="k") for _ in range(WAITERS)]
        pipe.refused("BUSY", "lock", key="k", text="wait")
        for number in waiting:
            pipe.send("cancel", lock=number)
        equal({pipe.reply(number)["error"] for number in waiting}, {"CANCELLED"}, "replies")
        pipe.unlock(pipe.lock("free"))
    for server in quorum.servers:
        server.call("DEL", "k")


@case("100 locks at once, and their unlocks; requests are taken in any order")
def _(quorum):
    with Pipe(quorum) as pipe:
        asked = [pipe.send("lock", key=f"k{i}", ttl_ms=LONG) for i in range(100)]
        holds = [pipe.reply(number)["hold"] for number in reversed(asked)]
        equal(len(names(quorum)), 100, "keys")
        ends = [pipe.send("unlock", hold=hold) for hold in holds]
        equal([pipe.reply(number)["hold"] for number in ends], holds, "replies")
        wait_until_free(quorum)


@case("10,000 are held, and one more is BUSY until one is unlocked")
def _(quorum):
    with Pipe(quorum) as pipe:
        asked, holds = [], []
        for i in range(HOLDS):
            asked.append(pipe.send("lock", key=f"k{i}", ttl_ms=LONG, kind="shared"))
            if len(asked) == WAITERS // 2:
                holds += [pipe.reply(number)["hold"] for number in asked]
                asked = []
        equal(len(holds), HOLDS, "holds")
        pipe.refused("BUSY", "lock", key="more", text="holds")
        pipe.unlock(holds.pop())
        pipe.unlock(pipe.lock("more"))
        for number in [pipe.send("unlock", hold=hold) for hold in holds]:
            check("error" not in pipe.reply(number), "an unlock")


# --- until when ---

@case("a hold is extended until its unlock; extend sets another TTL, which stays")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=1500)
        first = pipe.until[hold]
        while lab.now_us() < first + 1000000:
            pipe.take()
            check_until(quorum, pipe, hold, "k")
        reply = pipe.ask("extend", hold=hold, ttl_ms=LONG)
        check(reply["until_us"] > lab.now_us() + LONG * 900, f"{reply}")
        check_until(quorum, pipe, hold, "k")
        check(left_ms(quorum, "k") > LONG * 0.9, "TTL on the nodes")
        pipe.unlock(hold)
        wait_until_free(quorum)


@case("max_hold_ms: lost by MAX_HOLD, and the unlock is GONE; also after pauses of the pipe")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=1000, max_hold_ms=1500)
        lost = pipe.wait_lost(hold)
        equal(lost["error"], "MAX_HOLD", "why")
        check(pipe.until[hold] <= lab.now_us() + 1000000, "until_us")
        pipe.refused("GONE", "unlock", hold=hold)
        wait_expired(quorum, "k", pipe.until[hold])
        both = [pipe.lock("a", ttl_ms=20000, max_hold_ms=1000, beat_ms=500),
                pipe.lock("b", ttl_ms=20000, max_hold_ms=1000, beat_ms=5000)]
        ends = lab.now_us() + 1200000
        pipe.process.send_signal(lab.signal.SIGSTOP)
        lab.wait_for(lambda: lab.now_us() > ends, "the end of max_hold_ms")
        pipe.process.send_signal(lab.signal.SIGCONT)
        for hold in both:
            equal(pipe.wait_lost(hold)["error"], "MAX_HOLD", "why")
        pipe.works()


@case("beat_ms: without a beat it is not extended, not released and not lost until its deadline")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=3000, beat_ms=200)
        lost = pipe.wait_lost(hold)
        equal(lost["error"], "EXPIRED", "why")
        check(lab.now_us() >= pipe.until[hold], "lost is early")
        wait_expired(quorum, "k", pipe.until[hold])
        pipe.refused("GONE", "beat", hold=hold)
        # A beat, and an extend, go on with it.
        for op in ("beat", "extend"):
            hold = pipe.lock(ttl_ms=6000, beat_ms=200)
            lab.wait_for(lambda: left_ms(quorum, "k") < 3000, "a hold that is not extended")
            reply = pipe.ask(op, hold=hold)
            check("error" not in reply, f"{op}: {reply}")
            lab.wait_for(lambda: left_ms(quorum, "k") > 5000, "an extension")
            check_until(quorum, pipe, hold, "k")
            pipe.unlock(hold)
            wait_until_free(quorum)


@case("lost comes once, with what the nodes replied: too few nodes, or a key that is gone")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold, kept = pipe.lock(ttl_ms=2000), pipe.lock("kept", ttl_ms=LONG)
        for server in quorum.servers:
            server.call("DEL", "k")
        lost = pipe.wait_lost(hold)
        equal([lost["error"], len(lost["nodes"])], ["GONE", 5], "why")
        pipe.refused("GONE", "unlock", hold=hold)
        hold = pipe.lock(ttl_ms=2000)
        until = pipe.until[hold]
        quorum.kill(0, 1, 2)
        lost = pipe.wait_lost(hold)
        check(lost["error"] in ("EXPIRED", "NO_QUORUM"), f"{lost}")
        check(pipe.until[hold] >= until, "until_us")
        quorum.start()
        reply = pipe.ask("unlock", hold=kept)
        check(reply.get("error") in (None, "GONE", "UNCONFIRMED"), f"{reply}")


# --- whatever comes ---

WORDS = ["id", "op", "key", "keys", "kind", "slots", "fence", "ttl_ms", "wait_ms", "hold", "lock",
         "max_hold_ms", "beat_ms", "lock", "unlock", "extend", "beat", "cancel", "shared", "slot",
         "", "x", "\u00e9", "told"]


def random_value(prng, depth=0):
    kinds = ["word", "number", "word", "number", "flag", "null", "real"] + ["list"] * (depth < 2)
    kind = prng.choice(kinds)
    return {"word": lambda: prng.choice(WORDS), "flag": lambda: prng.random() < 0.5,
            "number": lambda: prng.choice([0, 1, 2, 50, 1000, -1, 2**53, 2**62, LARGEST]),
            "null": lambda: None, "real": lambda: prng.choice([0.5, -1e300, 1e15]),
            "list": lambda: [random_value(prng, depth + 1) for _ in range(prng.randrange(4))],
            }[kind]()


def random_line(prng, number):
    """Mostly a request with an ID, whose other members are right or wrong."""
    request = {"id": number, "op": prng.choice(["lock", "unlock", "extend", "beat", "cancel"])}
    for _ in range(prng.randrange(5)):
        request[prng.choice(WORDS[2:])] = random_value(prng)
    if prng.random() < 0.5:
        request["key"] = prng.choice("abc")
        request["wait_ms"] = prng.choice([0, 20])
    line = json.dumps(request, ensure_ascii=prng.random() < 0.5).encode()
    if prng.random() < 0.005:  # what is no request ends the pipe
        at = prng.randrange(len(line))
        cut = line[:at] + bytes([prng.choice(b'x"{}\\\xff\x80')]) + line[at + prng.randrange(2):]
        line = line if is_request(cut) else cut
    return line


def is_request(line):
    try:
        found = json.loads(line.decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError, RecursionError):
        return False
    return (isinstance(found, dict) and type(found.get("id")) is int and
            0 <= found["id"] <= LARGEST)


def check_reply(pipe, request):
    """All but a lock have theirs by now."""
    reply = pipe.replies.get(request["id"], {})
    wanted = {"lock": not reply or "error" in reply or "fence" in reply,
              "cancel": reply == {"id": request["id"]} or "error" in reply}
    check(wanted.get(request["op"], "error" in reply or "hold" in reply), f"reply {reply}")


@case("1,000 random lines: each has its reply, or ends the pipe; no hold is released early")
def _(quorum):
    prng, number, ends = random.Random(SEED), 1000, 0
    last = number + RANDOM_LINES
    while number < last:
        with Pipe(quorum) as pipe:
            told = pipe.lock("told", ttl_ms=2500)
            pipe.last_id, first = 10**6 + number, number
            line = b""
            while number < last and (number == first or is_request(line)):
                line = random_line(prng, number)
                number += 1
                try:
                    pipe.write(line + b"\n")
                    if is_request(line):
                        pipe.works()
                        check_reply(pipe, json.loads(line))
                except lab.Failed as failed:
                    raise lab.Failed(f"{failed}: after {line}") from None
                check(told in pipe.lost or left_ms(quorum, "told") > 0,
                      f"released by {line}")
            if not is_request(line):
                ends += 1
                pipe.rest()
            until = pipe.until[told]
            if names(quorum).count("told") and told not in pipe.lost:
                pipe.close()
                wait_expired(quorum, "told", until)
        for server in quorum.servers:
            server.call("FLUSHALL")
    check(ends > 0, "no line has ended a pipe")


lab.main()

#!/usr/bin/env python3
"""`redlock pipe`: what it extends and releases when something ends, or is not read."""
import os
import signal

import lab
from fencing import found as admit
from lab import case, check, equal
from piping import Ended, Pipe, check_until, left_ms, names, wait_expired, wait_until_free

LONG, TTL = 600000, 9000  # of TTL it is extended when 6 s are left
PAUSED, RENEWED = 5000, 7000
# Of each kind: the request, and a name that the nodes store.
KINDS = {
    "plain": ({}, "plain"),
    "shared": ({"kind": "shared"}, "shared"),
    "slot": ({"slots": 3}, "slot!1"),
    "redisson": ({"kind": "redisson"}, "redisson"),
    "set": ({"keys": ["set", "set2"]}, "set2"),
}
FENCED = {
    "fplain": ({"fence": True}, "fplain"),
    "fshared": ({"fence": True, "kind": "shared"}, "fshared"),
    "fslot": ({"fence": True, "slots": 3}, "fslot!1"),
    "fset": ({"fence": True, "keys": ["fset", "fset2"]}, "fset2"),
    "election": ({"kind": "election"}, "election"),
}


def hold_all(quorum, pipe, **more):
    """Locks of each kind; {hold: what the nodes store}"""
    admit(quorum)
    holds = {}
    for key, (members, _) in {**KINDS, **FENCED}.items():
        wanted = {**({} if "keys" in members else {"key": key}), **members, **more}
        reply = pipe.ask("lock", ttl_ms=TTL, **wanted)
        check("error" not in reply, f"{key}: {reply}")
        slot = f"!{reply['slot']}" if reply["slot"] else ""
        holds[reply["hold"]] = {**KINDS, **FENCED}[key][1].partition("!")[0] + slot
    return holds


def wait_paused(quorum, stored):
    lab.wait_for(lambda: all(left_ms(quorum, name) < PAUSED for name in stored),
                 "the end of all extensions")


def use_renewed(quorum, pipe, holds):
    """They are extended again, and can be extended and unlocked; then their keys are gone."""
    def are_renewed():
        """A beat for those that need one."""
        for hold in holds:
            pipe.ask("beat", hold=hold)
        return all(left_ms(quorum, name) > RENEWED for name in holds.values())
    lab.wait_for(are_renewed, "extensions")
    for hold, name in holds.items():
        check_until(quorum, pipe, hold, name)
        reply = pipe.ask("extend", hold=hold, ttl_ms=TTL - 500)
        check("error" not in reply, f"extend {name}: {reply}")
        check_until(quorum, pipe, hold, name)
    for hold in holds:
        pipe.unlock(hold)
    wait_until_free(quorum)
    equal(pipe.lost, {}, "what was lost")


# --- the reader ---

@case("stdout is not read: nothing is extended; when it is read, locks of all kinds go on")
def _(quorum):
    with Pipe(quorum) as pipe:
        holds = hold_all(quorum, pipe)
        pipe.fill_stdout()
        wait_paused(quorum, holds.values())
        use_renewed(quorum, pipe, holds)


@case("without a beat, locks of all kinds are not extended; after a beat they go on")
def _(quorum):
    with Pipe(quorum) as pipe:
        holds = hold_all(quorum, pipe, beat_ms=500)
        wait_paused(quorum, holds.values())
        use_renewed(quorum, pipe, holds)


@case("stdout is not read until the deadline: the lock ends then, lost is read later")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=3000)
        other = pipe.lock("other", ttl_ms=LONG)
        until = pipe.until[hold]
        pipe.fill_stdout()
        wait_expired(quorum, "k", until)
        check(left_ms(quorum, "other") > 0, "the other one is released")
        lost = pipe.wait_lost(hold)
        equal(lost["error"], "EXPIRED", "why")
        pipe.refused("GONE", "unlock", hold=hold)
        pipe.unlock(other)


@case("requests that come while stdout is not read are done: an unlock frees the lock")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=LONG)
        pipe.fill_stdout()
        number = pipe.send("unlock", hold=hold)
        wait_until_free(quorum)
        check("error" not in pipe.reply(number), "the unlock")


# --- the ends ---

def ends(name, act):
    @case(f"{name}: stdout is closed; what was told stays until its deadline, the rest is released")
    def _(quorum):
        quorum.occupy("taken", range(3))
        with Pipe(quorum) as pipe:
            told = [pipe.lock(f"told{i}", ttl_ms=1500 + 1500 * i) for i in range(2)]
            pipe.send("lock", key="taken", ttl_ms=LONG)
            pipe.drain()
            act(pipe)
            pipe.rest()
            check(left_ms(quorum, "told1") > 0, "it is released")
            for i, hold in enumerate(told):
                wait_expired(quorum, f"told{i}", pipe.until[hold])
            pipe.end()
            equal(pipe.lost, {}, "notices")
        for server in quorum.servers:
            server.call("DEL", "taken", "taken!queue")
        wait_until_free(quorum)


ends("stdin ends", lambda pipe: pipe.close())
ends("a line that is no JSON", lambda pipe: pipe.write("nonsense\n"))
ends("a line that is no object", lambda pipe: pipe.write('["id",1]\n'))
ends("a request without an ID", lambda pipe: pipe.write('{"op":"lock","key":"x"}\n'))
ends("an ID that is none", lambda pipe: pipe.write('{"id":-1,"op":"lock","key":"x"}\n'))
ends("an ID that is a string", lambda pipe: pipe.write('{"id":"1","op":"lock","key":"x"}\n'))
ends("a member twice", lambda pipe: pipe.write('{"id":1,"id":2,"op":"lock","key":"x"}\n'))
ends("bytes that are no UTF-8", lambda pipe: pipe.write(b'{"id":1,"op":"lock","key":"\xff"}\n'))


@case("a line of 70,000 bytes ends the pipe, also without its end; one of 64 KiB does not")
def _(quorum):
    for end in ("\n", ""):
        with Pipe(quorum) as pipe:
            line = '{"id":900,"op":"beat","hold":0'
            pipe.write(line.ljust(65535) + "}\n")
            equal(pipe.reply(900)["error"], "GONE", "reply")
            hold = pipe.lock(ttl_ms=2000)
            try:
                pipe.write(line.ljust(70000) + "}" + end)
            except (Ended, BrokenPipeError):
                pass
            pipe.rest()
            check(901 not in pipe.replies, "a reply")
            wait_expired(quorum, "k", pipe.until[hold])
            pipe.end()


@case("what was not told is released when stdin ends, though it is held")
def _(quorum):
    with Pipe(quorum) as pipe:
        told = pipe.lock("told", ttl_ms=3000)
        pipe.fill_stdout()
        pipe.send("lock", key="untold", ttl_ms=LONG)
        lab.wait_for(lambda: left_ms(quorum, "untold") > 0, "the lock")
        pipe.close()
        lab.wait_for(lambda: "untold" not in names(quorum), "its release")
        check(left_ms(quorum, "told") > 0, "the told one is released")
        wait_expired(quorum, "told", pipe.until[told])
        pipe.end()


@case("nothing is held when stdin ends: the pipe ends")
def _(quorum):
    with Pipe(quorum) as pipe:
        pipe.unlock(pipe.lock(ttl_ms=LONG))
        pipe.close()
        pipe.rest()
        pipe.end()


@case("the application closes the pipe with locks, and exits later: then they are released")
def _(quorum):
    with Pipe(quorum, application=True) as pipe:
        for i in range(5):
            pipe.lock(f"k{i}", ttl_ms=LONG)
        pipe.close()
        pipe.rest()
        equal(len(names(quorum)), 5, "keys")
        pipe.process.kill()
        wait_until_free(quorum)
        lab.nothing_is_left()


@case("KILL of the application: all its locks are free, also those of all kinds and paused ones")
def _(quorum):
    with Pipe(quorum, application=True) as pipe:
        holds = hold_all(quorum, pipe)
        pipe.lock("silent", ttl_ms=LONG, beat_ms=1)
        pipe.lock("beside", ttl_ms=LONG)
        pipe.send("lock", key="beside", ttl_ms=LONG)  # which waits
        equal(len(set(holds.values()) - set(names(quorum))), 0, "keys that are missing")
        pipe.process.kill()
        wait_until_free(quorum)
        pipe.rest()
        lab.nothing_is_left()


@case("KILL of the application while stdout is not read: all its locks are free")
def _(quorum):
    with Pipe(quorum, application=True) as pipe:
        for i in range(50):
            pipe.lock(f"k{i}", ttl_ms=LONG)
        pipe.fill_stdout()
        pipe.process.kill()
        wait_until_free(quorum)
        lab.nothing_is_left()


@case("KILL of the pipe: its locks end at their deadline, not before")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=2000)
        pipe.process.kill()
        pipe.rest()
        wait_expired(quorum, "k", pipe.until[hold])


@case("signals that end a process are ignored")
def _(quorum):
    ignored = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE,
               signal.SIGTTIN, signal.SIGTTOU]
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=LONG)
        for number in ignored:
            os.kill(pipe.pid, number)
            pipe.works()
        check_until(quorum, pipe, hold, "k")
        pipe.unlock(hold)


# --- nodes ---

@case("a node that restarts, and one that stands still, change nothing for a hold")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=6000)
        quorum.kill(0)
        quorum.start()
        quorum[1].stop()
        first = pipe.until[hold]
        while pipe.until[hold] < first + 4000000:
            pipe.take()
        quorum[1].go_on()
        lab.wait_for(lambda: pipe.drain() or quorum.values("k")[1:].count(None) == 0, "the keys")
        check_until(quorum, pipe, hold, "k")
        pipe.unlock(hold)
        wait_until_free(quorum)
        pipe.unlock(pipe.lock(ttl_ms=6000))


@case("a stop of the pipe beyond the deadline: lost, and the unlock is GONE")
def _(quorum):
    with Pipe(quorum) as pipe:
        hold = pipe.lock(ttl_ms=1500)
        pipe.process.send_signal(signal.SIGSTOP)
        pipe.drain()
        wait_expired(quorum, "k", pipe.until[hold])
        pipe.process.send_signal(signal.SIGCONT)
        equal(pipe.wait_lost(hold)["error"], "EXPIRED", "why")
        pipe.refused("GONE", "unlock", hold=hold)
        pipe.unlock(pipe.lock(ttl_ms=LONG))


lab.main()

#!/usr/bin/env python3
"""A node whose time of day becomes wrong: it loses its vote on fenced locks, and gets it back."""
import functools
import signal
import time

import lab
from fencing import LOOK_SECONDS, QUARANTINE_S, SHORT, TTL, fence, found, is_without_a_vote, marker, state, together
from lab import case, check, equal, on, redlock

HOUR = 3600 * 1000 * 1000  # us
WRONG = 1                  # the node

FAULTS = {
    "an hour ahead": lambda clock: clock.jump(HOUR),
    "an hour behind": lambda clock: clock.jump(-HOUR),
    "1.2 s ahead": lambda clock: clock.jump(1200000),
    "400 ms ahead": lambda clock: clock.jump(400000),
    "5 % too fast": lambda clock: clock.slew(50000),
    "5 % too slow": lambda clock: clock.slew(-50000),
    "still": lambda clock: clock.freeze(),
}


def findings(quorum):
    """Findings of `redlock check` on the node."""
    node = redlock("check", "--json", env=on(quorum)).json()["nodes"][WRONG]
    return {one["code"] for one in node["findings"]}, node["member"]


def live_through(name, fault):
    """Detected by a long-lived client, reported by all, and lifted when the clock is correct again."""
    with lab.Quorum(3, wrong=[WRONG]) as quorum:
        node = quorum[WRONG]
        fences = [0]

        def vote():
            fences.append(int(fence(quorum).expect(0).out))
            check(fences[-1] > fences[-2], f"the fences {fences[-2:]}")
        found(quorum, *SHORT)
        holder = lab.start("run", "-t", TTL, "--fence", "long", "sleep", "1h", env=on(quorum))
        lab.wait_for(lambda: quorum.values("long").count(None) == 0, "a lock on all nodes")
        vote()
        began = time.monotonic()
        fault(node.clock)
        lab.wait_for(lambda: state(node) == "barred", f"its marker to say so: {name}")
        check(is_without_a_vote(node, vote), "it is lifted at once")
        lab.wait_for(lambda: findings(quorum)[0] >= {"quarantined", "clock_off"}, f"check to name it: {name}")
        node.clock.mend()
        mended = time.monotonic()
        if mended - began > QUARANTINE_S - 1:
            return  # a clock that was set once may have a vote again on a machine that is so slow
        while is_without_a_vote(node, vote):
            time.sleep(LOOK_SECONDS)
        waited = time.monotonic() - mended
        check(QUARANTINE_S - 1 < waited, f"it votes again after {waited} s")
        check(holder.poll() is None, "the holder lost its lock")
        lab.wait_for(lambda: node.call("GET", "long"), "the holder's token, also there")
        codes, fenced = findings(quorum)
        check(not codes & {"quarantined", "clock_off", "clock_set"}, f"still found: {codes}")
        check(fenced["state"] == "active" and fenced["generation"] > 1, f"{fenced}")
        holder.send_signal(signal.SIGTERM)
        lab.finish(holder).expect(128 + signal.SIGTERM)


@case("wrong by an hour, 1.2 s or 0.4 s, too fast, too slow, or still: no vote until it is corrected")
def _():
    together(*(functools.partial(live_through, *row) for row in FAULTS.items()))


@case("one of two is set by 0.4 s: its marker stays, and only the client that saw it has no quorum")
def _():
    with lab.Quorum(2, wrong=[WRONG]) as quorum:
        found(quorum, *SHORT)
        holder = lab.start("run", "-t", TTL, "--fence", "long", "sleep", "1h", env=on(quorum))
        lab.wait_for(lambda: quorum.values("long").count(None) == 0, "a lock on all nodes")
        before = [marker(server) for server in quorum.servers]
        quorum[WRONG].clock.jump(400000)
        lab.finish(holder).expect(124, err="the lock is lost")
        equal([marker(server) for server in quorum.servers], before, "markers")
        fence(quorum).expect(0)


lab.main(servers=0)

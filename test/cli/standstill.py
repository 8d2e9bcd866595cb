#!/usr/bin/env python3
"""A client host is suspended, or paused with all its clocks: no node loses its vote for that."""
import functools

import lab
from fencing import fence, found, marker, together
from host import Host
from lab import case, check, equal, on

MAX_TTL = "5s"
SECONDS = 3
SPREADS = (0.1, 0.6, 3, 6)  # seconds from the first node's replies to the last node's
SETTLED = 10                # replies of each node, from the first one on


def leads(quorum, env, name):
    """A candidate for the office; its CMD makes the file when it leads."""
    path = lab.temporary(name)
    process = lab.start("elect", "-t", MAX_TTL, "--label", name, "job", "--", "sh", "-c",
                        f"echo $REDLOCK_TERM > {path}.new; mv {path}.new {path}; exec sleep 600",
                        env={**on(quorum), **env})
    return process, path


def live_through(spread, clocks):
    with lab.Quorum(3) as quorum:
        host = Host(quorum, clocks)
        found(quorum, "--max-ttl", MAX_TTL)
        leader, path = leads(quorum, {}, "leader")
        lab.wait_for(lambda: lab.os.path.exists(path), "a leader")
        term = lab.read(path)
        waiter, waiters_path = leads(quorum, host.environment(), "waiter")
        holder = lab.start("run", "-t", MAX_TTL, "--fence", "own", "sleep", "1h",
                           env={**on(quorum), **host.environment()})
        lab.wait_for(lambda: quorum.values("own").count(None) == 0, "a lock on all nodes")
        lab.wait_for(lambda: all(server.call("EXISTS", "job!queue") for server in quorum.servers),
                     "a waiter")
        before = [marker(server) for server in quorum.servers]
        host.stand_still(SECONDS, [spread * i / 2 for i in range(3)])
        host.wait_for_replies(SETTLED)
        equal([marker(server) for server in quorum.servers], before, f"markers, {spread} s apart")
        check(leader.poll() is None and lab.read(path) == term, "the leader leads no more")
        fence(quorum, "-t", MAX_TTL).expect(0)
        check(not lab.os.path.exists(waiters_path), "two lead")
        for process in (holder, waiter, leader):
            process.terminate()
            lab.finish(process)


@case("suspended for 3 s, and the nodes reply 0.1 to 6 s apart: no marker changes")
def _():
    together(*(functools.partial(live_through, spread, "suspended") for spread in SPREADS))


@case("paused with all its clocks: the same")
def _():
    together(*(functools.partial(live_through, spread, "all") for spread in SPREADS))


lab.main(servers=0)

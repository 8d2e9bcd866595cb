"""redlock-py, in as many threads as there are lanes.

A cycle: lock() and unlock() ask the nodes one after another, all of them, and return
after the last. unlock() does not tell whether anything was released.

default: one Redlock, made of addresses as its README has it; threads share its pools.
best: each thread has a Redlock of its own on connections of its own, which spares the pool
and its look at the socket before each command. Replies are parsed by hiredis in both.
"""
import os
import sys

import redis
from redlock import Redlock

import laps

URIS = os.environ["REDLOCK_NODES"].split(",")


def of_its_own():
    return Redlock([redis.Redis.from_url(uri, single_connection_client=True)
                    for uri in URIS])


def cycle(locks, key):
    lock = locks.lock(key, laps.TTL_MS)
    if not lock:
        return False
    locks.unlock(lock)
    return True


def main(settings):
    shared = Redlock(URIS)
    locks = [of_its_own() if settings == "best" else shared for _ in laps.LANES]
    if not cycle(locks[0], "bench:first"):
        sys.exit("redlock-py: the nodes grant nothing")
    laps.run_in_threads(lambda lane: cycle(locks[lane.number], lane.next_key()))


main(sys.argv[1])

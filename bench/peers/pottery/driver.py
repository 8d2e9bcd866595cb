"""pottery's Redlock.

A cycle: default: acquire() and release() return at the majority, what is left of them goes
on in threads. best: those of AIORedlock wait for all nodes.

default: Redlock in as many threads as there are lanes; for each call it makes a pool of
threads.
best: AIORedlock in one thread, with uvloop; each lane has connections of its own, which
spares the pool. Replies are parsed by hiredis in both.
"""
import asyncio
import os
import sys
import time

import redis
import redis.asyncio
import uvloop
from pottery import AIORedlock, Redlock
from pottery.exceptions import ReleaseUnlockedLock

import laps

URIS = os.environ["REDLOCK_NODES"].split(",")
TTL_S = laps.TTL_MS / 1000


# --- threads ---

def cycle(masters, key):
    lock = Redlock(key=key, masters=masters, auto_release_time=TTL_S)
    if not lock.acquire():
        return False
    try:
        lock.release()
    except ReleaseUnlockedLock:
        return False
    return True


def in_threads():
    masters = {redis.Redis.from_url(uri) for uri in URIS}
    if not cycle(masters, "bench:first"):
        sys.exit("pottery: the nodes grant nothing")
    laps.run_in_threads(lambda lane: cycle(masters, lane.next_key()))


# --- coroutines ---

async def cycle_async(masters, key):
    lock = AIORedlock(key=key, masters=masters, auto_release_time=TTL_S)
    if not await lock.acquire():
        return False
    try:
        await lock.release()
    except ReleaseUnlockedLock:
        return False
    return True


async def run_async(masters, lane, end):
    while (began := time.perf_counter()) < end:
        lane.note(began, await cycle_async(masters, lane.next_key()))


async def in_coroutines():
    """Nothing else has to run while the next line is awaited, so that may block."""
    masters = [{redis.asyncio.Redis.from_url(uri, single_connection_client=True)
                for uri in URIS} for _ in laps.LANES]
    if not await cycle_async(masters[0], "bench:first"):
        sys.exit("pottery: the nodes grant nothing")
    for lanes, seconds in laps.orders():
        lap = laps.Lap(lanes, seconds)
        await asyncio.gather(*[run_async(masters[lane.number], lane, lap.end)
                               for lane in lap.lanes])
        lap.report()


if sys.argv[1] == "best":
    uvloop.run(in_coroutines())
else:
    in_threads()

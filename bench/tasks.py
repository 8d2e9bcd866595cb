#!/usr/bin/env python3
"""What holding locks in asyncio costs the other tasks of the loop: tasks.py BUILD [--json FILE]
[--locks N] [--ttl S] [--rounds N] [--seconds S]

A heartbeat task sleeps for 5 ms again and again, and notes how late it wakes. In each round it
has a lap alone and a lap while the loop holds the locks, on five private servers. The locks
are extended at a third of the TTL, so with the default TTL once in each lap. The order of the
two laps alternates.
"""
import asyncio
import os
import pathlib
import statistics
import sys
import threading
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

BEAT_S = 0.005
GOALS = {"heartbeat_p99": (None, 2)}


async def lap(seconds):
    """How late the heartbeat is, in us, and the CPU time that the process takes."""
    lates, cpu, end = [], time.process_time(), time.monotonic() + seconds
    while (due := time.monotonic() + BEAT_S) < end:
        await asyncio.sleep(BEAT_S)
        lates.append((time.monotonic() - due) * 1e6)
    lates.sort()
    return {"p50_us": lates[len(lates) // 2], "p99_us": lates[len(lates) * 99 // 100],
            "max_us": lates[-1], "cpu_share": (time.process_time() - cpu) / seconds}


async def holding(client, options, numbers):
    """A lap while all locks are held; how long the acquires and the releases took."""
    locks = [client.lock(f"task:{number}", ttl=options.ttl) for number in range(options.locks)]
    threads, begun = threading.active_count(), time.monotonic()
    holds = await asyncio.gather(*(lock.acquire() for lock in locks))
    numbers["acquire_s"].append(time.monotonic() - begun)
    # From now on each lock is extended within the lap.
    seen = await lap(options.seconds)
    lost = sum(hold.lost or hold.valid_ms() == 0 for hold in holds)
    lab.equal((lost, threading.active_count() - threads), (0, 0), "lost locks, threads of locks")
    begun = time.monotonic()
    await asyncio.gather(*(hold.release() for hold in holds))
    numbers["release_s"].append(time.monotonic() - begun)
    return seen


async def rounds(module, quorum, options):
    numbers = {"acquire_s": [], "release_s": []}
    found = []
    async with module.AsyncClient(quorum.uris, module.Options(node_timeout=1)) as client:
        await lap(race.WARM_UP_S)
        await (await client.lock("warm").acquire()).release()
        for index in range(options.rounds):
            pair = {}
            for held in (index % 2 == 0, index % 2 == 1):
                pair[held] = (await holding(client, options, numbers) if held
                              else await lap(options.seconds))
            found.append(pair)
            print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return found, numbers


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    os.environ["REDLOCK_LIBRARY"] = str(build / "src/libredlock.so.1")
    sys.path.insert(0, str(race.ROOT / "python"))
    import redlock_quorum
    with lab.Quorum(5) as quorum:
        found, numbers = asyncio.run(rounds(redlock_quorum, quorum, options))

    median = statistics.median
    ratios = [pair[True]["p99_us"] / pair[False]["p99_us"] for pair in found]
    figures = {
        "heartbeat_p99": median(ratios), "heartbeat_p99_least": min(ratios),
        "heartbeat_p99_most": max(ratios),
        "acquire_all_s": median(numbers["acquire_s"]),
        "release_all_s": median(numbers["release_s"])}
    for held, name in ((False, "alone"), (True, "holding")):
        for figure in found[0][held]:
            figures[f"{name}_{figure}"] = median(pair[held][figure] for pair in found)
    for name, value in figures.items():
        print(f"{name:24}{value:.3f}")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("asyncio", rounds=9, seconds=2.0)
    words.add_argument("build")
    words.add_argument("--locks", type=race.positive(int), default=1000)
    words.add_argument("--ttl", type=race.positive(float), default=6.0,
                       help="seconds (%(default)s)")
    race.main(run, "asyncio", words.parse_args())

#!/usr/bin/env python3
"""Thousands of locks at once, beside as many in portions: burst.py BUILD [--before FOLDER]
[--wait MS] [--busy N] [--rounds N] [--json FILE]

A client of three private servers, with default options. It acquires free keys and releases
them: all in one iteration of its loop, and 64 at a time. The two alternate, beside no other work
and beside N busy processes. What counts is the ratio of their times, and that no acquire fails.
`--before` is a folder with another version's libredlock.so.1: its laps of 64 alternate with the
others. Besides, 1,000 threads want a lock each, and 10,000 tasks of asyncio.
"""
import asyncio
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
import scale  # noqa: E402
from race import lab  # noqa: E402

NODES = 3
TTL_MS = 30000
COUNTS = (10000, 50000)
PORTION = 64
THREADS = 1000
TASKS = 10000
STEPS = ("hold", "release")
RATIO_MOST = 1.5
BEFORE_MOST = 1.05


class Busy:
    """Processes that use whatever time they get."""

    def __init__(self, count):
        self.running = [lab.spawn([sys.executable, "-c", "while True: pass"],
                                  stdout=subprocess.DEVNULL) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()


def lap(holder, count, at_once):
    """{step: (seconds, failed)}. What failed is released, too, and fails there."""
    found = {}
    for step, words in zip(STEPS, (f"hold {count} {at_once}", f"release {at_once}")):
        seen = holder.order(words)
        found[step] = seen["seconds"], seen["failed"]
    return found


def laps(holders, count, rounds):
    """[{name: lap}]: `holders` has {name: (holder, how many at once)}."""
    found, names = [], list(holders)
    for index in range(rounds):
        turn = index % len(names)
        found.append({name: lap(holders[name][0], count, holders[name][1] or count)
                      for name in names[turn:] + names[:turn]})
    return found


def thread_failures(build, quorum):
    """How many threads got no lock, and how many releases were not confirmed."""
    racer = race.Racer("threads", [build / "bench/cycle", "sync"], quorum)
    laps = [racer.lap(THREADS, f"{THREADS}c") for _ in range(2)]
    racer.close()
    denied = sum(lap["denied"] for lap in laps)
    return denied, sum(lap["failed"] for lap in laps) - denied


async def gather(module, quorum):
    async with module.AsyncClient(quorum.uris) as client:
        locks = [client.lock(f"task:{number}") for number in range(TASKS)]
        begun = time.monotonic()
        holds = await asyncio.gather(*(lock.acquire() for lock in locks), return_exceptions=True)
        took = time.monotonic() - begun
        failed = sum(isinstance(hold, Exception) for hold in holds)
        await asyncio.gather(*(hold.release() for hold in holds
                               if not isinstance(hold, Exception)), return_exceptions=True)
        return took, failed


def judge_laps(found, name, figures, goals):
    """Ratios of one crowd and count; what may have failed: laps of 64 may, too."""
    for step in STEPS:
        ratios = [one["at once"][step][0] / one["portions"][step][0] for one in found]
        key = f"{name}_{step}"
        figures[key] = statistics.median(ratios)
        figures[f"{key}_failed"] = sum(one["at once"][step][1] for one in found)
        goals[key] = None, RATIO_MOST
        if step == "hold":
            goals[f"{key}_failed"] = None, 0
        times = "  ".join(
            f"{which} {statistics.median(one[which][step][0] for one in found):6.3f} s, "
            f"{sum(one[which][step][1] for one in found)} failed" for which in found[0])
        print(f"{name:12} {step:8} {race.show_ratio((figures[key], min(ratios), max(ratios)))}  "
              f"{times}", flush=True)
    if "before" in found[0]:
        ratios = [sum(one["portions"][step][0] for step in STEPS)
                  / sum(one["before"][step][0] for step in STEPS) for one in found]
        figures[f"{name}_before"] = statistics.median(ratios)
        goals[f"{name}_before"] = None, BEFORE_MOST
        print(f"{name:12} 64 at a time, in laps of before: "
              f"{race.show_ratio((statistics.median(ratios), min(ratios), max(ratios)))}")


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    os.environ["REDLOCK_LIBRARY"] = str(build / "src/libredlock.so.1")
    sys.path.insert(0, str(race.ROOT / "python"))
    import redlock_quorum
    figures, goals, kept = {}, {}, {}
    with lab.Quorum(NODES) as quorum:
        def holder(env=None):
            return scale.Holder("holder", [build / "bench/holder", TTL_MS, options.wait], quorum,
                                env)
        now = holder()
        holders = {"at once": (now, None), "portions": (now, PORTION)}
        if options.before:
            holders["before"] = holder({"LD_LIBRARY_PATH": options.before}), PORTION
        for busy in 0, options.busy:
            with Busy(busy):
                for count in COUNTS:
                    name = f"{count // 1000}k_busy{busy}"
                    kept[name] = laps(holders, count, options.rounds)
                    judge_laps(kept[name], name, figures, goals)
                denied, unconfirmed = thread_failures(build, quorum)
                figures[f"threads_busy{busy}_failed"] = denied
                figures[f"threads_busy{busy}_unconfirmed"] = unconfirmed
                took, failed = asyncio.run(gather(redlock_quorum, quorum))
                figures[f"asyncio_busy{busy}_s"] = took
                figures[f"asyncio_busy{busy}_failed"] = failed
                goals[f"threads_busy{busy}_failed"] = goals[f"asyncio_busy{busy}_failed"] = None, 0
                print(f"beside {busy}: of {2 * THREADS} threads {denied} failed, and "
                      f"{unconfirmed} releases; of {TASKS} tasks of asyncio {failed}, in "
                      f"{took:.2f} s", flush=True)
        for one in {one for one, _ in holders.values()}:
            one.close()
    race.write_json(options.json, {**figures, "rounds": kept})
    return 0 if race.judge(figures, goals) else 1


if __name__ == "__main__":
    words = race.argparse.ArgumentParser(prog="./dev bench burst")
    words.add_argument("build")
    words.add_argument("--json", metavar="FILE", help="write all figures there, too")
    words.add_argument("--before", metavar="FOLDER",
                       help="with the library of another version")
    words.add_argument("--rounds", type=race.positive(int), default=race.ROUNDS_LEAST,
                       help="of each count (%(default)s)")
    words.add_argument("--busy", type=int, default=20, metavar="N", help="(%(default)s)")
    words.add_argument("--wait", type=int, default=20000, metavar="MS",
                       help="wait_ms of the acquires; 0: one attempt (%(default)s)")
    race.main(run, "burst", words.parse_args())

#!/usr/bin/env python3
"""What a cycle allocates: allocations.py BUILD [--json FILE] [--cycles N]

Each contender runs with a counter in front of malloc() (test/support/alloc_faults.c), on five
private servers. One lap of N cycles is counted, after another lap of N cycles. The result
is the same each time, so there are no rounds. It is printed to a hundredth, because a lap
itself allocates a block or two. A lap in which a cycle failed, because the machine was too
busy, is run again.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

MANY = 64
TRIES = 5
KINDS = ("malloc", "calloc", "realloc", "free")
GOALS = {"async_c1": (None, 2), "async_c64": (None, 2)}


def sound_lap(racer, lanes, end):
    for _ in range(TRIES):
        lap = racer.lap(lanes, end)
        if lap["failed"] == 0:
            return lap
    raise lab.Failed(f"{racer.name} fails again and again with {lanes} in flight")


def count(options, build, quorum, name, words):
    """{entry: {kind: calls in a cycle}}"""
    racer = race.Racer(name, words, quorum, {"LD_PRELOAD": str(build / "bench/alloc_faults.so")})
    found = {}
    for lanes in (1, MANY):
        racer.lap(lanes, f"{options.cycles}c")
        lap = sound_lap(racer, lanes, f"{options.cycles}c")
        lab.check("malloc" in lap, f"no counter saw the calls of {name}")
        found[f"{name}_c{lanes}"] = {kind: round(lap[kind] / lap["cycles"], 2)
                                     for kind in KINDS}
    racer.close()
    return found


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    calls = {}
    with lab.Quorum(5) as quorum:
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        calls.update(count(options, build, quorum, "floor", [build / "bench/floor"]))
        for how in ("async", "sync", "fenced"):
            words = [build / "bench/cycle", how, race.PATIENT]
            calls.update(count(options, build, quorum, how, words))
    figures = {name: round(sum(kinds[kind] for kind in KINDS if kind != "free"), 2)
               for name, kinds in calls.items()}
    print("calls in a cycle", *(f"{kind:>7}" for kind in KINDS), " allocations")
    for name, kinds in calls.items():
        print(f"{name:16}", *(f"{kinds[kind]:7.2f}" for kind in KINDS),
              f"{figures[name]:12.2f}")
    race.write_json(options.json, {**figures, "calls": calls})
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    race.main(run, "allocations", race.arguments_of_counts("allocations", 20000).parse_args())

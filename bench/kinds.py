#!/usr/bin/env python3
"""What each kind of lock costs beside the plain one: kinds.py BUILD [--json FILE] [--rounds N]
[--seconds S]

Five private servers; the kinds take turns with 1 cycle in flight and with 64, each lane with
keys of its own. A set has four keys. `again`: the thread has the lock already.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

MANY = 64
KINDS = ("async", "many", "redisson", "shared", "slots", "fenced")

# The targets: (at least, at most).
GOALS = {
    "many_c1_p50": (None, 1.3), "many_c64_throughput": (0.35, None),
    "redisson_c1_p50": (None, 1.15), "redisson_c64_throughput": (0.4, None),
    "shared_c1_p50": (None, 1.3), "shared_c64_throughput": (0.3, None),
    "slots_c1_p50": (None, 1.3), "slots_c64_throughput": (0.35, None),
    "fenced_c1_p50": (None, 1.5), "fenced_c64_throughput": (0.3, None),
    "again_p50_us": (None, 1),
}

# name: (entry, the entry that it is compared with, figure)
RATIOS = {
    f"{kind}_c{lanes}_{name}": (f"{kind}_c{lanes}", f"async_c{lanes}", figure)
    for kind in KINDS[1:]
    for lanes, name, figure in ((1, "p50", "p50_us"), (MANY, "throughput", "cycles_per_s"))
}


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(5) as quorum:
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        racers = {kind: race.Racer(kind, [build / "bench/cycle", kind, race.PATIENT], quorum)
                  for kind in (*KINDS, "again")}
        entries = {f"{name}_c{lanes}": (racers[name], lanes)
                   for lanes in (1, MANY) for name in KINDS}
        entries["again"] = (racers["again"], 1)
        the_race = race.Race(entries, options.seconds)
        the_race.run(options.rounds)
        for racer in racers.values():
            racer.close()
    figures = {name: the_race.ratio(*where)[0] for name, where in RATIOS.items()}
    figures["again_p50_us"] = the_race.median("again", "p50_us")
    figures["ranges"] = {name: the_race.ratio(*where)[1:] for name, where in RATIOS.items()}
    figures["medians"] = the_race.medians()
    race.show(the_race, RATIOS, GOALS)
    print(f"{'again_p50_us':24} {figures['again_p50_us']:<24.2f} wanted <= 1")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("kinds", rounds=28, seconds=0.25)
    words.add_argument("build")
    race.main(run, "kinds", words.parse_args())

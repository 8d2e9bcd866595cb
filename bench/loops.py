#!/usr/bin/env python3
"""What a lock costs in services on the loops of others (docs/guide/loops.md), beside libevent
alone: loops.py BUILD [--json FILE] [--rounds N] [--seconds S]

Five private servers, one lock in flight; the loops take turns in short laps. `libevent` has
no second thread; `threads` is redlock/sync.h. Loops that are not installed are left out. The
figures are of the quietest tenth of the laps: whatever else runs delays each hand-over between
the threads.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

SERVICES = ("uv", "glib", "asio", "await")
GOAL = (None, 2)  # times libevent


def quiet_p50_us(the_race, name):
    laps = sorted(round_[name]["p50_us"] for round_ in the_race.rounds)
    return laps[len(laps) // 10]


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    programs = {"libevent": [build / "bench/cycle", "async", race.PATIENT],
                "threads": [build / "bench/cycle", "sync", race.PATIENT]}
    programs |= {name: [build / f"bench/service-{name}"] for name in SERVICES
                 if (build / f"bench/service-{name}").exists()}
    with lab.Quorum(5) as quorum:
        racers = {name: race.Racer(name, words, quorum) for name, words in programs.items()}
        the_race = race.Race({name: (racer, 1) for name, racer in racers.items()},
                             options.seconds)
        the_race.run(options.rounds)
        for racer in racers.values():
            racer.close()
    quiet = {name: quiet_p50_us(the_race, name) for name in programs}
    figures = {f"{name}_p50": quiet[name] / quiet["libevent"] for name in programs}
    print(f"{'':14} {'p50':>8} {'all laps':>8} {'p99 us':>8} {'CPU s/10k':>9}")
    for name, laps in the_race.medians().items():
        print(f"{name:14} {quiet[name]:8.1f} {laps['p50_us']:8.1f} {laps['p99_us']:8.1f} "
              f"{laps['cpu_s_per_10k']:9.3f}")
    for name, ratio in figures.items():
        print(f"{name:14} {ratio:8.2f}")
    race.write_json(options.json, {**figures, "quiet_p50_us": quiet,
                                   "medians": the_race.medians()})
    return 0 if race.judge(figures, dict.fromkeys(figures, GOAL)) else 1


if __name__ == "__main__":
    words = race.arguments("loops", rounds=100, seconds=0.05)
    words.add_argument("build")
    race.main(run, "loops", words.parse_args())

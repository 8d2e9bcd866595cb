#!/usr/bin/env python3
"""How much libredlock costs above the minimum: floor.py BUILD [--json FILE]
[--rounds N] [--seconds S]

Five private servers; the floor (floor.c) and libredlock, with its loop, with threads and with
fenced locks, take turns with 1 cycle in flight and with 64. The servers count what both send:
the same commands and the same bytes for each cycle, or the comparison is void.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

MANY = 64
TRIES = 10

# The targets: (at least, at most).
GOALS = {
    "async_c1_p50": (None, 1.10), "async_c1_cpu": (None, 1.20),
    "async_c64_throughput": (0.90, None), "async_c64_cpu": (None, 1.6),
    "sync_t1_p50": (None, 1.35), "sync_t1_cpu": (None, 1.6),
    "sync_t64_throughput": (0.50, None),
    "fenced_c64_vs_plain": (0.30, None), "fenced_c1_p50_vs_plain": (None, 1.5),
}

# name: (entry, the entry that it is compared with, figure)
RATIOS = {
    "async_c1_p50": ("async_c1", "floor_c1", "p50_us"),
    "async_c1_cpu": ("async_c1", "floor_c1", "cpu_s_per_10k"),
    "async_c64_throughput": ("async_c64", "floor_c64", "cycles_per_s"),
    "async_c64_cpu": ("async_c64", "floor_c64", "cpu_s_per_10k"),
    "sync_t1_p50": ("sync_c1", "floor_c1", "p50_us"),
    "sync_t1_cpu": ("sync_c1", "floor_c1", "cpu_s_per_10k"),
    "sync_t64_throughput": ("sync_c64", "floor_c64", "cycles_per_s"),
    "fenced_c64_vs_plain": ("fenced_c64", "async_c64", "cycles_per_s"),
    "fenced_c1_p50_vs_plain": ("fenced_c1", "async_c1", "p50_us"),
}


def said(quorum):
    return (race.count_of(quorum, "stats", r"total_net_input_bytes:(\d+)"),
            race.count_of(quorum, "stats", r"total_commands_processed:(\d+)"))


def said_in_a_lap(quorum, racer, lanes):
    """(bytes, commands) of a cycle. Reading the counters takes bytes as well: few for many cycles.

    A cycle that failed sends less, or more: then another lap.
    
    """
    for _ in range(TRIES):
        before = said(quorum)
        lap = racer.lap(lanes, 1)
        if not lap["failed"]:
            return [(after - then) / lap["cycles"]
                    for after, then in zip(said(quorum), before)]
    raise lab.Failed(f"{racer.name}: in each of {TRIES} laps some cycles failed")


def compare_what_is_said(quorum, floor, ours):
    """Within 1 %: lanes that end have cycles that no lap counts."""
    theirs, own = (said_in_a_lap(quorum, racer, MANY) for racer in (floor, ours))
    print(f"said in a cycle: {own[0]:.0f} bytes in {own[1]:.1f} commands, "
          f"the floor {theirs[0]:.0f} in {theirs[1]:.1f}", flush=True)
    for mine, other in zip(own, theirs):
        lab.check(abs(mine / other - 1) < 0.01, "the floor sends something else")


def microseconds(quorum, racer):
    """The time of the servers' commands in a lap: {command: us of one call}."""
    for server in quorum.servers:
        server.call("CONFIG", "RESETSTAT")
    racer.lap(MANY, 1)
    names = ("set", "evalsha")
    calls, usecs = ({name: race.count_of(quorum, "commandstats",
                                         rf"cmdstat_{name}:.*?{what}=(\d+)")
                     for name in names} for what in ("calls", "usec"))
    return {name: usecs[name] / calls[name] for name in names if calls[name]}


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(5) as quorum:
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        racers = {"floor": race.Racer("floor", [build / "bench/floor"], quorum)}
        for how in ("async", "sync", "fenced"):
            racers[how] = race.Racer(how, [build / "bench/cycle", how, race.PATIENT], quorum)
        entries = {f"{name}_c{lanes}": (racer, lanes)
                   for lanes in (1, MANY) for name, racer in racers.items()}
        the_race = race.Race(entries, options.seconds)
        the_race.run(options.rounds)
        compare_what_is_said(quorum, racers["floor"], racers["async"])
        texts = {how: microseconds(quorum, racers[how]) for how in ("async", "fenced")}
        for racer in racers.values():
            racer.close()
    figures = {name: the_race.ratio(*where)[0] for name, where in RATIOS.items()}
    figures["ranges"] = {name: the_race.ratio(*where)[1:] for name, where in RATIOS.items()}
    figures["medians"] = the_race.medians()
    figures["server_us"] = texts
    race.show(the_race, RATIOS, GOALS)
    print("the servers' microseconds per command:", texts)
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    # Short laps: the load by other guests of the host differs from second to second.
    words = race.arguments("floor", rounds=28, seconds=0.25)
    words.add_argument("build")
    race.main(run, "floor", words.parse_args())

#!/usr/bin/env python3
"""What a cycle costs, by counts that load cannot move: gates.py BUILD [--json FILE] [--cycles N]

Plain and fenced locks, one cycle at a time, on five private servers: allocations of the
process, and the commands and bytes that each node receives; on one server: instructions of the
process (callgrind). A count above its bound makes the exit code 1. Cycles that failed are
played again.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import allocations  # noqa: E402
import instructions  # noqa: E402
import race  # noqa: E402
from race import lab  # noqa: E402

NODES = 5
HOWS = ("async", "fenced")
LAPS = 5  # a client reads the markers every 10 s: that falls into some laps

# Commands and bytes are exact. A process allocates a block or two of its own. Instructions
# depend on the compiler. With several nodes they also depend on how many replies the client
# finds ready at once, which load moves by a tenth. Two runs on one node differ by 1 %, so the
# least of LAPS counts. On an idle machine the client waits more often: 60 to 80 more than
# beside load.
BOUNDS = {
    "async_instructions": 8400, "fenced_instructions": 14000,
    "async_allocations": 1.1, "fenced_allocations": 1.1,
    "async_commands": 5, "fenced_commands": 12,
    "async_bytes": 257, "fenced_bytes": 541,
}


def received(quorum):
    """Commands and bytes that all nodes have received, and the cost of reading these counters."""
    return [race.count_of(quorum, "stats", pattern)
            for pattern in (r"total_commands_processed:(\d+)", r"total_net_input_bytes:(\d+)")]


def traffic(options, build, quorum, how):
    """(commands, bytes) that one node receives in one cycle: the least of LAPS laps."""
    racer = race.Racer(how, [build / "bench/cycle", how, race.PATIENT], quorum)
    racer.lap(1, f"{options.cycles}c")  # scripts are known and no connection is greeted any more
    idle = [then - before for before, then in zip(received(quorum), received(quorum))]
    laps = []
    for _ in range(LAPS):
        before = received(quorum)
        lap = allocations.sound_lap(racer, 1, f"{options.cycles}c")
        laps.append([(then - at_first - asked) / (NODES * lap["cycles"])
                     for then, at_first, asked in zip(received(quorum), before, idle)])
    racer.close()
    return [min(figures) for figures in zip(*laps)]


def measure(options, build, quorum, one, how):
    words = [build / "bench/cycle", how, race.PATIENT]
    commands, sent = traffic(options, build, quorum, how)
    calls = allocations.count(options, build, quorum, how, words)[f"{how}_c1"]
    return {
        f"{how}_instructions": min(
            instructions.measure(options, one, how, words, 1)["PROGRAM TOTALS"]
            for _ in range(LAPS)),
        f"{how}_allocations": sum(calls[kind] for kind in allocations.KINDS if kind != "free"),
        f"{how}_commands": commands,
        f"{how}_bytes": sent,
    }


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    figures = {}
    with lab.Quorum(NODES) as quorum, lab.Quorum(1) as one:
        for servers in quorum, one:
            lab.redlock("admit", "--new", "--at-once", env=lab.on(servers)).expect(0)
        for how in HOWS:
            figures.update(measure(options, build, quorum, one, how))
    above = [name for name, figure in figures.items() if round(figure, 2) > BOUNDS[name]]
    for name, figure in figures.items():
        print(f"{name:20} {figure:10.2f}, at most {BOUNDS[name]:g}"
              f"{'  ABOVE' if name in above else ''}")
    race.write_json(options.json, figures)
    return 1 if above else 0


if __name__ == "__main__":
    race.main(run, "gates", race.arguments_of_counts("gates", 3000).parse_args())

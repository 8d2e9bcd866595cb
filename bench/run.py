#!/usr/bin/env python3
"""How long `redlock run k -- true` takes, in multiples of `flock l true`: run.py BUILD [--json FILE]

Five private servers on unix sockets. In each round both commands run alternately, and the
result is the ratio of their medians. The rounds run among 200 processes and among 4,000,
alternately, too: the others sleep (sleepers.c). Both commands are started by posix_spawn(3).
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

NODES = 5
CROWDS = {"run_vs_flock": 200, "run_vs_flock_4000": 4000}  # processes on the machine
RUNS = 40  # of each command in a round
GOALS = {"run_vs_flock": (None, 3), "run_vs_flock_4000": (None, 3.3)}


def processes():
    return sum(name.isdigit() for name in os.listdir("/proc"))


class Crowd:
    """Sleeping processes, to make `count` processes on this machine."""

    def __init__(self, build, wanted):
        before = processes()
        self.process = lab.spawn([build / "bench/sleepers", str(max(wanted - before, 0))],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.before = before

    def __enter__(self):
        lab.equal(self.process.stdout.readline(), b"ready\n", "what the sleepers say")

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        lab.wait_for(lambda: processes() < self.before + 50, "the end of the sleepers")


def took_ms(words, env):
    begun = time.perf_counter()
    _, status = os.waitpid(os.posix_spawn(words[0], words, env), 0)
    lab.equal(status, 0, f"status of {' '.join(words)}")
    return (time.perf_counter() - begun) * 1000


def one_round(commands, env, runs):
    """{name: median in ms}"""
    taken = {name: [] for name in commands}
    for _ in range(runs):
        for name, words in commands.items():
            taken[name].append(took_ms(words, env))
    return {name: statistics.median(times) for name, times in taken.items()}


def measure(build, quorum, rounds, runs):
    """{figure: [a round: {name: ms}]}"""
    true = shutil.which("true")
    commands = {"run": [lab.program, "run", "k", true],
                "flock": [shutil.which("flock"), os.path.join(lab.folder, "l"), true]}
    env = lab.environment(lab.on(quorum))
    found = {figure: [] for figure in CROWDS}
    one_round(commands, env, runs)  # the nodes learn the scripts
    for index in range(rounds):
        for figure, wanted in CROWDS.items():
            with Crowd(build, wanted):
                found[figure].append(one_round(commands, env, runs))
        print(f"round {index + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(NODES) as quorum:
        found = measure(build, quorum, options.rounds, options.runs)
    figures = {"rounds": found}
    print("processes   run, ms   flock, ms   run in flocks")
    for figure, rounds in found.items():
        ratios = [one["run"] / one["flock"] for one in rounds]
        figures[figure] = statistics.median(ratios)
        run_ms, flock_ms = (statistics.median(one[name] for one in rounds)
                            for name in ("run", "flock"))
        print(f"{CROWDS[figure]:9}  {run_ms:8.2f}  {flock_ms:10.2f}   "
              + race.show_ratio((figures[figure], min(ratios), max(ratios))))
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    arguments = race.argparse.ArgumentParser(prog="./dev bench run")
    arguments.add_argument("build")
    arguments.add_argument("--json", metavar="FILE", help="write all figures there, too")
    arguments.add_argument("--rounds", type=race.positive(int), default=race.ROUNDS_LEAST,
                           help="among each crowd (%(default)s)")
    arguments.add_argument("--runs", type=race.positive(int), default=RUNS,
                           help="of each command in a round (%(default)s)")
    race.main(run, "run", arguments.parse_args())

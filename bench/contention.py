#!/usr/bin/env python3
"""How a contended lock goes from one owner to the next: contention.py REDLOCK CONTENDER
[--json FILE] [--seconds S] [--rounds N] [--only RUN,...] [--confirm] [--fenced] [--starve]

Five private servers; one worker alone, 16 threads of one process and 16 processes take turns
at holding one key for 1 ms, without and with 5 ms of thinking in between. Acquisitions per
second would mislead: a worker that takes its own lock again and again has many. So the figures
are how often the lock changes its owner, the longest wait, and the number of commands to the
nodes. A change is compared with an acquisition of the single worker in the same round: no
change can be cheaper.

A fair wait lasts while every other worker holds the lock once: 15 mean times between two
grants. The run fails if two holds overlap by CLOCK_MONOTONIC, or if tokens do not rise
(--fenced).
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from crowd import ROOT, Crowd, judge_holds, lab  # noqa: E402

CROWD = 16
HOLD_US = 1000
THINK_US = 5000
STARVE_S = 60

# processes, threads of each, microseconds of thinking
RUNS = {
    "alone": (1, 1, 0),
    "threads16": (1, CROWD, 0),
    "processes16": (CROWD, 1, 0),
    "alone_think": (1, 1, THINK_US),
    "threads16_think": (1, CROWD, THINK_US),
    "processes16_think": (CROWD, 1, THINK_US),
}

# The targets at top level: (at least, at most).
GOALS = {
    "threads16_vs_ideal": (0.9, None),
    "threads16_commands_per_change": (None, 3),
    "threads16_p999_vs_fair": (None, 2),
    "processes16_vs_ideal": (0.6, None),
    "processes16_commands_per_change": (None, 30),
    "processes16_p99_vs_fair": (None, 4),
    "least_served_share": (1 / 3, None),
}


# --- requirements, whatever the figures ---

def judge_fences(logs):
    last = 0
    for hold in logs.holds:
        lab.check(hold.fence > last, f"{hold.who}: token {hold.fence} after {last}")
        lab.check(hold.stored != 0, f"a write of a holder was refused: token {hold.fence}")
        last = hold.fence


def judge_count(logs, scripts, processes):
    """Checks that the workers counted right: servers count scripts, too, and exactly.

    A connection that is closed while its server replies drops the commands that the server
    has not read.
    
    """
    lab.check(0 <= logs.scripts - scripts <= 20 * processes,
              f"{logs.scripts} scripts were sent, and {scripts} run")


def scripts_run(quorum):
    return sum(int(count) for server in quorum.servers for count in re.findall(
        r"cmdstat_eval(?:sha)?:calls=(\d+)", server.call("INFO", "commandstats")))


# --- figures ---

def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(logs, workers):
    """Grants in the window; a wait that outlasted it counts for the maximum."""
    seen, seconds = logs.seen, (logs.end - logs.begin) / 1e6
    lab.check(len(seen) > 1, "nobody acquired")
    changes = sum(a.who != b.who for a, b in zip(seen, seen[1:]))
    lab.check(changes or workers == 1, "one worker had it all the time")
    waits = sorted(hold.granted - hold.began for hold in seen)
    longest = max([waits[-1], *(logs.end - began for began in logs.pending
                                if began < logs.end)])
    cycle = (seen[-1].granted - seen[0].granted) / (len(seen) - 1)
    fair = (workers - 1) * cycle
    served = {}
    for hold in seen:
        served[hold.who] = served.get(hold.who, 0) + 1
    least = min(served.values()) if len(served) == workers else 0
    one = {
        "acquisitions": len(seen), "acquisitions_per_s": len(seen) / seconds,
        "changes_per_s": changes / seconds,
        "changes_share": changes / (len(seen) - 1),
        "wait_ms": {name: value / 1000 for name, value in (
            ("p50", quantile(waits, 0.5)), ("p99", quantile(waits, 0.99)),
            ("p999", quantile(waits, 0.999)), ("max", longest))},
        "fair_wait_ms": fair / 1000,
        "commands_per_acquisition": logs.sent / len(seen),
        "cpu_ms_per_1000": logs.cpu_us / len(seen),
        "least_served_share": least * workers / len(seen),
        "lost": sum(hold.lost for hold in seen),
    }
    if workers > 1:
        one["commands_per_change"] = logs.sent / changes
        one["p99_vs_fair"] = quantile(waits, 0.99) / fair
        one["p999_vs_fair"] = quantile(waits, 0.999) / fair
    return one


class Bench:
    def __init__(self, contender, quorum, options):
        self.contender, self.quorum, self.options = contender, quorum, options
        self.storage = []
        self.words = ["-h", HOLD_US, *(["-c"] if options.confirm else [])]
        if options.fenced:
            self.fence()

    def fence(self):
        lab.redlock("admit", "--new", "--at-once", env=lab.on(self.quorum)).expect(0)
        self.storage = lab.Server(self.quorum.home, 50)
        self.storage.start()
        script = self.storage.call("SCRIPT", "LOAD", (
            ROOT / "contrib/fence/redis.lua").read_text())
        self.words += ["-s", self.storage.path, "-r", script]

    def run(self, name, seconds):
        processes, threads, think = RUNS[name]
        before = scripts_run(self.quorum)
        words = [*self.words, "-n", threads, "-t", think]
        with Crowd(self.contender, self.quorum, processes, words) as crowd:
            logs = crowd.measure(seconds)
        judge_holds(logs)
        judge_count(logs, scripts_run(self.quorum) - before, processes)
        if self.options.fenced:
            judge_fences(logs)
        self.rest()
        return figures(logs, processes * threads)

    def rest(self):
        """Waits until nothing is left of the lock: a later run must not wait for an earlier one."""
        lab.wait_for(lambda: not any(self.quorum.values("contended")), "a free lock", 30)

    def close(self):
        if self.storage:
            self.storage.kill()


def rotated(names, by):
    by %= len(names)
    return names[by:] + names[:by]


def compare(one_round):
    """Compares the runs of a round with the single worker of that round."""
    if "alone" in one_round:
        ideal = one_round["alone"]["acquisitions_per_s"]
        for one in one_round.values():
            one["vs_ideal"] = one["changes_per_s"] / ideal


# --- printing ---

def merged(rounds):
    """{figure: median, least, most} over the rounds of one run."""
    told = {}
    for name, value in rounds[0].items():
        if isinstance(value, dict):
            told[name] = merged([one[name] for one in rounds])
        else:
            values = [one[name] for one in rounds]
            told[name] = {"median": statistics.median(values), "min": min(values),
                          "max": max(values)}
    return told


def spread(one, digits=0):
    return f"{one['median']:.{digits}f} ({one['min']:.{digits}f}-{one['max']:.{digits}f})"


def tell_runs(runs):
    print(f"{'':18} {'acquired/s':>18} {'owner changes/s':>18}  wait p50/p99/p99.9/max ms    "
          "  commands   CPU ms  least")
    for name, one in runs.items():
        wait = "/".join(f"{one['wait_ms'][key]['median']:.1f}"
                        for key in ("p50", "p99", "p999", "max"))
        commands = one.get("commands_per_change", one["commands_per_acquisition"])
        print(f"{name:18} {spread(one['acquisitions_per_s']):>18} "
              f"{spread(one['changes_per_s']):>18}  {wait:27}  "
              f"{commands['median']:9.1f}  {one['cpu_ms_per_1000']['median']:7.1f}  "
              f"{one['least_served_share']['median']:.2f}")
    print("commands: sent to all nodes, per change of owner (alone: per acquisition); CPU: "
          "of the clients,\nper 1000 acquisitions; least: the share of the least served "
          "worker, of the mean")


def tell_goals(top):
    print(f"\n{'':34} {'goal':>8} {'here':>8}")
    for name, (least, most) in GOALS.items():
        goal = f">= {least:.2f}" if most is None else f"<= {most:.2f}"
        value = top[name]
        met = value is not None and (value >= least if most is None else value <= most)
        shown = "-" if value is None else f"{value:.2f}"
        print(f"{name:34} {goal:>8} {shown:>8}  {'' if value is None or met else 'missed'}")


def top_level(runs, starved):
    def figure(run, name):
        return runs[run][name]["median"] if name in runs.get(run, {}) else None
    top = {f"{run}_{name}": figure(run, name) for run, names in (
        ("threads16", ("vs_ideal", "commands_per_change", "p999_vs_fair")),
        ("processes16", ("vs_ideal", "commands_per_change", "p99_vs_fair")))
           for name in names}
    top["least_served_share"] = (starved["least_served_share"] if starved
                                 else figure("processes16", "least_served_share"))
    return top


def read_options():
    words = argparse.ArgumentParser(prog="./dev bench contention")
    words.add_argument("redlock")
    words.add_argument("contender")
    words.add_argument("--json", metavar="FILE")
    words.add_argument("--seconds", type=float, default=5, help="of each run (5)")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--only", metavar="RUN,...", help="of: " + ", ".join(RUNS))
    words.add_argument("--confirm", action="store_true", help="wait for each release")
    words.add_argument("--fenced", action="store_true", help="fenced locks, and a register")
    words.add_argument("--starve", action="store_true",
                       help="at the end processes16 for 60 s: which worker is served least?")
    options = words.parse_args()
    options.only = options.only.split(",") if options.only else list(RUNS)
    if not set(options.only) <= set(RUNS):
        words.error("--only: there is no such run")
    return options


def run_all(options):
    with lab.Quorum(5) as quorum:
        bench = Bench(os.path.abspath(options.contender), quorum, options)
        rounds, starved = [], None
        try:
            for number in range(options.rounds):
                rounds.append({name: bench.run(name, options.seconds)
                               for name in rotated(options.only, number)})
                compare(rounds[-1])
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            if options.starve:
                starved = bench.run("processes16", STARVE_S)
        finally:
            bench.close()
    return rounds, starved


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lab.program = os.path.abspath(options.redlock)
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        try:
            rounds, starved = run_all(options)
        except lab.Failed as failure:
            sys.exit(f"contention: {failure}")
    runs = {name: merged([one[name] for one in rounds]) for name in options.only}
    top = top_level(runs, starved)
    tell_runs(runs)
    tell_goals(top)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({
            **top, "kind": "fenced" if options.fenced else "plain",
            "confirm": options.confirm, "seconds": options.seconds,
            "goals": {name: {"at_least": least, "at_most": most}
                      for name, (least, most) in GOALS.items()},
            "runs": runs, "rounds": rounds, "starved": starved}, indent=1) + "\n")


if __name__ == "__main__":
    main()

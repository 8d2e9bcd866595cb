#!/usr/bin/env python3
"""Our locks beside those of etcd, ZooKeeper and PostgreSQL: consensus.py BUILD [--json FILE]
[--rounds N] [--seconds S]

Each round starts three servers of each system, and one of PostgreSQL, which has no quorum.
Their locks take turns, with 1 cycle in flight and with 16. Then each one's holder is killed,
with SIGKILL, some times, while others wait. At last one server of each is killed, the leader
if there is one, in a lap with 1 in flight; further laps are without it. What is printed is as
docs/comparison.md has it.
"""
import contextlib
import dataclasses
import datetime
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import textwrap
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import ROOT, lab  # noqa: E402
from postgresql_server import Server, find_binaries  # noqa: E402
from takeover import Line, end  # noqa: E402

sys.path.insert(0, str(ROOT / "bench/consensus"))
import clusters  # noqa: E402

DRIVER = ROOT / "build/consensus"
MANY = 16
LANES = (1, MANY)
WARM_UPS = ((MANY, 2), (1, 1))  # (lanes, seconds): what compiles as it runs needs them
TTL_S = 4  # of a holder that is killed: the least session of ZooKeeper with its default tick
LAP_TTL_S = 10  # as in lap.h
KILLS = 2  # of a holder, in a round
SETTLE_S = 1.0  # until those that wait for a holder's end are in its queue
DIES_AFTER_S = 0.3  # of a lap of DIES_S
DIES_S = 2
LINE_MAX = 95  # of our documents
BASE = "here: plain, in memory"
RUN = "here: redlock run, in memory"
JOB = "import time; print(time.monotonic_ns() // 1000, flush=True); time.sleep(3600)"


# --- systems ---

@dataclasses.dataclass
class System:
    """Its servers, and the programs that lock on them."""
    servers: object
    cycle: list  # a contender (lap.h)
    hold: list   # locks, and holds it until it is killed
    kill_one: object  # None: there is only one server
    quorum: object = None  # the servers, if they are ours

    def begin(self, stack):
        stack.enter_context(self.servers)
        if self.quorum:
            lab.redlock("admit", "--new", "--at-once", env=lab.on(self.quorum)).expect(0)
        return self

    def racer(self, name):
        return race.Racer(name, self.cycle, self.quorum)

    def line(self):
        return Line(self.hold, lab.on(self.quorum) if self.quorum else {})


def ours(build, how, durable):
    quorum = lab.durable(clusters.NODES) if durable else lab.Quorum(clusters.NODES)
    return System(quorum, [build / "bench/cycle", how, race.PATIENT, f"durable={int(durable)}"],
                  [build / "bench/contender", "-g", "-l", str(TTL_S * 1000),
                   *(["-f"] if how == "fenced" else [])], lambda: quorum.kill(0), quorum)


def line_of_run(quorum):
    """Commands whose holder is killed: their keeper is not."""
    return Line(["sh", "-c", 'echo ready; exec "$0" run "$@"', lab.program, "-t", f"{TTL_S}s",
                 "run", "--", sys.executable, "-S", "-E", "-c", JOB], lab.on(quorum))


def other(name, servers, addresses, kill_one=None):
    words = [DRIVER, name, addresses]
    return System(servers, [*words, LAP_TTL_S], [*words, str(TTL_S), "hold"], kill_one)


def cluster(name, servers):
    return other(name, servers, servers.addresses, servers.kill_leader)


def postgresql(_):
    port = lab.free_port()
    return other("postgresql", Server(port), f"127.0.0.1:{port}")


SYSTEMS = {
    BASE: lambda build: ours(build, "async", False),
    "here: fenced, in memory": lambda build: ours(build, "fenced", False),
    "here: plain, fsync": lambda build: ours(build, "async", True),
    "here: fenced, fsync": lambda build: ours(build, "fenced", True),
    "etcd": lambda _: cluster("etcd", clusters.Etcd()),
    "ZooKeeper": lambda _: cluster("zookeeper", clusters.ZooKeeper()),
    "PostgreSQL": postgresql,
}


# --- one round ---

def kill_holders(systems, seen):
    """Adds how long after its holder's death each lock has the next one, in seconds."""
    lines = {name: system.line() for name, system in systems.items()}
    lines[RUN] = line_of_run(systems[BASE].quorum)
    holders = {}
    try:
        for line in lines.values():
            line.enter()
        holders = {name: line.next_holder()[0] for name, line in lines.items()}
        for _ in range(KILLS):
            for line in lines.values():
                line.enter()
            time.sleep(SETTLE_S + random.uniform(0, TTL_S / 3))  # any time of a refresh
            killed = {}
            for name, holder in holders.items():
                killed[name] = time.monotonic_ns() // 1000
                end(holder)
            for name, line in lines.items():
                holders[name], held = line.next_holder()
                if held > killed[name]:  # or else its holder had lost it before
                    seen[name].append((held - killed[name]) / 1e6)
    finally:
        for line in lines.values():
            line.close()
        for holder in holders.values():
            end(holder)


def round_of(build, names, seconds, late):
    """The laps of freshly started servers; `names` in the order of this round."""
    def kill(system):
        time.sleep(DIES_AFTER_S)
        system.kill_one()

    laps = {}
    with contextlib.ExitStack() as stack:
        systems = {name: SYSTEMS[name](build).begin(stack) for name in names}
        racers = {}
        for name, system in systems.items():
            racers[name] = system.racer(name)
            stack.callback(racers[name].close)
            for warm_up in WARM_UPS:
                racers[name].lap(*warm_up)

        def measure(state, these):
            for lanes in LANES:
                for name in these:
                    laps[f"{name}{state}_c{lanes}"] = racers[name].lap(lanes, seconds)

        measure("", names)
        kill_holders(systems, late)
        mortal = [name for name in names if systems[name].kill_one]
        for name in mortal:
            laps[f"{name} dies"] = racers[name].lap(
                1, DIES_S, lambda name=name: kill(systems[name]))
        measure(" dead", mortal)
    return laps


# --- what was seen ---

def sync_us():
    """Of 4 kB at the end of a file, where the servers have theirs."""
    took = []
    with open(lab.temporary("synced"), "wb", buffering=0) as file:
        for _ in range(200):
            began = time.monotonic()
            file.write(bytes(4096))
            os.fdatasync(file)
            took.append(time.monotonic() - began)
    return statistics.median(took) * 1e6


def version(*words):
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", told.stdout + told.stderr)
    return found[0] if found else "?"


def versions():
    found = {"redis": ("redis-server", "--version"), "etcd": ("etcd", "--version"),
             "ZooKeeper": ("dpkg-query", "-W", "zookeeper"),
             "PostgreSQL": (os.path.join(find_binaries(), "postgres"), "--version")}
    return ", ".join(f"{name} {version(*words)}" for name, words in found.items())


def conditions(options):
    """Of a run, at its beginning."""
    load = os.getloadavg()[0]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=False,
                            capture_output=True, text=True).stdout.strip()
    return (f"{datetime.date.today()}, commit {commit}, {options.rounds} rounds of "
            f"{options.seconds:g} s; the load average before the run was {load:.1f}; "
            f"{versions()}; a sync of 4 kB took {sync_us():.0f} us")


def of_all(late):
    return f"{statistics.median(late):.3f} ({max(late):.3f})"


def row(the_race, name, late):
    """A line of the table, of Markdown."""
    def p50_ms(entry):
        return f"{the_race.median(entry, 'p50_us') / 1000:.2f}"

    def slower(entry, other, figure):
        return "1" if entry == other else "{:.3g}; {:.3g}-{:.3g}".format(
            *the_race.ratio(entry, other, figure))

    one, many = (f"{name}_c{lanes}" for lanes in LANES)
    cells = [name, f"{p50_ms(one)} ({slower(one, f'{BASE}_c1', 'p50_us')})",
             f"{the_race.median(many, 'cycles_per_s'):.0f} "
             f"({slower(f'{BASE}_c{MANY}', many, 'cycles_per_s')})",
             of_all(late)]
    if f"{name} dies" in the_race.entries:
        worst = max(laps[f"{name} dies"]["max_us"] for laps in the_race.rounds)
        cells += [f"{the_race.median(f'{name} dies', 'max_us') / 1000:.0f} ({worst / 1000:.0f})",
                  p50_ms(f"{name} dead_c1"),
                  f"{the_race.median(f'{name} dead_c{MANY}', 'cycles_per_s'):.0f}"]
    else:
        cells += ["-"] * 3
    return "| " + " | ".join(cells) + " |"


def show(the_race, names, late):
    print(f"| | p50, ms, 1 in flight | cycles/s, {MANY} in flight | next holder, s | "
          "a server dies: longest cycle, ms | with two of three servers: p50, ms | "
          "with two of three servers: cycles/s |\n"
          "|---|---|---|---|---|---|---|")
    for name in names:
        print(row(the_race, name, late[name]))
    print(f"| {RUN} | - | - | {of_all(late[RUN])} | - | - | - |")
    failed = {name: sum(laps[entry]["failed"] for laps in the_race.rounds for entry in laps
                        if entry.startswith(f"{name}_") or entry.startswith(f"{name} "))
              for name in names}
    print("\nfailed:", "; ".join(f"{name} {count}" for name, count in failed.items()))


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    told, names, rounds = conditions(options), list(SYSTEMS), []
    late = {name: [] for name in (*names, RUN)}
    for index in range(options.rounds):
        turn = index % len(names)
        rounds.append(round_of(build, names[turn:] + names[:turn], options.seconds, late))
        print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
    the_race = race.Race(dict.fromkeys(rounds[0]), options.seconds)
    the_race.rounds = rounds
    print(textwrap.fill(told, LINE_MAX), end="\n\n")
    show(the_race, names, late)
    race.write_json(options.json, {"conditions": told, "rounds": rounds, "next_holder_s": late})
    return 0


if __name__ == "__main__":
    words = race.arguments("consensus")
    words.add_argument("build")
    race.main(run, "consensus", words.parse_args())

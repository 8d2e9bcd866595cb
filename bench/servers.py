#!/usr/bin/env python3
"""The cost of a lock for the nodes: servers.py BUILD [--json FILE] [--rounds N] [--seconds S]

Five private servers; clients with plain and with fenced locks take turns, few of them with
many cycles in flight and many with one. /proc has the CPU time of the servers' processes;
the servers count the bytes that they receive. Then redis-benchmark sends a holder's commands
to one of them: extensions, and SETs to compare them with.
"""
import os
import pathlib
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import ROOT, lab  # noqa: E402

sys.path.insert(0, str(ROOT / "lua"))
import embed  # noqa: E402

NODES = 5
LOADS = ((1, 64), (1, 8), (32, 1), (1, 1))  # clients, in flight for each
KEYS = 30000  # that are held, for extensions
COMMANDS = 200000
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_us(quorum):
    """All servers, user and system."""
    total = 0
    for server in quorum.servers:
        fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text()
        total += sum(map(int, fields.rpartition(")")[2].split()[11:13]))
    return total * 1e6 / TICKS


def traffic(quorum):
    return [race.count_of(quorum, "stats", rf"total_net_{way}_bytes:(\d+)")
            for way in ("input", "output")]


def lap_together(racers, lanes, seconds):
    """Cycles of all of them."""
    for racer in racers:
        racer.process.stdin.write(f"{lanes} {seconds}\n")
        racer.process.stdin.flush()
    return sum(race.json.loads(racer.read())["cycles"] for racer in racers)


def load(quorum, racers, lanes, seconds):
    """For a cycle and a node: us of CPU, bytes in and out; and cycles/s of all."""
    cpu, sent = cpu_us(quorum), traffic(quorum)
    cycles = lap_together(racers, lanes, seconds)
    lab.check(cycles > 0, "there was no cycle")
    each = cycles * NODES
    return ((cpu_us(quorum) - cpu) / each,
            *((after - before) / each for after, before in zip(traffic(quorum), sent)),
            cycles / seconds)


def run_loads(quorum, build, rounds, seconds):
    """{(how, clients, lanes): a row for each round}"""
    most = max(clients for clients, _ in LOADS)
    racers = {how: [race.Racer(how, [build / "bench/cycle", how], quorum)
                    for _ in range(most)] for how in ("async", "fenced")}
    rows = {}
    for index in range(rounds):
        for clients, lanes in LOADS:
            for how, all_of_them in racers.items():
                chosen = all_of_them[:clients]
                if index == 0:
                    lap_together(chosen, lanes, race.WARM_UP_S)
                rows.setdefault((how, clients, lanes), []).append(
                    load(quorum, chosen, lanes, seconds))
        print(f"round {index + 1} of {rounds}", file=sys.stderr, flush=True)
    for all_of_them in racers.values():
        for racer in all_of_them:
            racer.close()
    return rows


def one_command(quorum, words):
    """us of CPU for one of them, 8 connections with 16 in flight each."""
    before = cpu_us(quorum)
    subprocess.run(["redis-benchmark", "-s", quorum.servers[0].path, "-n", str(COMMANDS), "-P",
                    "16", "-c", "8", "-r", str(KEYS), "-q", *map(str, words)],
                   stdout=subprocess.DEVNULL, check=True)
    return (cpu_us(quorum) - before) / COMMANDS


def run_commands(quorum, rounds):
    """{command: us for each round} on the first server; SETs store what is then extended."""
    server, token, ftoken = quorum.servers[0], "p:" + 32 * "a", "f:" + 32 * "a"
    sha, fsha = (server.call("SCRIPT", "LOAD", embed.body(ROOT / f"lua/{name}_extend.lua"))
                 for name in ("plain", "fenced"))
    key, ttl, never_late = "held:__rand_int__", 60000, 10 ** 16
    texts = {
        "set": ["SET", key, token, "PX", ttl],
        "extend": ["EVALSHA", sha, 1, key, token, ttl, 0],
        "fenced set": ["SET", key, ftoken, "PX", ttl],
        "fenced extend": ["EVALSHA", fsha, 3, key, "held!fence", "!marker", ftoken, 1, ttl, ttl,
                          never_late, 0, server.call("GET", "!marker")[:16]],
    }
    server.call("CONFIG", "RESETSTAT")
    taken = {name: [] for name in texts}
    for _ in range(rounds):
        for name, words in texts.items():
            taken[name].append(one_command(quorum, words))
    lab.equal(race.count_of(quorum, "commandstats", r"evalsha:.*failed_calls=(\d+)"), 0,
              "extensions that were refused")
    return taken


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def ratio(these, those):
    return spread([one / other for one, other in zip(these, those)])


def show(rows, commands):
    print("of one node, for one cycle:")
    print(f"{'':34} {'us of CPU':>17} {'bytes in':>9} {'out':>5} {'cycles/s of all':>16}")
    for (how, clients, lanes), laps in rows.items():
        cpu, into, out, speed = zip(*laps)
        name = "fenced" if how == "fenced" else "plain"
        print(f"{name:8} {clients:2} clients, {lanes:2} in flight each {spread(cpu):>17} "
              f"{statistics.median(into):9.0f} {statistics.median(out):5.0f} "
              f"{statistics.median(speed):16.0f}")
    print("a fenced cycle in plain ones, 64 in flight:", ratio(
        *([lap[0] for lap in rows[how, 1, 64]] for how in ("fenced", "async"))))
    for name, taken in commands.items():
        print(f"one {name}: {spread(taken)} us")
    print("an extension in SETs:", ratio(commands["extend"], commands["set"]))
    print("a fenced one in plain ones:", ratio(commands["fenced extend"], commands["extend"]))


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(NODES) as quorum:
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        rows = run_loads(quorum, build, options.rounds, options.seconds)
        commands = run_commands(quorum, options.rounds)
    show(rows, commands)
    figures = ("cpu_us", "bytes_in", "bytes_out", "cycles_per_s")
    race.write_json(options.json, {
        "cycles": [{"fenced": how == "fenced", "clients": clients, "in_flight": lanes,
                    "laps": [dict(zip(figures, lap)) for lap in laps]}
                   for (how, clients, lanes), laps in rows.items()],
        "commands_us": commands})
    return 0


if __name__ == "__main__":
    arguments = race.arguments("servers", seconds=1.5)
    arguments.add_argument("build")
    race.main(run, "servers", arguments.parse_args())

#!/usr/bin/env python3
"""One of five nodes hangs or dies: nodes.py BUILD [--json FILE] [--rounds N] [--seconds S]

In each round a fresh client has laps with 1 cycle in flight and with 64: once it has noticed
that a node hangs (SIGSTOP; it says itself that it does not ask the node any more), and once
that node, which was back meanwhile, is dead (SIGKILL). By turns with it, lap by lap, a client
of five other servers has the same, to which nothing happens. What counts is the p99 against
that one's. Each round hits another node.

It is also told how long it takes from a node's return to the first lock that it granted:

    hung     from SIGCONT
    durable  from when a server that was killed listens at its port again; it has appendfsync
             always, and the client's options say so
    memory   the same of one that has lost all; it must not vote before the longest TTL has
             passed (max_ttl_ms, here that of a lap), so that nothing is wanted of it

For this there are five more servers, which are durable. Of those one is dead and one hangs
for a whole round, so that their client has long gone over to asking rarely.
"""
import os
import pathlib
import signal
import statistics
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

MANY = 64
NODES = 5
LAP_TTL_MS = 10000  # as in lap.h
STATES = ("hung", "killed")
PIECES = 4  # of the laps of a state, each beside one of those who are well
GOALS = {"hung_p99": (None, 1.5), "killed_p99": (None, 1.5),
         "hung_p99_c64": (None, 1.5), "killed_p99_c64": (None, 1.5), "rejoin_s": (None, 2)}


def entry(state, lanes, well):
    return f"{'beside ' if well else ''}{state}, {lanes} in flight"


# --- what becomes of a node ---

def stop(server):
    os.kill(server.process.pid, signal.SIGSTOP)
    lab.wait_for(lambda: lab.state(server.process.pid) == "T", "a stopped server")


def resume(server):
    """Returns when it began to be back."""
    begun = time.monotonic()
    os.kill(server.process.pid, signal.SIGCONT)
    return begun


def restart(quorum, node):
    """The same, of one that was killed."""
    server = quorum[node]

    def listens():
        try:
            return server.call("CONFIG", "SET", "port", quorum.ports[node])
        except lab.RedisError:  # another has the port
            return None
    server.start()
    begun = time.monotonic()
    lab.wait_for(listens, "the port of before")
    return begun


def until_it_votes(racer, node, bring_back):
    """How long after its return it first granted a lock, in seconds."""
    begun = []
    lap = racer.lap(1, f"{node}+", lambda: begun.append(bring_back()))
    return lap["over_s"] - begun[0]


# --- rounds ---

def warm_up(racer):
    for lanes in (1, MANY):
        racer.lap(lanes, race.WARM_UP_S)


class Nodes:
    def __init__(self, build, quorum, unharmed, durable, seconds):
        self.words = [build / "bench/cycle", "async"]
        self.quorum, self.durable, self.seconds = quorum, durable, seconds
        self.laps = race.Race({entry(state, lanes, well): None for state in STATES
                               for lanes in (1, MANY) for well in (False, True)}, seconds)
        self.returns = {"hung": [], "durable": [], "memory": []}
        self.well = self.racer(unharmed)
        self.trusting = self.racer(durable, "durable=1")
        for racer in (self.well, self.trusting):
            warm_up(racer)

    def racer(self, quorum, *options):
        return race.Racer("libredlock", [*self.words, *options], quorum)

    def measure(self, pieces, racer, state):
        for lanes in (1, MANY):
            for index, laps in enumerate(pieces):
                for well in (False, True) if index % 2 else (True, False):
                    laps[entry(state, lanes, well)] = (self.well if well else racer).lap(
                        lanes, self.seconds / PIECES)

    def round(self, node):
        """Leaves the node dead; returns the client, which has noticed."""
        pieces, server = [{} for _ in range(PIECES)], self.quorum[node]
        racer = self.racer(self.quorum, f"max_ttl_ms={LAP_TTL_MS}")
        warm_up(racer)
        stop(server)
        racer.lap(1, f"{node}-")
        self.measure(pieces, racer, "hung")
        self.returns["hung"].append(until_it_votes(racer, node, lambda: resume(server)))
        server.kill()
        racer.lap(1, f"{node}-")
        self.measure(pieces, racer, "killed")
        self.laps.rounds += pieces
        return racer

    def take_away(self, dead, hung):
        self.durable[dead].kill()
        stop(self.durable[hung])
        for node in (dead, hung):
            self.trusting.lap(1, f"{node}-")

    def bring_back(self, dead, hung):
        self.returns["hung"].append(until_it_votes(
            self.trusting, hung, lambda: resume(self.durable[hung])))
        self.returns["durable"].append(until_it_votes(
            self.trusting, dead, lambda: restart(self.durable, dead)))

    def run(self, rounds):
        for index in range(rounds):
            node, other = index % NODES, (index + 1) % NODES
            self.take_away(node, other)
            racer = self.round(node)
            if index + 1 < rounds:
                restart(self.quorum, node)
            else:
                self.returns["memory"].append(until_it_votes(
                    racer, node, lambda: restart(self.quorum, node)))
            racer.close()
            self.bring_back(node, other)
            print(f"round {index + 1} of {rounds}", file=sys.stderr, flush=True)
        for racer in (self.well, self.trusting):
            racer.close()


def evaluate(nodes):
    ratios = {f"{state}_p99{suffix}": nodes.laps.ratio(
                  entry(state, lanes, False), entry(state, lanes, True), "p99_us")
              for lanes, suffix in ((1, ""), (MANY, "_c64")) for state in STATES}
    figures = {name: ratio[0] for name, ratio in ratios.items()}
    figures["ranges"] = {name: ratio[1:] for name, ratio in ratios.items()}
    figures["rejoin_s"] = max(nodes.returns["hung"] + nodes.returns["durable"])
    figures["returns_s"] = nodes.returns
    figures["medians"] = nodes.laps.medians()
    for name, laps in figures["medians"].items():
        print(f"{name:27} p50 {laps['p50_us']:8.1f} us, p99 {laps['p99_us']:8.1f} us, "
              f"failed {laps['failed']:.0f}")
    for name, ratio in ratios.items():
        print(f"{name:16} {race.show_ratio(ratio):20} wanted <= {GOALS[name][1]}")
    for what, seconds in nodes.returns.items():
        print(f"votes again, {what + ':':8} after {statistics.median(seconds):.2f} s "
              f"({min(seconds):.2f}-{max(seconds):.2f})")
    print(f"rejoin_s         {figures['rejoin_s']:.2f}, the worst of hung and durable, "
          f"wanted <= {GOALS['rejoin_s'][1]}")
    return figures


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with (lab.Quorum(NODES) as quorum, lab.Quorum(NODES) as unharmed,
          lab.durable(NODES) as durable):
        nodes = Nodes(build, quorum, unharmed, durable, options.seconds)
        nodes.run(options.rounds)
    figures = evaluate(nodes)
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("nodes")
    words.add_argument("build")
    race.main(run, "nodes", words.parse_args())

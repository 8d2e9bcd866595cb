"""Shared by the tests of `redlock bench`: its runs, and the checks of every result."""
import json
import re
import signal

import lab
from lab import equal, on, redlock

NO_QUORUM, DENIED, USAGE, CONFIG, FAILED = 69, 77, 64, 78, 125
LATENCY = ("p50_us", "p90_us", "p99_us", "p99_9_us", "max_us")
SHARES = (0.5, 0.9, 0.99, 0.999, 1)
# Long, so that no node is given up because this machine is busy.
PATIENT = ("--timeout", "20s", "-t", "300s")
HANGING = ("--timeout", "1h", "-t", "10h")  # for as long as a node stands still
QUICK = ("--warmup", "0", "-n", "200", *PATIENT)
PROGRESS = r"^(redlock: bench: [\d.]+ s: [^\n]*\n)*$"  # all that stderr has: a line each second


def bench(quorum, *words, env=None, **more):
    return redlock("bench", *words, env=on(quorum, **(env or {})), **more)


def measure(quorum, *words, code=0, env=None):
    """Returns the object of --json, after the checks that hold for every run."""
    found = bench(quorum, "--json", *words, env=env).expect(code).json()
    return sound(found, len(quorum.servers))


def sound(found, nodes=5):
    equal(found["schema"], "redlock.bench/1", "schema")
    lab.check_numbers(found, found)
    equal(len(found["nodes"]), nodes, "nodes")
    failed = sum(found["not_acquired"].values())
    equal(found["held"] + failed, found["cycles"], "held and failed")
    equal(found["cause"] == "ok", found["held"] > 0, "cause")
    equal(found["acquire"]["count"], found["held"], "acquires")
    equal(found["release"]["count"] + sum(found["not_released"].values()), found["held"],
          "releases")
    equal(sum(node["qth"] for node in found["nodes"]), found["held"], "q-th grants")
    for node in found["nodes"]:
        answered = [node[name] for name in ("granted", "refused", "silent", "broken")]
        equal(sum(answered), node["asked"], f"answers of {node}")
        equal(node["asked"] + node["not_asked"] + node["ready"], found["cycles"],
              f"cycles of {node}")
        equal(node["latency"]["count"], node["granted"], f"latencies of {node}")
        equal(node["text"] is None, node["granted"] + node["ready"] == found["cycles"],
              f"fault of {node}")
    return found


def hang(quorum, process):
    """Stops three nodes, and waits until a cycle of bench surely waits for them.

    The cycle that runs when they stop may have its replies already.
    
    """
    for server in quorum.servers[:3]:
        server.stop()
    awake = [process.pid, *(server.process.pid for server in quorum.servers[3:])]
    lab.wait_for(lambda: lab.are_asleep(awake), "a cycle that hangs")


def nothing_is_stored(quorum):
    equal([server.call("DBSIZE") for server in quorum.servers if server.is_running()],
          [0] * sum(server.is_running() for server in quorum.servers), "keys that are left")


def served(servers):
    """How many SETs these nodes have executed."""
    stats = "".join(server.call("INFO", "commandstats") for server in servers)
    return sum(map(int, re.findall(r"cmdstat_set:calls=(\d+)", stats)))


class Running:
    """A bench that runs until a signal; it is measuring when this is created."""

    def __init__(self, quorum, *words, env=None):
        self.quorum = quorum
        self.process = lab.start("bench", "--json", "--warmup", "0", "-d", "1h", *words,
                                 env=on(quorum, **(env or {})))
        self.go_on()

    def go_on(self, cycles=100):
        before = self.quorum.attempts()
        lab.wait_for(lambda: self.quorum.attempts() > before + cycles, "cycles")

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return lab.finish(self.process)


def page_data(path):
    """What --html wrote into the page."""
    [data] = re.findall('<script type="application/json" id="data">(.*?)</script>', lab.read(path),
                        re.DOTALL)
    return json.loads(data)

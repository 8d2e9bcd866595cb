#!/usr/bin/env python3
"""What it costs to hold many leases in one process: scale.py BUILD [--json FILE] [--leases N]
[--rounds N] [--seconds S]

A client of five private servers acquires them all, 256 at once, and holds them under
watchdogs, with a TTL of 30 s: each is extended every 9 to 10 s. The CPU time is measured for
S seconds from the first extensions on. A lease's memory is the growth of the process
since before the first acquire: when all are held, and then, read twice a second
while they are extended, the median, which is the figure that counts, and the maximum. No lease
may be lost meanwhile, and every server must store every key.

One run is long and has no comparison: so the default is one round.
"""
import json
import os
import pathlib
import re
import statistics
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

TTL_MS = 30000
AT_ONCE = 256
LOOK_S = 0.5
GOALS = {"cpu_share": (None, 0.05), "bytes_per_lease": (None, 560), "lost": (None, 0)}


class Holder(race.Racer):
    """bench/holder.c"""

    def order(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return json.loads(self.read())

    def private_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status)[1])


def cpu_s(process):
    """The CPU time that it has used so far."""
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def hold(holder, quorum, seconds):
    """The cost of holding: {figure: value}."""
    processes = [holder.process, *(server.process for server in quorum.servers)]
    lab.wait_for(lambda: holder.order("look")["extended"] > 0, "extensions", TTL_MS / 1000)
    before, used, begun = holder.order("look"), [*map(cpu_s, processes)], time.monotonic()
    memory = []
    while time.monotonic() < begun + seconds:
        time.sleep(LOOK_S)
        memory.append(holder.private_bytes())
    after, used_then = holder.order("look"), [*map(cpu_s, processes)]
    took = time.monotonic() - begun
    shares = [(then - first) / took for then, first in zip(used_then, used)]
    extended = after["extended"] - before["extended"]
    return {"cpu_share": shares[0], "servers_cpu_share": sum(shares[1:]),
            "extensions_per_s": extended / took,
            "cpu_us_per_extension": 1e6 * shares[0] * took / extended,
            "bytes": statistics.median(memory), "most_bytes": max(memory)}


def keys_are(quorum, count):
    return lambda: all(server.call("DBSIZE") == count for server in quorum.servers)


def one_round(build, leases, seconds):
    with lab.Quorum(5) as quorum:
        holder = Holder("holder", [build / "bench/holder", TTL_MS, TTL_MS], quorum)
        at_first = holder.private_bytes()
        acquired = holder.order(f"hold {leases} {AT_ONCE}")
        lab.equal(acquired["failed"], 0, "acquires that failed")
        held = holder.private_bytes()
        figures = hold(holder, quorum, seconds)
        lab.wait_for(keys_are(quorum, leases), "every key on every server")
        lost = holder.order("look")["lost"]
        released = holder.order(f"release {AT_ONCE}")
        lab.wait_for(keys_are(quorum, 0), "no key on any server")
        left = holder.private_bytes()
        holder.close()
    later, most = figures.pop("bytes"), figures.pop("most_bytes")
    return {**figures, "acquire_s": acquired["seconds"], "release_s": released["seconds"],
            "bytes_per_lease": (later - at_first) / leases,
            "bytes_per_lease_acquired": (held - at_first) / leases,
            "bytes_per_lease_at_most": (most - at_first) / leases,
            "bytes_per_lease_left": (left - at_first) / leases,
            "lost": lost, "unconfirmed": released["failed"]}


def show(figures, leases):
    print(f"{leases} leases, TTL {TTL_MS // 1000} s")
    print("CPU of the client    {cpu_share:.1%} of a core; of all servers "
          "{servers_cpu_share:.1%}".format(**figures))
    print("extensions           {extensions_per_s:.0f} a second, "
          "{cpu_us_per_extension:.1f} us of the client's CPU each".format(**figures))
    print("memory of a lease    {bytes_per_lease:.0f} bytes; {bytes_per_lease_acquired:.0f} "
          "when all were acquired, {bytes_per_lease_at_most:.0f} at most, "
          "{bytes_per_lease_left:.0f} when all were released".format(**figures))
    print("to acquire them all  {acquire_s:.1f} s, to release them {release_s:.1f} s"
          .format(**figures))
    print("lost                 {lost:.0f}, not confirmed as released {unconfirmed:.0f}"
          .format(**figures))


def run(options):
    build = pathlib.Path(options.build).resolve()
    the_race = race.Race({"holder": None}, options.seconds)
    for index in range(options.rounds):
        the_race.rounds.append(
            {"holder": one_round(build, options.leases, options.seconds)})
        print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
    figures = {"leases": options.leases, **the_race.medians()["holder"],
               "lost": max(laps["holder"]["lost"] for laps in the_race.rounds),
               "rounds": the_race.rounds}
    show(figures, options.leases)
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("scale", rounds=1, seconds=40)
    words.add_argument("--leases", type=race.positive(int), default=100000,
                       help="(%(default)s)")
    words.add_argument("build")
    race.main(run, "scale", words.parse_args())

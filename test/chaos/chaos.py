#!/usr/bin/env python3
"""Processes that lock by every interface, while all goes wrong that may: chaos.py REDLOCK PROGRAMS
[--seconds N] [--seed S] [--json FILE] [--keep | --judge FOLDER]

Five servers, a relay between them and the clients, and a schedule of faults that the seed draws
(faults.py). The clients write down what they did (history.py); judge.py and Porcupine read it.
Every minute or so all is healed: then plain locks must be free at once, fenced ones when all
nodes vote, and no key may be left of a lease that has ended. A run that fails leaves its folder.
"""
import argparse
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli"), str(HERE.parent / "kinds")]
import clients  # noqa: E402
import faults  # noqa: E402
import lab  # noqa: E402
import report  # noqa: E402
import servers  # noqa: E402
import slow  # noqa: E402

KINDS = ("exclusive", "set", "redisson", "shared", "slot", "fenced-exclusive", "fenced-set",
         "fenced-shared", "fenced-slot", "election")
CLIENTS = 12
ROUND_S = 75  # from one rest to the next
STEP_S = 0.5, 1.4  # from one fault to the next
IDLE_S = 30
ORPHAN_S = 1
MAX_TTL_S = 10


class Run:
    def __init__(self, folder):
        self.folder = folder
        prng = random.Random(options.seed)
        self.network = servers.Network(f"{options.programs}/chaos-relay")
        self.nodes = servers.Nodes(self.network)
        self.team = clients.Team(folder, self.nodes, self.network, options, prng)
        self.schedule = faults.Schedule(self.team, self.nodes, self.network,
                                        prng.randrange(1 << 30), options.faults)
        self.prng, self.orphans, self.troubles = prng, [], []
        self.sizes = []  # of the clients that are never killed, at each rest

    def play(self):
        lab.redlock("admit", "--new", "--at-once", "--max-ttl", "10s",
                    env={"REDLOCK_NODES": ",".join(self.nodes.uris())}).expect(0)
        self.team.start()
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            self.trouble(min(end, time.monotonic() + ROUND_S))
            self.rest()
        lab.check(not self.schedule.failure, self.schedule.failure)
        self.team.end()

    def trouble(self, until):
        while time.monotonic() < until:
            time.sleep(self.prng.uniform(*STEP_S))
            self.schedule.step()
            self.team.check()
            lab.check(not self.schedule.failure, self.schedule.failure)

    def rest(self):
        self.schedule.heal()
        self.team.check()
        self.team.pause()
        try:
            lab.wait_for(self.team.idle, "idle clients", IDLE_S)
            time.sleep(ORPHAN_S)
            self.orphans += self.find_orphans({*clients.INTERFACES} - {*clients.BY_COMMAND})
            # What a pipe has lost ends by its TTL, because the application may still work.
            lab.wait_for(lambda: not self.find_orphans(["pipe"]), "free locks of pipes", IDLE_S)
            self.sizes.append({client.name(): client.size()
                               for client in self.team.clients[:faults.KEPT]})
            lab.wait_for(lambda: all(server.votes_now() for server in self.nodes.servers),
                         "the votes of all nodes", faults.VOTES_S)
        except lab.Failed as why:
            self.troubles.append(str(why))
        self.team.go_on()
        lab.wait_for(self.team.has_probed, "the fenced probes", IDLE_S)

    def find_orphans(self, interfaces):
        """Keys whose owner lives, has greeted the node, and has nothing.

        Not where an old snapshot may have brought back what was released.
        """
        names = {client.name() for client in self.team.clients
                 if client.interface in interfaces}
        return [f"{key} on node {index}: {text}" for index, server in enumerate(self.nodes.servers)
                if time.monotonic() > server.restored + MAX_TTL_S
                for key, text in server.tokens() if text.rpartition("@")[2] in names]


def main():
    if options.judge:
        return report.again(pathlib.Path(options.judge), options.porcupine)
    base = pathlib.Path(options.folder)
    base.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"seed-{options.seed}-", dir=base))
    failure = None
    run = Run(folder)
    try:
        run.play()
    except lab.Failed as why:
        failure = str(why)
    except Exception:
        failure = traceback.format_exc()
    lab.kill_what_is_left()
    code = slow.tell(*report.found(run, options, failure), options.json)
    if code == 0 and not options.keep:
        shutil.rmtree(folder)
    else:
        for log in pathlib.Path(run.nodes.home).glob("*.log"):
            shutil.copy(log, folder)
        print(f"what it leaves: {folder}")
    return code


def arguments():
    words = argparse.ArgumentParser(prog="./dev try chaos")
    words.add_argument("redlock")
    words.add_argument("programs")
    words.add_argument("--seconds", type=float, default=60)
    words.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    words.add_argument("--json", metavar="FILE")
    words.add_argument("--clients", type=int, default=CLIENTS)
    words.add_argument("--kinds", default=",".join(KINDS), help="%(default)s")
    words.add_argument("--interfaces", default=",".join(clients.INTERFACES), help="%(default)s")
    words.add_argument("--faults", default="", help="only these functions of faults.py")
    words.add_argument("--folder", default="build/chaos", help="of what a run leaves (%(default)s)")
    words.add_argument("--keep", action="store_true", help="leave it also if nothing failed")
    words.add_argument("--judge", metavar="FOLDER", help="judge what a run has left, play none")
    words.add_argument("--porcupine", help="the program of test/chaos/porcupine")
    parsed = words.parse_args()
    for name in ("kinds", "interfaces", "faults"):
        setattr(parsed, name, [word for word in getattr(parsed, name).split(",") if word])
    lab.program = os.path.abspath(parsed.redlock)
    os.environ["CLOCK_SHIM"] = os.path.abspath(f"{parsed.programs}/../clockshim.so")
    return parsed


if __name__ == "__main__":
    options = arguments()
    lab.run(main)

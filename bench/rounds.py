#!/usr/bin/env python3
"""How many rounds a fenced acquire takes: rounds.py REDLOCK WORKER [--json FILE]

Nearly always one: all nodes get the same proposed fence, and store it. A second round
(raise fence) is needed if fewer than a quorum stored the largest fence. Here MONITOR of real
servers shows for which tokens a fence was raised; first without contention, then with more and
more processes that need the same few keys, and retry without notifications.
"""
import hashlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test/cli"), str(ROOT / "lua")]
sys.dont_write_bytecode = True
import embed  # noqa: E402
import lab  # noqa: E402

SECONDS = 5
RUNS = ((1, 1), (2, 8), (4, 4), (8, 4), (8, 1))  # processes, keys


def as_monitored(name):
    """How MONITOR shows a call of this script: by its hash, or in full."""
    body = embed.body(ROOT / f"lua/{name}.lua")
    whole = body.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return hashlib.sha1(body.encode()).hexdigest().encode(), whole.encode()


SETTLE = as_monitored("fenced_raise")


def listen(path, settled):
    """Collects the tokens of this server's raise-fence commands, until it is cut off."""
    with lab.Redis(path, timeout=600) as redis:
        redis.call("MONITOR")
        try:
            for line in iter(redis.file.readline, b""):
                if any(text in line for text in SETTLE):
                    settled.update(re.findall(rb'"(f:[a-z2-7]{32})', line))
        except OSError:
            pass


def calls(quorum):
    """How many scripts each server has run."""
    return [sum(int(count) for count in re.findall(
        r"cmdstat_eval(?:sha)?:calls=(\d+)", server.call("INFO", "commandstats")))
        for server in quorum.servers]


def run(quorum, storage, script, processes, keys):
    settled, logs, workers = set(), [], []
    for server in quorum.servers:
        threading.Thread(target=listen, args=(server.path, settled), daemon=True).start()
        lab.wait_for(lambda s=server: "cmd=monitor" in s.call("CLIENT", "LIST"), "a monitor")
    before = calls(quorum)
    for index in range(processes):
        logs.append(os.path.join(quorum.home, f"{index}.holds"))
        workers.append(lab.spawn([lab.worker, str(index + 1), str(keys), storage.path, script,
                                  logs[-1]], env=lab.environment(lab.on(quorum))))
    time.sleep(SECONDS)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        lab.equal(worker.wait(20), 0, "exit of a worker")
    after = calls(quorum)
    for server in quorum.servers:
        server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    acquired = sum(len(pathlib.Path(log).read_text().splitlines()) for log in logs)
    scripts = sum(after) - sum(before)
    return {
        "processes": processes, "keys": keys, "acquired": acquired,
        "per_second": round(acquired / SECONDS), "settled": len(settled),
        "one_round_share": round(1 - len(settled) / max(acquired, 1), 5),
        "scripts_per_acquire_and_node": round(scripts / max(acquired, 1) / 5, 3),
    }


def main(redlock, worker, option=None, path=None):
    lab.program, lab.worker = os.path.abspath(redlock), os.path.abspath(worker)
    results = []
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        with lab.Quorum(5) as quorum:
            lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
            storage = lab.Server(quorum.home, 50)
            storage.start()
            script = storage.call("SCRIPT", "LOAD", (
                ROOT / "contrib/fence/redis.lua").read_text())
            print("processes  keys  acquired/s  in one round  scripts per acquire and node")
            for processes, keys in RUNS:
                one = run(quorum, storage, script, processes, keys)
                results.append(one)
                print(f"{processes:9}  {keys:4}  {one['per_second']:10}  "
                      f"{100 * one['one_round_share']:10.3f} %  "
                      f"{one['scripts_per_acquire_and_node']:28.3f}", flush=True)
            storage.kill()
    if option == "--json":
        pathlib.Path(path).write_text(json.dumps({"fenced_rounds": results}, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""What comes back by itself after a fault, and by when: table.py REDLOCK CLOCKSHIM TURNS RELAY
[--tries N] [--nodes N] [--only ROW...] [--server FILE] [--jobs N] [--json FILE]

Each try has servers of its own, with an admitted max TTL of 5 s. A `redlock run` and a `redlock
elect` with a TTL of 5 s hold a lock while the fault happens. Afterwards a long-lived client, and
one fresh process after the other, try to get a lock of their own. rows.py has the faults and the
bounds. A bound that is missed makes the exit code 1.
"""
import argparse
import json
import os
import pathlib
import random
import selectors
import signal
import statistics
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "test/cli"), str(ROOT / "test/chaos")]
import deployment  # noqa: E402
import lab  # noqa: E402
from rows import ROWS, knows  # noqa: E402

TRY_SECONDS = 300
WORDS = {"fresh_s": "fresh process", "long_s": "long-lived client", "led_s": "leads again"}


def arguments():
    words = argparse.ArgumentParser(prog="./dev try return")
    for name in ("redlock", "clockshim", "turns", "relay"):
        words.add_argument(name, type=os.path.abspath, help=argparse.SUPPRESS)
    words.add_argument("--tries", type=int, default=10, help="of each row (%(default)s)")
    words.add_argument("--nodes", type=int, default=3, help="of each deployment (%(default)s)")
    words.add_argument("--only", nargs="+", metavar="ROW", help="rows whose names have this")
    words.add_argument("--server", metavar="FILE", help="a redis-server or valkey-server")
    words.add_argument("--jobs", type=int, default=6, help="tries at a time (%(default)s)")
    words.add_argument("--json", metavar="FILE")
    given = words.parse_args()
    given.rows = [row for row in ROWS
                  if not given.only or any(word in row.name for word in given.only)]
    if not given.rows:
        words.error(f"no row has {' or '.join(given.only)} in its name")
    return given


# --- tries ---

def start_try(row, number):
    """In a process of its own, which writes its results to the returned pipe."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    os.close(ours)
    lab.die_with_us()
    signal.signal(signal.SIGALRM, lab.overdue)
    signal.alarm(TRY_SECONDS)
    try:
        prng = random.Random(f"{row.name} {number}")
        found = {"results": deployment.play(row, row.nodes or options.nodes, prng)}
    except BaseException:
        found = {"error": traceback.format_exc()}
    with os.fdopen(theirs, "w") as output:
        json.dump(found, output)
    os._exit(0)


def play_all(rows):
    """{name: results}"""
    found = {row.name: [] for row in rows}
    waiting = [(row, number) for number in range(options.tries) for row in rows]
    count, begun = len(waiting), time.monotonic()
    running = selectors.DefaultSelector()
    while waiting or running.get_map():
        while waiting and len(running.get_map()) < options.jobs:
            row, number = waiting.pop(0)
            pid, pipe = start_try(row, number)
            running.register(pipe, selectors.EVENT_READ, (row, pid, []))
        for key, _ in running.select():
            row, pid, parts = key.data
            parts.append(os.read(key.fd, 65536))
            if parts[-1]:
                continue
            running.unregister(key.fd)
            os.close(key.fd)
            os.waitpid(pid, 0)
            text = b"".join(parts)
            found[row.name].append(json.loads(text) if text else {"error": "it was killed"})
            left = len(waiting) + len(running.get_map())
            print(f"{time.monotonic() - begun:4.0f} s: {count - left} of {count}: {row.name}"
                  f"{' FAILED' * ('error' in found[row.name][-1])}", file=sys.stderr, flush=True)
    return found


# --- the table ---

def seconds(tries, name):
    """Median and maximum; of those that took longer than LIMIT_S how many."""
    values = [tried[name] for tried in tries if name in tried]
    if not values:
        return ""
    known = [value for value in values if value is not None]
    never = len(values) - len(known)
    words = [f"{statistics.median(known):.1f}, {max(known):.1f}"] if known else []
    return "; ".join(words + [f"never {never} of {len(values)}"] * bool(never))


def lines_of(row, tried):
    """Of each kind, and what is missed."""
    results = [result for one in tried for result in one.get("results", [])]
    for kind in row.kinds:
        tries = [result for result in results if result["kind"] == kind]
        never = any(result.get(name, 0) is None for result in tries for name in WORDS)
        missed = [text for result in tries for text in row.missed(result)]
        changed = max((result["markers_changed"] for result in tries), default=0)
        yield {
            "row": row.name, "kind": kind, "tries": len(tries),
            "lived": sum(result["lived"] for result in tries),
            "fresh": seconds(tries, "fresh_s"),
            "long": seconds(tries, "led_s" if kind == "elect" else "long_s"),
            "markers": f"{changed} of {tries[0]['nodes']}" if tries else "",
            "human": "yes" if never else "no", "bound": row.bound(),
            "missed": [f"{text}, {missed.count(text)} of {len(tries)}"
                       for text in sorted(set(missed))],
        }


HEAD = ("fault", "kind", "holder lived", "fresh process: median, max s",
        "long-lived client or leader: median, max s", "markers changed", "a human", "bound",
        "missed")


def print_table(lines, skipped):
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for line in lines:
        print(f"| {line['row']} | {line['kind']} | {line['lived']} of {line['tries']} | "
              f"{line['fresh'] or '-'} | {line['long'] or '-'} | {line['markers']} | "
              f"{line['human']} | {line['bound']} | {'; '.join(line['missed']) or '-'} |")
    for name, why in skipped:
        print(f"skipped: {name}: {why}")


def use_server(path):
    """lab looks for it in PATH."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    os.symlink(os.path.abspath(path), os.path.join(folder, "redis-server"))
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def main():
    if options.server:
        use_server(options.server)
    promises = knows("admit", "--promise")
    skipped = [(row.name, "this redlock has no admit --promise")
               for row in options.rows if row.promise and not promises]
    rows = [row for row in options.rows if promises or not row.promise]
    tried = play_all(rows)
    lines = [line for row in rows for line in lines_of(row, tried[row.name])]
    errors = [(row.name, one["error"]) for row in rows for one in tried[row.name]
              if "error" in one]
    print_table(lines, skipped)
    for name, error in errors:
        print(f"failed: {name}: {error}")
    missed = [(line, text) for line in lines for text in line["missed"]]
    for line, text in missed:
        print(f"missed: {line['row']}, {line['kind']}: {text}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"nodes": options.nodes, "lines": lines, "skipped": dict(skipped), "tries": tried},
            indent=1) + "\n", encoding="utf-8")
    played = sum(len(results) for results in tried.values())
    print(f"{len(rows)} faults, {played} tries, {len(errors)} failed, {len(missed)} bounds missed")
    return int(bool(missed or errors))


options = arguments()
lab.program = options.redlock
os.environ["CLOCK_SHIM"] = options.clockshim
deployment.turns, deployment.relay = options.turns, options.relay
lab.run(main)

#!/usr/bin/env python3
"""What `redlock list` takes and what it costs others: list.py BUILD [--json FILE] [--locks N]
[--rounds N] [--seconds S]

Five private servers with so many locks. While they are listed, another client takes locks of
its own, one at a time; its laps without a list and with one take turns.
"""
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

BATCH = 1000
GOALS = {"first_line_s": (None, 1), "listed_of_all": (1, None), "acquire_p99": (None, 1.5)}


def fill(quorum, locks):
    """The same locks on all servers, by tokens that look as if others had made them."""
    for server in quorum.servers:
        for first in range(0, locks, BATCH):
            words = [f"job:{i}@{i % 97}" for i in range(first, min(first + BATCH, locks))]
            script = "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, 'PX', " \
                     "'36000000') end"
            server.call("EVAL", script, len(words), *words,
                        "p" + "a" * 32 + "@host:")


class Lister:
    """Lists, and starts again, until it is stopped."""

    def __init__(self, quorum):
        self.env, self.stops = lab.on(quorum), False
        self.found = []
        self.thread = threading.Thread(target=self.run)

    def one(self):
        begun, first, lines = time.monotonic(), None, 0
        process = subprocess.Popen([lab.program, "list", "--json"], stdout=subprocess.PIPE,
                                   env=lab.environment(self.env))
        for _ in process.stdout:
            first = first or time.monotonic() - begun
            lines += 1
            if lines % 10000 == 0:
                rss = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4
            if self.stops and self.found:
                process.kill()
        process.wait()
        if process.returncode == 0:
            self.found.append({"first_s": first, "lines": lines, "rss_kb": rss,
                               "seconds": time.monotonic() - begun})

    def run(self):
        while not self.stops or not self.found:
            self.one()


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    laps = []
    with lab.Quorum(5) as quorum:
        fill(quorum, options.locks)
        racer = race.Racer("async", [build / "bench/cycle", "async", race.PATIENT], quorum)
        racer.lap(1, race.WARM_UP_S)
        lister = None
        for index in range(options.rounds):
            pair = {}
            for listing in (index % 2 == 0, index % 2 == 1):
                if listing:
                    one = Lister(quorum)
                    one.found = [None] if lister else []
                    one.thread.start()
                pair[listing] = racer.lap(1, options.seconds)
                if listing:
                    one.stops = True
                    one.thread.join()
                    lister = lister or one
            laps.append(pair["p99_us"] if False else
                        pair[True]["p99_us"] / pair[False]["p99_us"])
            print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
        racer.close()
    found = lister.found[0]
    figures = {"first_line_s": found["first_s"], "listed_of_all": found["lines"] / options.locks,
               "all_s": found["seconds"], "rss_mb": found["rss_kb"] / 1024,
               "acquire_p99": race.statistics.median(laps)}
    for name, value in figures.items():
        print(f"{name:24}{value:.3f}")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("list", rounds=9, seconds=1.0)
    words.add_argument("build")
    words.add_argument("--locks", type=race.positive(int), default=100000)
    race.main(run, "list", words.parse_args())

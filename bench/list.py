#!/usr/bin/env python3
"""What it takes to list all locks, and costs others: list.py BUILD [--json FILE] [--locks N]
[--rounds N] [--seconds S]

Five private servers with so many locks. While `redlock list` or the first scan of `redlock
monitor` reads them, another client takes locks of its own, one at a time; its laps with each of
them and with neither take turns.
"""
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402
import monitoring  # noqa: E402

BATCH = 1000
ASKED_EVERY_S = 2  # by the page
GOALS = {"first_line_s": (None, 1), "first_row_s": (None, 1), "listed_of_all": (1, None),
         "acquire_p99": (None, 1.5), "monitor_p99": (None, 1.5)}


def fill(quorum, locks):
    """Equal locks on all servers, by tokens that look as if others had made them."""
    for server in quorum.servers:
        for first in range(0, locks, BATCH):
            words = [f"job:{i}@{i % 97}" for i in range(first, min(first + BATCH, locks))]
            script = "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i, 'PX', " \
                     "'36000000') end"
            server.call("EVAL", script, len(words), *words,
                        "p" + "a" * 32 + "@host:")


class Lister:
    """Lists all of them."""

    def __init__(self, quorum):
        self.begun, self.first, self.lines, self.rss_kb = time.monotonic(), None, 0, 0
        self.process = subprocess.Popen([lab.program, "list", "--json"], stdout=subprocess.PIPE,
                                        env=lab.environment(lab.on(quorum)))
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for _ in self.process.stdout:
            self.first = self.first or time.monotonic() - self.begun
            self.lines += 1
            if self.lines % 1000 == 0:
                status = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text()
                self.rss_kb = max(self.rss_kb, int(status.split()[1]) * 4)

    def stop(self):
        self.process.terminate()
        return self.finish(-signal.SIGTERM, 143)

    def finish(self, *codes):
        self.thread.join()
        lab.check(self.process.wait() in (0, *codes), "redlock list has failed")
        return {"first_s": self.first, "lines": self.lines, "rss_kb": self.rss_kb,
                "seconds": time.monotonic() - self.begun}


class Page:
    """What the page of a monitor asks."""

    def __init__(self, quorum):
        self.monitor = monitoring.Monitor(quorum).__enter__()
        self.begun = time.monotonic()
        lab.wait_for(lambda: self.monitor.json("locks")["total"], "a row")
        self.first, self.ends = time.monotonic() - self.begun, threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.ends.wait(ASKED_EVERY_S):
            self.monitor.json("locks", sort="remaining", filter="job")

    def stop(self):
        self.ends.set()
        self.thread.join()
        self.monitor.__exit__(None)
        return self.first


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    kinds = {"nothing": None, "list": Lister, "monitor": Page}
    laps, rows = [], []
    with lab.Quorum(5) as quorum:
        fill(quorum, options.locks)
        racer = race.Racer("async", [build / "bench/cycle", "async", race.PATIENT], quorum)
        racer.lap(1, race.WARM_UP_S)
        for index in range(options.rounds):
            lap = {}
            for kind in [*kinds][index % 3:] + [*kinds][:index % 3]:
                reader = kinds[kind] and kinds[kind](quorum)
                lap[kind] = racer.lap(1, options.seconds)["p99_us"]
                told = reader and reader.stop()
                rows += [told] if kind == "monitor" else []
            laps.append(lap)
            print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
        found = Lister(quorum).finish()
        racer.close()
    figures = {"first_line_s": found["first_s"], "first_row_s": max(rows),
               "listed_of_all": found["lines"] / options.locks,
               "all_s": found["seconds"], "rss_mb": found["rss_kb"] / 1024}
    for name, kind in {"acquire_p99": "list", "monitor_p99": "monitor"}.items():
        figures[name] = race.statistics.median(lap[kind] / lap["nothing"] for lap in laps)
    for name, value in figures.items():
        print(f"{name:24}{value:.3f}")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("list", rounds=9, seconds=1.0)
    words.add_argument("build")
    words.add_argument("--locks", type=race.positive(int), default=100000)
    race.main(run, "list", words.parse_args())

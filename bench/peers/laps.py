"""Shared by the drivers in Python: the laps' lines, lanes, and the report of a lap."""
import json
import sys
import threading
import time

TTL_MS = 10000
LANES_MAX = 64


class Lane:
    """A lane that acquires and releases repeatedly, a fresh key each time."""

    def __init__(self, number):
        self.number, self.count = number, 0
        self.clear()

    def clear(self):
        self.times, self.failed = [], 0

    def next_key(self):
        self.count += 1
        return f"bench:{self.number:04}:{self.count:010}"

    def note(self, began, succeeded):
        if succeeded:
            self.times.append(time.perf_counter() - began)
        else:
            self.failed += 1


LANES = [Lane(number) for number in range(LANES_MAX)]


def orders():
    """(how many lanes, seconds) of each requested lap."""
    print("ready", flush=True)
    for line in sys.stdin:
        lanes, seconds = line.split()
        yield int(lanes), float(seconds)


class Lap:
    """Begins when it is created; ends in report()."""

    def __init__(self, lanes, seconds):
        self.lanes = LANES[:lanes]
        for lane in self.lanes:
            lane.clear()
        self.cpu, self.began = time.process_time(), time.perf_counter()
        self.end = self.began + seconds

    def report(self):
        took, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu
        times = sorted(us for lane in self.lanes for us in lane.times)
        at = {share: times[len(times) * share // 100] * 1e6 if times else 0
              for share in (50, 99)}
        print(json.dumps({"cycles": len(times), "failed": sum(x.failed for x in self.lanes),
                          "seconds": took, "p50_us": at[50], "p99_us": at[99],
                          "cpu_s": cpu}), flush=True)


def _repeat(cycle, lane, end):
    while (began := time.perf_counter()) < end:
        lane.note(began, cycle(lane))


def run_in_threads(cycle):
    """Runs all requested laps, a thread for each lane. cycle(lane): did it succeed?"""
    for lanes, seconds in orders():
        lap = Lap(lanes, seconds)
        threads = [threading.Thread(target=_repeat, args=(cycle, lane, lap.end))
                   for lane in lap.lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lap.report()

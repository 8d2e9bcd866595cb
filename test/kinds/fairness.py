#!/usr/bin/env python3
"""Who gets in, and how soon, where many wait: fairness.py REDLOCK TURNS [--seconds N]
[--only STORY] [--json FILE]

Philosophers, a set beside clients of its single keys, readers and writers, semaphores whose
holders are killed. All on five real servers, each participant a process of its own.
"""
import contextlib
import json
import pathlib
import re
import signal
import statistics
import sys
import time

sys.dont_write_bytecode = True
import slow  # noqa: E402
import judge  # noqa: E402
import lab  # noqa: E402

NODES = 5
TTL_S = 2
INTENT_S = 3  # a waiting writer that dies keeps readers out for so long ...
TIMEOUT_S = 4 * TTL_S / 10  # ... and four node timeouts, at most
SLACK_S = 0.5  # for the machine
LOOK_S = 2  # a waiter tries again at least so often
ENTRIES = 100  # how often a writer comes to readers, and a reader to writers
KILLS = 10
TURN = re.compile(r"# waited (\d+) \w+ (\d+)\n(\d+) acquired .*\n")


LOGS = []  # of all processes of a story


class Process:
    """One that takes turns; see turns.c."""

    def __init__(self, quorum, mode, hold_us, pause_us, keys, times=0):
        self.path = lab.temporary("log")
        LOGS.append(self.path)
        words = [options.program, mode, str(hold_us), str(pause_us), str(times), *keys]
        with open(self.path, "wb") as output:
            self.process = lab.spawn(words, env=lab.environment(lab.on(quorum)), stdout=output)

    def turns(self):
        """(wait in us, slot, time of the grant) of each."""
        found = TURN.findall(pathlib.Path(self.path).read_text())
        return [tuple(map(int, turn)) for turn in found]

    def waits_ms(self):
        return [turn[0] / 1000 for turn in self.turns()]

    def end(self):
        self.process.terminate()
        lab.equal(self.process.wait(lab.END_SECONDS), 0, "exit code of a process")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(lab.END_SECONDS)

    def until_turn(self, number=1):
        lab.wait_for(lambda: len(self.turns()) >= number, f"turn {number}")

    def until_end(self, seconds):
        lab.equal(self.process.wait(seconds), 0, "exit code of a process")


@contextlib.contextmanager
def at_work(processes):
    """They all have had a turn; at the end they are ended."""
    for process in processes:
        process.until_turn()
    yield processes
    for process in processes:
        process.end()


def measure(seconds):
    time.sleep(seconds)


def philosophers(quorum):
    forks = [f"fork:{i}" for i in range(5)]
    diners = [Process(quorum, "exclusive", 2000, 0, (forks[i], forks[(i + 1) % 5]))
              for i in range(5)]
    with at_work(diners):
        measure(options.seconds)
    meals = [len(diner.turns()) for diner in diners]
    share = min(meals) / statistics.mean(meals)
    return {"meals": meals, "least_served_share": round(share, 3),
            "worst_wait_ms": max(max(diner.waits_ms()) for diner in diners)}, \
        [("least_served_share", share >= 0.5)]


def set_beside_singles(quorum):
    keys = [f"key:{i}" for i in range(4)]
    a_set = Process(quorum, "exclusive", 2000, 0, keys)
    singles = [Process(quorum, "exclusive", 2000, 0, (key,)) for key in keys for _ in range(3)]
    with at_work(singles):
        measure(options.seconds)
    a_set.kill()  # it may have had no turn
    mean = statistics.mean(len(single.turns()) for single in singles)
    return {"of_the_set": len(a_set.turns()), "of_a_single_key": mean,
            "share": round(len(a_set.turns()) / mean, 4)}, []


def writer_among_readers(quorum):
    readers = [Process(quorum, "shared", 50000, 100, ("book",)) for _ in range(8)]
    with at_work(readers):
        writer = Process(quorum, "exclusive", 1000, 20000, ("book",), times=ENTRIES)
        writer.until_end(ENTRIES * INTENT_S)
    waits = writer.waits_ms()
    return {"entries": len(waits), "worst_ms": max(waits), "p50_ms": statistics.median(waits),
            "reads": sum(len(reader.turns()) for reader in readers)}, \
        [("entries", len(waits) == ENTRIES), ("worst_ms", max(waits) <= INTENT_S * 1000)]


def reader_among_writers(quorum):
    writers = [Process(quorum, "exclusive", 5000, 0, ("book",)) for _ in range(8)]
    with at_work(writers):
        reader = Process(quorum, "shared", 1000, 20000, ("book",), times=ENTRIES)
        reader.until_end(ENTRIES * INTENT_S)
    waits = reader.waits_ms()
    return {"entries": len(waits), "worst_ms": max(waits), "p50_ms": statistics.median(waits),
            "writes": sum(len(writer.turns()) for writer in writers)}, \
        [("entries", len(waits) == ENTRIES)]


def has_intent(quorum):
    return all(server.call("ZCARD", "book!intent") > 0 for server in quorum.servers)


def killed_writer(quorum):
    """A reader that comes while a writer waits, which is then killed."""
    delays = []
    with at_work([Process(quorum, "shared", 3600 * 1000000, 0, ("book",))]) as readers:
        for _ in range(KILLS):
            writer = Process(quorum, "exclusive", 1000, 0, ("book",))
            lab.wait_for(lambda: has_intent(quorum), "the intent of a writer")
            reader = Process(quorum, "shared", 1000, 0, ("book",), times=1)
            writer.kill()
            killed = time.monotonic()
            reader.until_end(10 * INTENT_S)
            delays.append(reader.turns()[0][2] / 1e6 - killed)
            lab.wait_for(lambda: not any(server.call("EXISTS", "book!intent")
                                         for server in quorum.servers), "its end")
        readers[0].kill()
        readers.clear()
    return {"kills": len(delays), "worst_s": max(delays), "p50_s": statistics.median(delays)}, \
        [("worst_s", max(delays) <= INTENT_S + TIMEOUT_S)]


def killed_holders(quorum):
    """16 processes, 3 slots; of those that hold one, one is killed each second."""
    def new():
        return Process(quorum, "slots=3", 20000, 1000, ("licences",))
    processes, ended = [new() for _ in range(16)], []
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        time.sleep(1)
        at_a_slot = max(processes, key=lambda one: (one.turns() or [(0, 0, 0)])[-1][2])
        at_a_slot.kill()
        ended.append(at_a_slot)
        processes[processes.index(at_a_slot)] = new()
    with at_work(processes):
        pass
    held = [turn for one in processes + ended for turn in one.turns()]
    return {"kills": len(ended), "turns": len(held),
            "slots": sorted({turn[1] for turn in held})}, \
        [("slots", {turn[1] for turn in held} == {1, 2, 3})]


def slot_of_the_dead(quorum):
    """All slots are taken; a holder is killed; how soon a waiter has that slot."""
    delays = []
    for _ in range(KILLS):
        with at_work([Process(quorum, "slots=3", 3600 * 1000000, 0, ("seats",))
                      for _ in range(3)]) as holders:
            waiter = Process(quorum, "slots=3", 1000, 0, ("seats",), times=1)
            lab.wait_for(lambda: all(server.call("EXISTS", "seats!queue")
                                     for server in quorum.servers), "its place in the queue")
            dead = holders.pop()
            dead.kill()
            killed = time.monotonic()
            waiter.until_end(10 * TTL_S)
            lab.equal(waiter.turns()[0][1], dead.turns()[0][1], "the slot")
            delays.append(waiter.turns()[0][2] / 1e6 - killed)
            for holder in holders:
                holder.kill()
            holders.clear()
        lab.wait_for(lambda: quorum.keys() == 0 or not any(
            server.call("EXISTS", f"seats!{i}") for server in quorum.servers for i in (1, 2, 3)),
            "the end of their slots")
    return {"kills": len(delays), "worst_s": max(delays)}, \
        [("worst_s", max(delays) <= TTL_S + LOOK_S + SLACK_S)]


def rounds(processes, mode):
    def story(quorum):
        workers = [Process(quorum, mode, 50000, 0, ("pool",)) for _ in range(processes)]
        with at_work(workers):
            attempts = quorum.attempts()
            turns = sum(len(worker.turns()) for worker in workers)
            measure(min(options.seconds, 10))
            turns = sum(len(worker.turns()) for worker in workers) - turns
            attempts = quorum.attempts() - attempts
        each = attempts / NODES / turns
        most = 1.5 if processes < 64 else 3
        return {"turns": turns, "rounds": round(each, 3)}, [("rounds", each <= most)]
    return story


STORIES = {
    "philosophers": philosophers,
    "set-beside-singles": set_beside_singles,
    "writer-among-readers": writer_among_readers,
    "reader-among-writers": reader_among_writers,
    "killed-writer": killed_writer,
    "killed-holders": killed_holders,
    "slot-of-the-dead": slot_of_the_dead,
    "rounds-half": rounds(32, "slots=64"),
    "rounds-full": rounds(64, "slots=64"),
    "rounds-half-new": rounds(32, "new:slots=64"),
    "rounds-full-new": rounds(64, "new:slots=64"),
}


def main():
    seen, missed = {}, []
    for name, story in STORIES.items():
        if options.only and name != options.only:
            continue
        LOGS.clear()
        with lab.Quorum(NODES) as quorum:
            seen[name], targets = story(quorum)
        seen[name]["violations"] = judge.judge(LOGS).violations
        targets.append(("violations", seen[name]["violations"] == 0))
        print(f"{name:<21}" + ", ".join(f"{what} {value}" for what, value in seen[name].items()),
              flush=True)
        missed += [f"{name} {what}" for what, is_met in targets if not is_met]
    for what in missed:
        print(f"missed: {what}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(seen, indent=1) + "\n")
    return int(bool(missed))


options = slow.arguments("fairness", 60, "of most stories", STORIES)
lab.run(main)

#!/usr/bin/env python3
"""Candidates whose leader is killed, stopped, cut off or resigns: election.py REDLOCK TURNS
[--seconds N] [--json FILE]

Five processes campaign on five servers. In turn the leader is killed, stopped until its lead has
ended, cut off from all servers, or told to resign. judge.py reads when each led; a file
that compares terms takes what they write; observers tell what they have seen.
"""
import asyncio
import json
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import slow  # noqa: E402
import judge as judging  # noqa: E402
import lab  # noqa: E402

CANDIDATES, OBSERVERS, NODES = 5, 2, 5
TTL_S = 2
TURN_S = 10  # from one fault to the next
SEEN_S, SEEN_MEDIAN_S = 1.2, 0.2  # until an observer tells of an election
TURN = re.compile(r"# waited (\d+) term (\d+)\n(\d+) acquired .*\n")


class Relay:
    """The way of one candidate to all servers, which can be cut."""

    loop = asyncio.new_event_loop()

    def __init__(self, quorum):
        self.is_cut, self.writers, self.uris = False, set(), []
        self.folder = tempfile.mkdtemp(dir=lab.folder)
        for index, uri in enumerate(quorum.uris):
            path = f"{self.folder}/{index}.sock"
            asyncio.run_coroutine_threadsafe(self.listen(path, uri.removeprefix("unix://")),
                                             self.loop).result()
            self.uris.append(f"unix://{path}")

    async def listen(self, path, server):
        async def serve(reader, writer):
            if self.is_cut:
                writer.close()
                return
            there = await asyncio.open_unix_connection(server)
            self.writers |= {writer, there[1]}
            await asyncio.gather(self.copy(reader, there[1]), self.copy(there[0], writer))
        await asyncio.start_unix_server(serve, path)

    async def copy(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()
        self.writers.discard(writer)

    def cut(self):
        self.is_cut = True
        self.loop.call_soon_threadsafe(
            lambda: [writer.transport.abort() for writer in list(self.writers)])

    def mend(self):
        self.is_cut = False


class Candidate:
    def __init__(self, quorum, storage):
        self.relay, self.storage = Relay(quorum), storage
        self.logs = []
        self.begin()

    def begin(self):
        self.logs.append(lab.temporary("log"))
        with open(self.logs[-1], "wb") as output:
            self.process = lab.spawn([options.program, "leader", "0", "0", "0", "job"],
                                     env=lab.environment({"REDLOCK_NODES": ",".join(self.relay.uris),
                                                          "STORAGE": self.storage}), stdout=output)

    def terms(self):
        """(number, time of the election) of each."""
        return [(int(term), int(at)) for log in self.logs
                for _, term, at in TURN.findall(pathlib.Path(log).read_text())]

    def text(self):
        return "".join(pathlib.Path(log).read_text() for log in self.logs)


class Observer:
    def __init__(self, quorum):
        self.lines = []
        self.process = lab.start("elect", "--observe", "--json", "job", env=lab.on(quorum))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def seen(self):
        """When it told of each term, in us of CLOCK_MONOTONIC."""
        offset = time.monotonic_ns() // 1000 - time.time_ns() // 1000
        return {line["term"]: line["unix_ms"] * 1000 + offset for line in self.lines if line["term"]}


def latest(candidates):
    """(number of the term, time of the election, candidate) of the last one."""
    return max(((*term, candidate) for candidate in candidates for term in candidate.terms()),
               key=lambda one: one[0], default=None)


def now_us():
    return time.monotonic_ns() // 1000


def kill(candidate):
    lab.die(candidate.process)
    candidate.process.wait()
    return candidate.begin


def stop(leader):
    leader.process.send_signal(signal.SIGSTOP)
    return lambda: leader.process.send_signal(signal.SIGCONT)


def cut(leader):
    leader.relay.cut()
    return leader.relay.mend


def resign(leader):
    leader.process.terminate()
    lab.equal(leader.process.wait(lab.END_SECONDS), 0, "exit code of a candidate")
    return leader.begin


FAULTS = {"kill": kill, "stop": stop, "cut": cut, "resign": resign}


def cause(candidates, name):
    """Seconds from the fault to the next election."""
    term, _, leader = latest(candidates)
    begun = now_us()
    repair = FAULTS[name](leader)
    lab.wait_for(lambda: latest(candidates)[0] > term, "the next leader")
    delay = (latest(candidates)[1] - begun) / 1e6
    time.sleep(TTL_S if name in ("stop", "cut") else 0)
    repair()
    return delay


def play(quorum, candidates):
    delays = {name: [] for name in FAULTS}
    lab.wait_for(lambda: latest(candidates), "a leader")
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        for name in FAULTS:
            begun = time.monotonic()
            delays[name].append(cause(candidates, name))
            time.sleep(max(0, min(TURN_S, options.seconds / 8) - (time.monotonic() - begun)))
    return delays


def judge(candidates, observers, delays):
    terms = sorted((at, term) for one in candidates for term, at in one.terms())
    logs = [log for one in candidates for log in one.logs]
    violations = judging.judge(logs).violations
    late, missed = [], 0
    for observer in observers:
        seen = observer.seen()
        missed += sum(term not in seen for _, term in terms)
        late += [(seen[term] - at) / 1e6 for at, term in terms if term in seen]
    text = "".join(one.text() for one in candidates)
    rises = all(before[1] < after[1] for before, after in zip(terms, terms[1:]))
    found = {
        "terms": len(terms), "violations": violations, "terms_rise": rises,
        "stored": text.count("# stored"), "refused": text.count("# refused"),
        "kill_worst_s": max(delays["kill"]), "resign_p50_s": statistics.median(delays["resign"]),
        "stop_worst_s": max(delays["stop"]), "cut_worst_s": max(delays["cut"]),
        "missed": missed, "seen_p50_s": statistics.median(late), "seen_worst_s": max(late),
    }
    return found, {
        "violations": violations == 0, "terms_rise": rises, "refused": found["refused"] > 0,
        "kill_worst_s": found["kill_worst_s"] <= TTL_S + 1,
        "resign_p50_s": found["resign_p50_s"] <= 0.1, "missed": missed == 0,
        "seen_p50_s": found["seen_p50_s"] <= SEEN_MEDIAN_S, "seen_worst_s": found["seen_worst_s"] <= SEEN_S,
    }


def main():
    threading.Thread(target=Relay.loop.run_forever, daemon=True).start()
    with lab.Quorum(NODES) as quorum:
        lab.redlock("admit", "--new", "--at-once", "--max-ttl", f"{TTL_S}s", env=lab.on(quorum)).expect(0)
        observers = [Observer(quorum) for _ in range(OBSERVERS)]
        lab.wait_for(lambda: all(observer.lines for observer in observers), "observers")
        storage = lab.write(lab.temporary("storage"), "0\n")
        candidates = [Candidate(quorum, storage) for _ in range(CANDIDATES)]
        delays = play(quorum, candidates)
        leader = latest(candidates)[2]
        for candidate in candidates:
            if candidate is not leader:
                kill(candidate)
        resign(leader)
        lab.wait_for(lambda: all(observer.lines[-1]["term"] is None for observer in observers),
                     "the end of the last term")
        for observer in observers:
            observer.process.terminate()
            observer.process.wait(lab.END_SECONDS)
    found, targets = judge(candidates, observers, delays)
    return slow.tell(found, targets, options.json)


options = slow.arguments("election", 600)
lab.run(main)

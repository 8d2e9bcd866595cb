"""Shared by the benches of contention: crowds of bench/contender.c, and their logs."""
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/cli"))
sys.dont_write_bytecode = True
import lab  # noqa: E402

WARM_UP_S = 0.5


class Hold:
    def __init__(self, words):
        (self.who, self.began, self.granted, self.ended, self.lost, self.fence,
         self.stored) = map(int, words)


class Logs:
    """The logs of the workers of one run, and the time of the measurement."""

    def __init__(self, paths, begin, end):
        self.begin, self.end = begin, end
        self.holds, self.pending = [], []
        self.cpu_us = self.sent = self.whole = self.scripts = 0
        for path in paths:
            for line in pathlib.Path(path).read_text().splitlines():
                kind, *words = line.split()
                if kind == "hold":
                    self.holds.append(Hold(words))
                elif kind == "wait":
                    self.pending.append(int(words[1]))
                elif kind == "used":
                    self.cpu_us += int(words[0])
                    self.sent += int(words[1])
                else:
                    self.whole += int(words[0])
                    self.scripts += int(words[1])
        self.holds.sort(key=lambda hold: hold.granted)
        self.seen = [hold for hold in self.holds if begin <= hold.granted < end]


class Crowd:
    """Processes that contend until the measurement ends."""

    def __init__(self, contender, quorum, processes, words, extra=None):
        self.paths, self.running = [], []
        environment = lab.environment({**lab.on(quorum), **(extra or {})})
        for index in range(processes):
            self.paths.append(lab.temporary("holds"))
            self.running.append(lab.spawn(
                [contender, "-i", str(1000 * index), *map(str, words), self.paths[-1]],
                env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def measure(self, seconds, meanwhile=time.sleep):
        for process in self.running:
            lab.equal(process.stdout.readline(), "ready\n", "what a worker says")
        begin = time.monotonic() + WARM_UP_S
        window = [round(at * 1e6) for at in (begin, begin + seconds)]
        for process in self.running:
            process.stdin.write("{} {}\n".format(*window))
            process.stdin.flush()
        meanwhile(begin + seconds - time.monotonic())
        for process in self.running:
            lab.equal(process.wait(60), 0, "exit of a worker")
        return Logs(self.paths, *window)


def judge_holds(logs):
    """No two holds of different owners overlap."""
    last = None
    for hold in logs.holds:
        lab.check(last is None or hold.who == last.who or hold.granted >= last.ended,
                  f"{hold.who} held {last and last.ended - hold.granted} us before "
                  f"{last and last.who} ended")
        if last is None or hold.ended > last.ended:
            last = hold

"""What races have in common: contenders that run in turns on the same servers.

A contender is a program that stays, and runs laps when it is told to (lap.h). In each round
every entry has one lap, and the round begins with another each time; what counts is the
ratio of two laps of one round, and of that the median over the rounds.
"""
import argparse
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/cli"))
sys.dont_write_bytecode = True
import lab  # noqa: E402

WARM_UP_S = 0.3
ROUNDS_LEAST = 7
PATIENT = "node_timeout_ms=1000"  # nodes of a busy machine are not taken for hung ones
LAP_SECONDS_MORE = 60  # that a lap may take beyond its time before it is given up


class Racer:
    """A resident contender; `words` is its command line, `env` what it needs besides nodes."""

    def __init__(self, name, words, quorum, env=None):
        self.name = name
        self.process = lab.spawn(
            [*map(str, words)], env=lab.environment({**on_tcp(quorum), **(env or {})}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            lab.equal(self.read(), "ready", f"what {name} says")
        except lab.Failed:
            self.close()
            raise

    def read(self):
        def gives_up(*_):
            raise lab.Failed(f"{self.name} does not answer")
        signal.signal(signal.SIGALRM, gives_up)
        signal.alarm(LAP_SECONDS_MORE)
        line = self.process.stdout.readline()
        signal.alarm(0)
        lab.check(line, f"{self.name} has ended")
        return line.strip()

    def lap(self, lanes, end, meanwhile=None):
        """Its figures, with what follows from them; `end` as in lap.h."""
        self.process.stdin.write(f"{lanes} {end}\n")
        self.process.stdin.flush()
        if meanwhile:
            meanwhile()
        seen = json.loads(self.read())
        lab.check(seen["cycles"] > 0, f"{self.name} did nothing with {lanes} in flight")
        seen["cycles_per_s"] = seen["cycles"] / seen["seconds"]
        seen["cpu_s_per_10k"] = seen["cpu_s"] / seen["cycles"] * 10000
        seen["rss_kb"] = self.rss_kb()
        return seen

    def rss_kb(self):
        """The most that it ever had: getrusage() would count what it had before exec, too."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1])

    def finish(self):
        """Lets it end by itself, for the sake of what its tool writes then."""
        self.process.stdin.close()
        lab.equal(self.process.wait(LAP_SECONDS_MORE), 0, f"exit code of {self.name}")
        self.process.stdout.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def on_tcp(quorum):
    """The environment that names these nodes by TCP, as every client can reach them; None: none."""
    if quorum is None:
        return {}
    if not hasattr(quorum, "ports"):
        quorum.ports = [server.listen() for server in quorum.servers]
    return {"REDLOCK_NODES": ",".join(f"redis://127.0.0.1:{port}" for port in quorum.ports)}


def count_of(quorum, section, pattern):
    """The sum over the servers of what INFO tells."""
    return sum(int(found) for server in quorum.servers
               for found in re.findall(pattern, server.call("INFO", section)))


def ticks():
    """All processors until now: (what the host has taken away, all)."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return int(words[7]), sum(map(int, words))


class Race:
    """Entries, each a racer with so many lanes, and what their laps showed, by round."""

    def __init__(self, entries, seconds):
        self.entries = entries  # {name: (racer, lanes)}
        self.seconds = seconds
        self.rounds = []

    def run(self, rounds, progress=sys.stderr):
        names = list(self.entries)
        stolen, before = ticks()
        for racer, lanes in self.entries.values():
            racer.lap(lanes, WARM_UP_S)
        for index in range(rounds):
            laps = {}
            for name in names[index % len(names):] + names[:index % len(names)]:
                racer, lanes = self.entries[name]
                laps[name] = racer.lap(lanes, self.seconds)
            self.rounds.append(laps)
            print(f"round {index + 1} of {rounds}", file=progress, flush=True)
        stolen_then, then = ticks()
        if stolen_then > stolen:
            print("the host took away "
                  f"{100 * (stolen_then - stolen) / (then - before):.1f} % of the processors",
                  file=progress, flush=True)

    def median(self, name, figure):
        return statistics.median(laps[name][figure] for laps in self.rounds)

    def ratio(self, name, other, figure):
        """One entry's figure to another's: (median, least, most) over the rounds."""
        ratios = [laps[name][figure] / laps[other][figure] for laps in self.rounds]
        return statistics.median(ratios), min(ratios), max(ratios)

    def medians(self):
        return {name: {figure: self.median(name, figure) for figure in self.rounds[0][name]}
                for name in self.entries}


def show_ratio(ratio):
    return "{:.2f} ({:.2f}-{:.2f})".format(*ratio)


def show(the_race, ratios, goals):
    """What each entry took, and {name: (entry, the one that it is compared with, figure)}."""
    print(f"{'':14} {'p50':>8} {'p99 us':>8} {'cycles/s':>9} {'CPU s/10k':>9} {'RSS MB':>7}")
    for name, laps in the_race.medians().items():
        print(f"{name:14} {laps['p50_us']:8.1f} {laps['p99_us']:8.1f} "
              f"{laps['cycles_per_s']:9.0f} {laps['cpu_s_per_10k']:9.3f} "
              f"{laps['rss_kb'] / 1024:7.1f}")
    for name, where in ratios.items():
        low, high = goals[name]
        print(f"{name:24} {show_ratio(the_race.ratio(*where)):24} "
              f"wanted {'>=' if low else '<='} {low or high}")


def positive(kind):
    """For numbers of the command line."""
    def read(word):
        number = kind(word)
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{word} is not above 0")
        return number
    read.__name__ = kind.__name__  # argparse names it where a word is no number
    return read


def arguments(name, **defaults):
    """What each race takes; the caller adds what is its own."""
    words = argparse.ArgumentParser(prog=f"./dev bench {name}")
    words.add_argument("--json", metavar="FILE", help="write all figures there, too")
    words.add_argument("--rounds", type=positive(int),
                       default=defaults.get("rounds", ROUNDS_LEAST),
                       help="laps of each entry (%(default)s)")
    words.add_argument("--seconds", type=positive(float),
                       default=defaults.get("seconds", 1.0), help="of each lap (%(default)s)")
    return words


def arguments_of_counts(name, cycles):
    """What those take that count in laps of so many cycles, whatever time they take."""
    words = argparse.ArgumentParser(prog=f"./dev bench {name}")
    words.add_argument("build")
    words.add_argument("--json", metavar="FILE", help="write all figures there, too")
    words.add_argument("--cycles", type=positive(int), default=cycles,
                       help="in a lap, N (%(default)s)")
    return words


def write_json(path, figures):
    if path:
        pathlib.Path(path).write_text(json.dumps(figures, indent=1) + "\n")


def judge(figures, goals):
    """Prints what is not as it is wanted: {key: (at least, at most)}; whether all is."""
    found = [(name, figures[name], *goal) for name, goal in goals.items() if name in figures]
    missed = [f"{name} is {figure:.3g}, wanted {f'<= {high}' if low is None else f'>= {low}'}"
              for name, figure, low, high in found
              if low is not None and figure < low or high is not None and figure > high]
    for line in missed:
        print(f"missed: {line}")
    return not missed


def main(run, name, options):
    """Calls run(options) with a folder of its own, and nothing left behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        try:
            code = run(options)
        except lab.Failed as failure:
            sys.exit(f"{name}: {failure}")
        finally:
            lab.kill_what_is_left()
    sys.exit(code)

#!/usr/bin/env python3
"""How far libredlock is ahead of its peers: peers.py BUILD [--json FILE] [--rounds N]
[--seconds S] [--only NAME,...]

Each folder of peers/ is a peer: it is copied to build/peers, installed there by its own
package manager, and races with its default settings and with its best, on the same five
servers as the floor and libredlock. See peers/README.md. One that cannot be installed is
skipped. Between laps the servers are emptied, after a look at what was left behind.
"""
import pathlib
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

PEERS = race.ROOT / "bench/peers"
SCRATCH = race.ROOT / "build/peers"
SETTINGS = ("default", "best")
INSTALL_SECONDS = 600
MANY = 64
WARM_UPS = ((MANY, 3), (1, 1))  # (lanes, seconds): what compiles as it runs needs them
SETTLE_S = 0.5  # that late releases have until what they would delete counts as left

# name of a ratio: (entries of so many lanes, figure, whether it is theirs to ours)
RATIOS = {"c1_p50": (1, "p50_us", True), "c64_throughput": (MANY, "cycles_per_s", False)}


# --- contenders ---

class Guest(race.Racer):
    """A racer after each lap of which the servers are emptied."""

    def __init__(self, name, words, quorum):
        self.quorum = quorum
        super().__init__(name, words, quorum)

    def lap(self, lanes, end, meanwhile=None):
        seen = super().lap(lanes, end, meanwhile)
        seen["left"] = left(self.quorum)
        for server in self.quorum.servers:
            server.call("FLUSHALL")
        return seen


def left(quorum):
    """How many keys are left; none of them for ever."""
    give_up = time.monotonic() + SETTLE_S
    while quorum.keys() > 0 and time.monotonic() < give_up:
        time.sleep(0.005)
    keys, expire = (race.count_of(quorum, "keyspace", rf"{what}=(\d+)")
                    for what in ("keys", "expires"))
    lab.equal(expire, keys, "how many of the keys that are left expire")
    return keys


def names():
    return sorted(path.parent.name for path in PEERS.glob("*/install"))


def install(name):
    """The folder where it is installed, or None after a line that says why not."""
    folder = SCRATCH / name
    print(f"installing {name}", file=sys.stderr, flush=True)
    shutil.copytree(PEERS / name, folder, dirs_exist_ok=True)
    try:
        done = subprocess.run(["./install"], cwd=folder, text=True, timeout=INSTALL_SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        print(f"{name} is skipped: its installation takes too long", flush=True)
        return None
    if done.returncode != 0:
        why = (done.stdout.strip() or f"exit {done.returncode}").splitlines()[-1]
        print(f"{name} is skipped, as it cannot be installed: {why}", flush=True)
        return None
    return folder


def enter(name, words, quorum):
    """It, warm; None after a line that says why it does not race."""
    racer = None
    try:
        racer = Guest(name, words, quorum)
        for warm_up in WARM_UPS:
            racer.lap(*warm_up)
    except lab.Failed as failure:
        print(f"{name} is skipped: {failure}", flush=True)
        if racer:
            racer.close()
        return None
    return racer


def contenders(build, quorum, peers):
    """{name: racer} of all that can race; libredlock and the floor first."""
    racers = {"floor": Guest("floor", [build / "bench/floor"], quorum),
              "ours": Guest("ours", [build / "bench/cycle", "async", race.PATIENT], quorum)}
    for peer in peers:
        folder = install(peer)
        for setting in SETTINGS if folder else ():
            name = f"{peer}_{setting}"
            racer = enter(name, [folder / "run", setting], quorum)
            if racer:
                racers[name] = racer
    return racers


# --- what was seen ---

def peers_of(racers):
    return list(racers)[2:]


def ratios(the_race, name, other):
    """By the names of RATIOS: above 1 the other is ahead."""
    found = {}
    for what, (lanes, figure, is_cost) in RATIOS.items():
        pair = (f"{name}_c{lanes}", f"{other}_c{lanes}")
        found[what] = the_race.ratio(*(pair if is_cost else pair[::-1]), figure)
    return found


def total(the_race, name, figure):
    return sum(laps[f"{name}_c{lanes}"][figure] for laps in the_race.rounds
               for lanes in (1, MANY))


def show(the_race, racers):
    medians = the_race.medians()
    print(f"{'':21} {'p50':>7} {'p99 us':>8} {'CPU s/10k':>9} | {'cycles/s':>8} "
          f"{'CPU s/10k':>9} | {'RSS MB':>6} {'failed':>6} {'left':>6}")
    for name in racers:
        one, many = medians[f"{name}_c1"], medians[f"{name}_c{MANY}"]
        print(f"{name:21} {one['p50_us']:7.0f} {one['p99_us']:8.0f} "
              f"{one['cpu_s_per_10k']:9.3f} | {many['cycles_per_s']:8.0f} "
              f"{many['cpu_s_per_10k']:9.3f} | {many['rss_kb'] / 1024:6.1f} "
              f"{total(the_race, name, 'failed'):6} {total(the_race, name, 'left'):6}")
    print("\nabove 1 they are behind: p50 divided by ours and by the floor's, our cycles/s\n"
          "and the floor's divided by theirs; median (least-most) over the rounds")
    heads = ("p50, 1: to ours", "to the floor", f"cycles/s, {MANY}: to ours", "to the floor")
    print(f"{'':21}", *(f"{head:22}" for head in heads))
    for name in peers_of(racers):
        to_ours, to_floor = (ratios(the_race, name, other) for other in ("ours", "floor"))
        print(f"{name:21}", *(f"{race.show_ratio(found[what]):22}" for what in RATIOS
                              for found in (to_ours, to_floor)))


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(5) as quorum:
        racers = contenders(build, quorum, options.only)
        lab.check(peers_of(racers), "no peer can race")
        entries = {f"{name}_c{lanes}": (racer, lanes)
                   for lanes in (1, MANY) for name, racer in racers.items()}
        the_race = race.Race(entries, options.seconds)
        the_race.run(options.rounds)
        for racer in racers.values():
            racer.close()
    theirs = {f"{name}_{what}_vs_ours": found for name in peers_of(racers)
              for what, found in ratios(the_race, name, "ours").items()}
    figures = {name: found[0] for name, found in theirs.items()}
    figures["ahead"] = all(ratio > 1 for ratio in figures.values())
    figures["ranges"] = {name: found[1:] for name, found in theirs.items()}
    figures["vs_floor"] = {f"{name}_{what}": found for name in racers if name != "floor"
                           for what, found in ratios(the_race, name, "floor").items()}
    figures["failed"], figures["left"] = (
        {name: total(the_race, name, what) for name in racers} for what in ("failed", "left"))
    figures["medians"] = the_race.medians()
    show(the_race, racers)
    race.write_json(options.json, figures)
    race.judge(figures, {name: (1, None) for name in theirs})
    return 0 if figures["ahead"] else 1


def read_options():
    words = race.arguments("peers")
    words.add_argument("build")
    words.add_argument("--only", type=lambda text: text.split(","), default=names(),
                       metavar="NAME,...", help=f"of: {', '.join(names())}")
    options = words.parse_args()
    for name in options.only:
        if name not in names():
            words.error(f"there is no peer {name}")
    return options


if __name__ == "__main__":
    race.main(run, "peers", read_options())

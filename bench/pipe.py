#!/usr/bin/env python3
"""What a lock by redlock pipe costs beside redlock.h: pipe.py BUILD [--json FILE] [--rounds N]
[--seconds S]

Five private servers. The wrappers for Node and Go (pipe/) and a client in a loop take turns,
with 1 cycle in flight; the loop has a second turn in which only the locks are timed. One whose
language is missing is skipped.
"""
import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402

HERE = race.ROOT / "bench/pipe"
GO_PATH = "/usr/lib/go-1.19/bin"  # of Debian's package golang-1.19-go
GO_ENV = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
PATIENT = ("--timeout", "1s")  # as race.PATIENT
# The target of a lock's p50: so many times that of redlock.h, and a pipe on top.
TIMES, MORE_US = 1.5, 100


def build_go():
    go = shutil.which("go", path=f"{GO_PATH}:{os.environ['PATH']}")
    if not go:
        return None
    out = race.ROOT / "build/pipe-cycle"
    subprocess.run([go, "build", "-buildvcs=false", "-o", out, "."], cwd=HERE, check=True,
                   env={"GOCACHE": str(race.ROOT / "build/go-cache"), **os.environ, **GO_ENV})
    return [out]


def wrappers():
    """{name: command line} of those whose language is there."""
    node = shutil.which("node")
    found = {"node": node and [node, HERE / "cycle.js"], "go": build_go()}
    for name in [name for name, words in found.items() if not words]:
        print(f"{name} is skipped: it is missing")
        del found[name]
    return found


def of_target(laps, name):
    return laps[name]["grant_us"] / (TIMES * laps["a lock of redlock.h"]["p50_us"] + MORE_US)


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(5) as quorum:
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        racers = {name: race.Racer(name, [build / "bench/cycle", how, race.PATIENT], quorum)
                  for name, how in (("redlock.h", "async"), ("a lock of redlock.h", "grant"))}
        for name, words in wrappers().items():
            racers[name] = race.Racer(name, [*words, *PATIENT], quorum,
                                      {"REDLOCK_COMMAND": lab.program})
        the_race = race.Race({name: (racer, 1) for name, racer in racers.items()}, options.seconds)
        load = os.getloadavg()[0]
        the_race.run(options.rounds)
        for racer in racers.values():
            racer.close()
    names = list(racers)[2:]
    race.show(the_race, {}, {})
    figures, goals = {"load": load, "medians": the_race.medians()}, {}
    for name in names:
        shares = sorted(of_target(laps, name) for laps in the_race.rounds)
        figures[f"{name}_p50"] = the_race.ratio(name, "redlock.h", "p50_us")[0]
        figures[f"{name}_of_target"] = shares[len(shares) // 2]
        goals[f"{name}_of_target"] = (None, 1)
        print(f"{name + '_p50':16} {race.show_ratio(the_race.ratio(name, 'redlock.h', 'p50_us')):20} "
              f"a lock: {the_race.median(name, 'grant_us'):.0f} us, "
              f"{figures[f'{name}_of_target']:.2f} of {TIMES} x + {MORE_US} us, wanted <= 1")
    print(f"load before: {load:.1f}")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, goals) else 1


if __name__ == "__main__":
    words = race.arguments("pipe", rounds=20, seconds=0.5)
    words.add_argument("build")
    race.main(run, "pipe", words.parse_args())

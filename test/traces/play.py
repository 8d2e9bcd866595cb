#!/usr/bin/env python3
"""Plays runs of the simulator in the models of docs/model, step by step.

play.py BUILD_DIR [--runs N] [--from SEED] [--quick]

`sim --seed S --trace --model MODEL` tells what the processes and servers of a run did. Here its
lines become steps of the model (rounds.py, markers.py), which spin plays (round.pml, marker.pml).
A run that cannot be played to its end is refused. The unchanged code must not be refused, and
each of MUTATIONS, of test/sim/mutations.toml, must be, at some seed.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "sim"))
import mutate
import mutations as table
import recipe
from markers import Markers
from rounds import Rounds
from steps import Step, Trace

AT_ONCE = 20  # runs that spin plays in one search
PATIENCE = 300  # seconds
SKIPPED = 77  # the exit code by which meson knows


# --- playing ---

class Player:
    """A model, compiled once."""

    def __init__(self, model, folder):
        self.model, self.folder = model, pathlib.Path(folder) / model
        self.folder.mkdir()
        recipe.run(["spin", "-a", HERE / f"{model}.pml"], self.folder)
        recipe.run(["cc", "-O1", "-w", "-DSAFETY", "-DVECTORSZ=16384", "-o", "pan", "pan.c"],
                   self.folder)

    def play(self, runs):
        """Of each of these, how many of its steps the model has."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder) as file:
            file.writelines(f"{step}\n" for run in runs for step in (*run.steps, Step(";")))
            file.flush()
            done = subprocess.run([self.folder / "pan", "-E", "-n", "-m2000000", "-w16"],
                                  cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
                                  env={**os.environ, "STEPS": file.name})
        played = [int(steps) for steps in re.findall(r"^run \d+: (\d+) of", done.stdout, re.M)]
        if len(played) != len(runs) or not re.search(r"errors: 0$", done.stdout, re.M) or \
                "max search depth too small" in done.stdout:
            raise SystemExit(f"spin did not search all:\n{done.stdout}{done.stderr}")
        return played


MODELS = {"round": Rounds, "marker": Markers}


def steps_of(model, program, seed):
    done = subprocess.run([program, "--seed", str(seed), "--model", model, "--trace"],
                          capture_output=True, text=True, timeout=PATIENCE)
    return MODELS[model](done.stdout)


def batches(seeds):
    return [seeds[at:at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]


class Refusal(typing.NamedTuple):
    seed: int
    run: Trace
    played: int

    def __str__(self):
        step = self.run.steps[self.played]
        return (f"seed {self.seed}: step {self.played + 1} of {len(self.run.steps)} is refused: "
                f"{step}\n    {self.run.lines[self.played].strip()}")


def play_batch(player, program, seeds):
    runs = [steps_of(player.model, program, seed) for seed in seeds]
    refused = [Refusal(seed, run, played)
               for seed, run, played in zip(seeds, runs, player.play(runs)) if played < len(run.steps)]
    return runs, refused


# Each breaks a rule that the model has.
MUTATIONS = {
    "round": (
        "a majority of the nodes that are ready",
        "a grant too few wins",
        "who keeps silent counts as a grant",
        "the next attempt has the token of the first",
        "only who granted is told to release",
        "no release after a lost round",
        "a release is said once, and never again",
        "a release that was cut off is waited for",
        "a connection is given up without a reset",
        "a release deletes the key of another holder",
        "a node reports a release and keeps the key",
        "an error grants",
        "nobody learns that a reply will not come because the connection ended",
        "a lease that is freed while it is held is not released",
        "an answer that was cut off counts as a refusal"),
    "marker": (
        "a seat without a quarantine",
        "a barred node votes",
        "every member at the end is lifted",
        "no registration",
        "registered by less than a majority",
        "who is in quarantine counts itself",
        "what a node tells of others is not kept",
        "a marker of another process is as good",
        "only the run_id tells a process",
        "who was superseded votes",
        "a seat is given again without a new incarnation",
        "the nonce is not compared",
        "a marker is set whatever is there",
        "a node without a marker counts as if it had the right one",
        "a marker is stored again on a node that lost it"),
}
MUTATION_RUNS = 100  # in which a mutation must be refused
QUICK_RUNS, QUICK_MUTATIONS = 20, 2


def first_refusal(player, program):
    for batch in batches(range(1, MUTATION_RUNS + 1)):
        _, refused = play_batch(player, program, batch)
        if refused:
            return refused[0]
    return None


def play_unchanged(player, program, seeds):
    steps, refused = 0, []
    for runs, some in recipe.side_by_side(lambda batch: play_batch(player, program, batch),
                                          batches(seeds)):
        steps += sum(len(run.steps) for run in runs)
        refused += some
    print(f"{player.model}: {len(seeds)} runs of {steps} steps, {len(refused)} refused", flush=True)
    for refusal in refused:
        print(refusal)
    return not refused


def play_mutations(player, workshop, names):
    rows = {row["name"]: row for row in table.read_table()}

    def refusal_of(name):
        program = workshop.make(rows[name], f"{player.model}-{names.index(name)}")
        return name, first_refusal(player, program)

    missed = 0
    for name, refusal in recipe.side_by_side(refusal_of, names):
        missed += refusal is None
        print(f"{name}: {refusal or 'NOT REFUSED'}", flush=True)
    print(f"{player.model}: {len(names)} mutations, {len(names) - missed} refused", flush=True)
    return missed == 0


def arguments():
    parser = argparse.ArgumentParser(prog="play.py")
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=1000, help="of each model")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="SEED")
    parser.add_argument("--quick", action="store_true", help="few runs and mutations, as a test")
    return parser.parse_args()


def main():
    asked = arguments()
    if not shutil.which("spin"):
        print("spin is not installed")
        return SKIPPED
    runs = QUICK_RUNS if asked.quick else asked.runs
    program, fine = pathlib.Path(asked.build).resolve() / "test/sim/sim", True
    with tempfile.TemporaryDirectory(prefix="redlock-traces-") as folder:
        workshop = mutate.Workshop(asked.build, folder, MUTATION_RUNS)
        for model, names in MUTATIONS.items():
            player = Player(model, folder)
            fine &= play_unchanged(player, program, range(asked.first, asked.first + runs))
            fine &= play_mutations(player, workshop, names[:QUICK_MUTATIONS] if asked.quick else names)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

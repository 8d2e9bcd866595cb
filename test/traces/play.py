#!/usr/bin/env python3
"""Plays runs of the simulator in the models of docs/model, step by step.

play.py BUILD_DIR [--runs N] [--from SEED] [--quick]

`sim --seed S --trace --model MODEL` tells what the processes and servers of a run did. Here its
lines become steps of the model (abstract()), which spin plays (round.pml). A run that cannot be
played to its end is refused. The unchanged code must not be refused, and each of MUTATIONS, of
test/sim/mutations.toml, must be, at some seed.
"""
import argparse
import concurrent.futures
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

ATTEMPTS_MAX = 250  # as in round.pml
AT_ONCE = 20  # runs that spin plays in one search
PATIENCE = 300  # seconds
SKIPPED = 77  # the exit code by which meson knows
RELEASED_AGAIN = 1000  # ms, at most, if nothing else makes its client send a release again
SLACK = 0.9  # the earliest that a key can expire, or its client takes it for expired


class Step(typing.NamedTuple):
    what: str
    attempt: int = 0
    client: int = 0
    node: int = 0
    nodes: int = 0
    command: int = 0
    done: int = 0

    def __str__(self):
        return " ".join(map(str, self))


SET, DEL = 0, 1
COMMANDS = {"acquire": SET, "release": DEL}
LINE = re.compile(r" *([0-9.]+) ms  (.*)")
PATTERNS = [(name, re.compile(pattern)) for name, pattern in (
    ("writes", r"client (\d+): (acquire|release|extend) of (\w+) to node (\d+)"),
    ("executes", r"server (\d+): (acquire|release|extend) of (\w+) by client (\d+): (\w+)"),
    ("greets", r"client (\d+) reads: greeting of  by node (\d+): granted"),
    ("reads", r"client (\d+) reads: (acquire|release|extend) of (\w+) by node (\d+): (\w+)"),
    ("leaves", r"client (\d+) ends its connection to node (\d+)"),
    ("wants", r"client (\d+), user 1 wants \S+ for (\d+) ms"),
    ("acquired", r"client (\d+), user 1, acquire of (\w*): (\w+), valid for (\d+)"),
    ("lost", r"client (\d+), user 1, loss of (\w+)"),
    ("released", r"client (\d+), user 1, release of (\w+)"),
    ("gives_back", r"client (\d+), user 1 (?:releases|frees|lets expire) (\w+)"),
    ("cancels", r"client (\d+), user 1 cancels"),
    ("ends", r"--- the clients are freed"))]


class Attempt:
    def __init__(self, number, client, ttl):
        self.number, self.client, self.ttl, self.state = number, client, ttl, "acquiring"
        self.is_lost = False
        self.over_since = float("inf")  # the next attempt begins, or the user knows the outcome
        self.written = set()  # the nodes to which its SET was


class Abstraction:
    """The steps of one trace. What is not in it, is not in the model either."""

    def __init__(self, trace):
        self.steps, self.lines = [], []  # and the line that each step comes from
        self.attempts = {}  # by token
        self.current, self.ttl, self.left, self.erred = {}, {}, {}, {}  # of each client
        self.later = []  # (time, what, attempt, ...): what is possible from then on
        self.is_ended = False
        events = list(read(trace))
        self.sent, self.last_write = addressees(events), last_writes(events)
        for self.at, (self.now, self.line, name, words) in enumerate(events):
            self.pass_time()
            getattr(self, name)(*words)
            if self.is_ended:
                break

    def add(self, what, attempt=None, **rest):
        if attempt:
            rest = {"attempt": attempt.number, "client": attempt.client, **rest}
        self.add_step(Step(what, **rest))

    def add_step(self, step):
        self.steps.append(step)
        self.lines.append(self.line)

    def pass_time(self):
        for at, what, attempt, rest in sorted(self.later, key=lambda one: one[0]):
            if at <= self.now and what == "t":
                self.lose_hold(attempt)
            elif at <= self.now:
                self.add(what, attempt, **rest)
        self.later = [one for one in self.later if one[0] > self.now]

    def lose(self, attempt):
        if attempt and attempt.state == "acquiring":
            attempt.state = "over"
            self.add("l", attempt)

    def lose_hold(self, attempt):
        if attempt.state == "held" and not attempt.is_lost:
            attempt.is_lost = True
            self.add("t", attempt)

    def give_back(self, attempt):
        if attempt.state == "held":
            attempt.state = "over"
            self.add("f", attempt)

    def writes(self, client, command, token, node):
        if command == "acquire":
            self.writes_set(int(client) - 1, token, int(node) - 1)
        elif token in self.attempts:
            attempt = self.attempts[token]
            self.lose(attempt)
            self.give_back(attempt)
            self.add("d", attempt, node=int(node) - 1)

    def writes_set(self, client, token, node):
        attempt = self.attempts.get(token)
        if not attempt:
            if client in self.current:
                self.current[client].over_since = min(self.now, self.current[client].over_since)
            self.lose(self.current.get(client))
            attempt = Attempt(len(self.attempts), client, self.ttl[client])
            self.attempts[token] = self.current[client] = attempt
        is_of_round = attempt.state == "acquiring" and node not in attempt.written
        attempt.written.add(node)
        if is_of_round and self.at != self.last_write[token]:
            return  # the model sends all of a round at once
        left = self.left_now(client)
        asked = [step for step in left if self.sent[token] >> step.node & 1]
        for step in asked:  # it asked there, and could not write
            at = len(self.steps) - 1 - self.steps[::-1].index(step)
            del self.steps[at], self.lines[at]
        self.add("b", attempt, nodes=self.sent[token], node=sum(1 << step.node for step in left))
        for step in asked:
            self.add_step(step)
        self.later.append((self.now + 2 * SLACK * attempt.ttl, "o", attempt, {}))

    def executes(self, server, command, token, client, truth):
        attempt = self.attempts.get(token)
        if not attempt:
            return  # the release of an attempt that sent no SET
        rest = {"node": int(server) - 1, "command": COMMANDS[command]}
        if truth == "error":
            self.add("n", attempt, **rest)
            return
        self.add("x", attempt, done=int(truth == "granted"), **rest)
        if command == "acquire" and truth == "granted":
            self.later.append((self.now + SLACK * attempt.ttl, "k", attempt,
                               {"node": rest["node"]}))

    def reads(self, client, command, token, node, truth):
        attempt = self.attempts.get(token)
        if attempt:
            is_unsure = self.erred.get((client, node)) == self.now
            is_error = command == "release" and truth == "error"
            self.add("e" if is_error else "u" if is_unsure else "r", attempt, node=int(node) - 1,
                     command=COMMANDS[command], done=int(truth == "granted"))
        if truth == "error":
            self.erred[client, node] = self.now

    def greets(self, client, node):
        self.add("g", client=int(client) - 1, node=int(node) - 1)

    def leaves(self, client, node):
        client, node = int(client) - 1, int(node) - 1
        self.left[client] = self.now, [*self.left_now(client), Step("c", client=client, node=node)]
        self.add("c", client=client, node=node)

    def left_now(self, client):
        """The steps by which its connections ended in this iteration of its loop."""
        at, steps = self.left.get(client, (0, []))
        return steps if at == self.now else []

    def wants(self, client, ttl):
        self.ttl[int(client) - 1] = int(ttl)

    def acquired(self, client, token, code, valid):
        attempt = self.attempts.get(token)
        if attempt and code == "OK":
            attempt.state = "held"
            self.add("w", attempt)
            self.later.append((self.now + SLACK * int(valid), "t", attempt, {}))
        elif attempt:
            attempt.over_since = self.now
            self.lose(attempt)
            if code == "EXPIRED":  # it was stopped before it wrote, for two TTLs perhaps
                self.add("o", attempt)

    def lost(self, client, token):
        self.lose_hold(self.attempts[token])

    def released(self, client, token):
        self.attempts[token].over_since = self.now

    def gives_back(self, client, token):
        self.give_back(self.attempts[token])

    def cancels(self, client):
        self.lose(self.current.get(int(client) - 1))

    def ends(self):
        for attempt in self.attempts.values():
            if self.now - attempt.over_since < RELEASED_AGAIN:
                self.add("o", attempt)
        self.add(".")
        self.is_ended = True


def read(trace):
    for line in trace.splitlines():
        found = LINE.match(line)
        for name, pattern in PATTERNS if found else ():
            match = pattern.match(found[2])
            if match:
                yield float(found[1]), line, name, match.groups()
                break


def addressees(events):
    """{token: the nodes that its round was written to}. A release is also written to a node
    whose connection ended before the round was."""
    sent = {}
    for _, _, name, words in events:
        if name == "writes":
            _, _, token, node = words
            sent[token] = sent.get(token, 0) | 1 << int(node) - 1
    return sent


def last_writes(events):
    """{token: the last event that writes its SET before anything else happens to its client}."""
    last, open_rounds = {}, {}
    for at, (_, _, name, words) in enumerate(events):
        client = words[3] if name == "executes" else words[0] if words else None
        if name == "writes" and words[1] == "acquire":
            token = words[2]
            if token not in last:
                open_rounds[client] = token
            if open_rounds.get(client) == token:
                last[token] = at
        elif name != "writes":
            open_rounds.pop(client, None)
    return last


# --- playing ---

class Player:
    """The model, compiled once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        recipe.run(["spin", "-a", HERE / "round.pml"], folder)
        recipe.run(["cc", "-O1", "-w", "-DSAFETY", "-DVECTORSZ=16384", "-o", "pan", "pan.c"],
                   folder)

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


def trace(program, seed):
    """The trace of a seed, or None if the simulator itself fails at it."""
    done = subprocess.run([program, "--seed", str(seed), "--model", "round", "--trace"],
                          capture_output=True, text=True, timeout=PATIENCE)
    return Abstraction(done.stdout)


def batches(seeds):
    return [seeds[at:at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]


class Refusal(typing.NamedTuple):
    seed: int
    run: Abstraction
    played: int

    def __str__(self):
        step = self.run.steps[self.played]
        return (f"seed {self.seed}: step {self.played + 1} of {len(self.run.steps)} is refused: "
                f"{step}\n    {self.run.lines[self.played].strip()}")


def play_batch(player, program, seeds):
    runs = [trace(program, seed) for seed in seeds]
    refused = [Refusal(seed, run, played)
               for seed, run, played in zip(seeds, runs, player.play(runs)) if played < len(run.steps)]
    return runs, refused


def play_all(player, program, seeds):
    """Of each batch: its runs, and those that are refused."""
    yield from recipe.side_by_side(lambda batch: play_batch(player, program, batch), batches(seeds))


# Each breaks a rule that the model has.
MUTATIONS = (
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
    "an answer that was cut off counts as a refusal",
)
MUTATION_RUNS = 100  # in which a mutation must be refused
QUICK_RUNS, QUICK_MUTATIONS = 60, 3


def first_refusal(player, program):
    for _, refused in (play_batch(player, program, batch)
                       for batch in batches(range(1, MUTATION_RUNS + 1))):
        if refused:
            return refused[0]
    return None


def play_unchanged(player, program, seeds):
    steps, refused = 0, []
    for runs, some in play_all(player, program, seeds):
        steps += sum(len(run.steps) for run in runs)
        refused += some
    print(f"{len(seeds)} runs of {steps} steps, {len(refused)} refused", flush=True)
    for refusal in refused:
        print(refusal)
    return not refused


def play_mutations(player, build, folder, names):
    rows = {row["name"]: row for row in table.read_table()}
    workshop = mutate.Workshop(build, folder, MUTATION_RUNS)
    missed = 0
    for number, name in enumerate(names):
        refusal = first_refusal(player, workshop.make(rows[name], f"mutant-{number}"))
        missed += refusal is None
        print(f"{name}: {refusal or 'NOT REFUSED'}", flush=True)
    print(f"{len(names)} mutations, {len(names) - missed} refused")
    return missed == 0


def arguments():
    parser = argparse.ArgumentParser(prog="play.py")
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="SEED")
    parser.add_argument("--quick", action="store_true", help="few runs and mutations, as a test")
    return parser.parse_args()


def main():
    asked = arguments()
    if not shutil.which("spin"):
        print("spin is not installed")
        return SKIPPED
    runs, names = (QUICK_RUNS, MUTATIONS[:QUICK_MUTATIONS]) if asked.quick else (asked.runs, MUTATIONS)
    with tempfile.TemporaryDirectory(prefix="redlock-traces-") as folder:
        player = Player(folder)
        fine = play_unchanged(player, pathlib.Path(asked.build).resolve() / "test/sim/sim",
                              range(asked.first, asked.first + runs))
        fine &= play_mutations(player, asked.build, folder, names)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Too few file descriptors: 125 and one line, and never a code that means something else."""
import shlex

import lab
from lab import case, check, environment, equal, matches, on, spawn

# Fewer than 4 are not enough to load shared libraries: the dynamic linker ends with 127.
LIMITS = range(4, 31)
COMMANDS = {
    # the code with enough descriptors: the lock is free and the token is unknown
    ("acquire", "-n", "KEY"): 0,
    ("run", "-n", "KEY", "true"): 0,
    ("extend", "KEY"): 1,
    ("release", "KEY"): 1,
    ("status", "KEY"): 1,
    ("break", "--yes", "KEY"): 0,
    ("check",): 1,
    ("admit", "--readmit"): 78,
    ("bench", "-n", "1", "--warmup", "0"): 0,
}


def limited(quorum, files, words, env):
    line = " ".join(shlex.quote(word) for word in (lab.program, *words))
    process = spawn(["sh", "-c", f"ulimit -n {files}; exec {line}"],
                    env=environment(on(quorum, **env)), stdin=lab.subprocess.DEVNULL,
                    stdout=lab.subprocess.PIPE, stderr=lab.subprocess.PIPE)
    return lab.finish(process)


def look_at(quorum, command, enough, env):
    """Up from the fewest: refused by one line, and from some number on as with plenty."""
    refused = 125 if command[0] != "check" else 3
    codes = []
    for files in LIMITS:
        words = [word.replace("KEY", f"{command[0]}{files}") for word in command]
        outcome = limited(quorum, files, words, env)
        codes.append(outcome.code)
        if outcome.code != enough:
            outcome.expect(refused, out="",
                           err=r"^redlock: Too many open files: [^\n]*ulimit -n[^\n]*\n$")
    equal(codes, sorted(codes, key=lambda code: code == enough), f"codes of {command}")
    check(codes[0] == refused and codes[-1] == enough, f"codes of {command}: {codes}")


@case("every command, from the fewest descriptors up")
def _(quorum):
    for command, enough in COMMANDS.items():
        look_at(quorum, command, enough, {"REDLOCK_TOKEN": "pfoo@me"})


@case("a host name: its resolver has its descriptors, too")
def _(quorum):
    nodes = {"REDLOCK_NODES": ",".join(f"redis://localhost:{i}" for i in (1, 2, 3))}
    for files in LIMITS:
        outcome = limited(quorum, files, ["status", "k"], nodes)
        check(outcome.code in (69, 125), f"{files} descriptors: {outcome}")


@case("a local quorum: 125")
def _(quorum):
    for files in LIMITS:
        outcome = limited(quorum, files, ["local", "-n", "1", "--", "true"], {})
        check(outcome.code in (0, 125), f"{files} descriptors: {outcome}")
        check(outcome.code == 0 or outcome.err, f"nothing is said with {files} descriptors")


@case("a configuration that cannot be opened without a descriptor: 125")
def _(quorum):
    path = lab.write(lab.temporary("config"), f"nodes = {quorum.nodes}\n")
    for command in ("status", "acquire", "release"):
        outcome = limited(quorum, 4, [command, "--config", path, "k"], {"REDLOCK_NODES": None})
        outcome.expect(125, out="")
        matches(outcome.err, "Too many open files", "stderr")


lab.main(servers=3)

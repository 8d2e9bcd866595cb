#!/usr/bin/env python3
"""Every row of the tables of exit codes, and its word in --json."""
import json
import os
import signal

import lab
from lab import PATIENT, case, check, equal, matches, on, redlock

Q = ("--ttl", "5s")  # longer than any test waits
TRAP = 'trap "" TERM; while :; do sleep 0.05; done'


def run(quorum, *words, env=None, **more):
    return redlock("run", *words, env=on(quorum, **(env or {})), **more)


def cause(outcome):
    """The object of `run --json` is the last line on stderr."""
    return json.loads(outcome.err.splitlines()[-1])["cause"]


# --- run: the child's own code ---

@case("run: the command's own exit code comes through, whatever it is")
def _(quorum):
    for code in (0, 1, 2, 64, 69, 75, 124, 125, 127, 255):
        run(quorum, "k", "sh", "-c", f"exit {code}").expect(code, err="^$", out="")
    equal(quorum.keys(), 0, "keys left behind")


@case("run: --json tells the command's own 75 from ours")
def _(quorum):
    outcome = run(quorum, "--json", "k", "sh", "-c", "exit 75").expect(75, out="")
    equal(cause(outcome), "child", "cause")
    quorum.occupy("k")
    outcome = run(quorum, "--json", "-n", "k", "true").expect(75, out="")
    equal(cause(outcome), "taken", "cause")


@case("run: 128+n for a command that a signal ended")
def _(quorum):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT):
        outcome = run(quorum, "--json", "k", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
        equal(cause(outcome.expect(128 + number)), "signalled", "cause")
    equal(quorum.keys(), 0, "keys left behind")


@case("run, acquire: a wait without a quorum is reported before the wait ends, with the fault of each node")
def _(quorum):
    quorum.kill(0, 1, 2)
    failed = ", ".join(quorum.uris[:3])
    for words in (["run", "k", "true"], ["acquire", "k"]):
        outcome = redlock(words[0], "-w", "4s", *words[1:], env=on(quorum)).expect(69, out="")
        first, last = outcome.err.splitlines()
        equal(first, "redlock: k: waiting: 3 of 5 nodes failed: "
              f"{failed}: cannot connect: No such file or directory", "the first line")
        matches(last, "k is not held: 3 of 5 nodes failed", "the last line")
        process = lab.start(*words, env=on(quorum))  # as long as it takes
        equal(process.stderr.readline().decode(), first + "\n", "the first line")
        if words[0] == "acquire":  # the same again: without the nodes
            matches(process.stderr.readline().decode(), r"^redlock: k: still waiting, for \d+\.\d s\n$",
                    "the second line")
        quorum.start()
        lab.finish(process).expect(0)
        quorum.kill(0, 1, 2)


@case("run: a wait for nodes that all restarted reports how long they are quarantined")
def _(quorum):
    quorum.occupy("k")
    before = quorum.attempts()
    process = lab.start("run", "--max-ttl", "20s", "-t", "20s", "-w", "15s", "k", "true",
                        env=on(quorum))
    lab.wait_for(lambda: quorum.attempts() >= before + 5, "an attempt on all nodes")
    quorum.kill(*range(5))
    quorum.start()
    outcome = lab.finish(process).expect(69)
    last = outcome.err.splitlines()[-1]
    matches(last, "k is not held: [345] of 5 .*quarantined, for another [0-9.]+ s; a quorum "
            "can be free in [0-9.]+ s$", "the last line")


@case("run, acquire: -n and -w 0 try once, without a quorum and with another holder")
def _(quorum):
    for words in (["-n"], ["-w", "0"]):
        quorum.occupy("k")
        for command in (["run", *words, "k", "true"], ["acquire", *words, "k"]):
            before = quorum.attempts()
            redlock(*command, env=on(quorum)).expect(75, err="^redlock: k is held by [^\n]*\n$")
            check(quorum.attempts() <= before + 5, "more than one attempt")
        quorum.kill(0, 1, 2)
        for command in (["run", *words, "k", "true"], ["acquire", *words, "k"]):
            redlock(*command, env=on(quorum)).expect(69, err="^redlock: k is not held: [^\n]*\n$")
        quorum.reset()


# --- run: held elsewhere ---

@case("run -n: 75 and no command where another holds the lock; -E sets another code")
def _(quorum):
    quorum.occupy("k", value="token@someone")
    path = lab.temporary("ran")
    run(quorum, "-n", "k", "touch", path).expect(75, err="k is held by .*someone", out="")
    run(quorum, "-n", "-E", "3", "k", "touch", path).expect(3)
    run(quorum, "-n", "-E", "0", "k", "touch", path).expect(0)
    run(quorum, "-n", "--conflict-exit-code=255", "k", "touch", path).expect(255)
    check(not os.path.exists(path), "the command was run")
    equal(quorum.values("k"), ["token@someone"] * 5, "the other's lock")


@case("run -w: 75 when the wait has ended, and not much before or after; -E too")
def _(quorum):
    quorum.occupy("k")
    outcome = run(quorum, "--json", "-w", "700ms", "k", "true")
    equal(cause(outcome.expect(75, err="the wait ran out")), "timeout", "cause")
    check(0.6 < outcome.seconds < 60, f"it waited {outcome.seconds} s")
    run(quorum, "-w", "100ms", "-E", "9", "k", "true").expect(9)


@case("run: without -n and -w it waits without a limit")
def _(quorum):
    quorum.occupy("k")
    process = lab.start("run", "k", "echo", "mine", env=on(quorum))
    try:
        process.wait(1.2)
        check(False, "it did not wait")
    except lab.subprocess.TimeoutExpired:
        pass
    for server in quorum.servers:
        server.call("DEL", "k")
    lab.finish(process).expect(0, out="mine\n")


@case("75 or 69: other holders' keys plus our grants make a quorum, or do not")
def _(quorum):
    quorum.kill(3, 4)
    quorum.occupy("k", [0])
    run(quorum, "-n", *PATIENT, "k", "true").expect(75)
    run(quorum, "-w", "300ms", *PATIENT, "k", "true").expect(75)
    quorum.kill(2)
    outcome = run(quorum, "--json", "-n", "k", "true").expect(69)
    equal(cause(outcome), "no_quorum", "cause")
    run(quorum, "-w", "300ms", "k", "true").expect(69)
    equal(quorum.values("k"), ["foreign"] + [None] * 4, "values")


# --- run: no quorum, refused, invalid arguments ---

@case("run: 69 where three of five nodes are dead, and -E does not change that")
def _(quorum):
    quorum.kill(0, 2, 4)
    run(quorum, "-n", "-E", "3", "k", "true").expect(69, err="k is not held: 3 of 5 nodes failed: .*cannot connect: No such file")
    run(quorum, "-w", "200ms", "k", "true").expect(69)
    equal(quorum.keys(), 0, "keys left behind")


# --- run: lost ---

@case("run: 124 when the lock is broken, and the command is ended at once by TERM")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("run", "--json", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    redlock("break", "--yes", "k", env=on(quorum)).expect(0)
    outcome = lab.finish(process).expect(124, err="the lock is lost")
    equal(cause(outcome), "lost", "cause")


@case("run: 124 also if the command exits with 0 on TERM")
def _(quorum):
    path = lab.temporary("ready")
    script = f'trap "exit 0" TERM; touch {path}; while :; do sleep 0.02; done'
    process = lab.start("run", "-t", "2s", "k", "sh", "-c", script, env=on(quorum))
    lab.wait_for(lambda: os.path.exists(path), "the command")
    redlock("break", "--yes", "k", env=on(quorum)).expect(0)
    lab.finish(process).expect(124)


# --- run: own failure, and commands that cannot be executed ---

@case("run: 125 when the keeper process is killed, and the command dies with it")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("run", "--json", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    [keeper] = lab.named(lab.marked(), "^lock-keeper")
    os.kill(keeper, signal.SIGKILL)
    outcome = lab.finish(process).expect(125, err="keeper")
    equal(cause(outcome), "failed", "cause")
    lab.nothing_is_left()
    equal(quorum.keys(), 0, "keys left behind")


@case("run: 126 for a file that cannot be executed, and the lock is released")
def _(quorum):
    plain = lab.write(lab.temporary("plain"), "no program", 0o644)
    for word in (plain, "/", lab.write(lab.temporary("bad"), "#!/no/such/interpreter\n", 0o755)):
        outcome = run(quorum, "--json", "k", word)
        if word.endswith("bad"):  # the kernel returns ENOENT for the interpreter
            check(outcome.code in (126, 127), f"{outcome}")
        else:
            equal(cause(outcome.expect(126)), "cannot_execute", "cause")
    equal(quorum.keys(), 0, "keys left behind")


@case("run: 127 for a command that is not found, and the lock is released")
def _(quorum):
    for word in ("no-such-program", "/no/such/program", "./no-such"):
        outcome = run(quorum, "--json", "k", word)
        equal(cause(outcome.expect(127, err="No such file")), "not_found", "cause")
    equal(quorum.keys(), 0, "keys left behind")


# --- extend, release ---

def token_of(quorum, *words):
    return redlock("acquire", *PATIENT, *Q, *words, "k", env=on(quorum)).expect(0).out.strip()


@case("extend and release: 0 done, then 1 gone")
def _(quorum):
    env = on(quorum, REDLOCK_TOKEN=token_of(quorum))
    redlock("extend", *PATIENT, "-t", "9s", "k", env=env).expect(0)
    check(all(server.call("PTTL", "k") > 6000 for server in quorum.servers), "not extended")
    redlock("release", *PATIENT, "k", env=env).expect(0)
    equal(quorum.keys(), 0, "keys after the release")
    redlock("release", *PATIENT, "k", env=env).expect(1)
    redlock("extend", "k", env=env).expect(1)
    equal(quorum.keys(), 0, "keys after an extension of nothing")


@case("extend and release: 2 where another has the lock, which stays")
def _(quorum):
    env = on(quorum, REDLOCK_TOKEN=token_of(quorum))
    for server in quorum.servers:
        server.call("SET", "k", "other@them", "PX", 60000)
    redlock("extend", "k", env=env).expect(2, err="held by .*them")
    redlock("release", *PATIENT, "k", env=env).expect(2, err="held by .*them")
    equal(quorum.values("k"), ["other@them"] * 5, "the other's lock")


@case("extend and release: 69 if too few nodes reply")
def _(quorum):
    env = on(quorum, REDLOCK_TOKEN=token_of(quorum))
    quorum.kill(0, 1, 2)
    redlock("extend", "k", env=env).expect(69)
    redlock("release", *PATIENT, "k", env=env).expect(69)
    equal(quorum.keys(), 0, "keys on the nodes that could be reached")


# --- status, break ---

@case("status: 0 held, 1 free, 2 split, 69 no quorum; it changes nothing")
def _(quorum):
    def status(code):
        before = quorum.values("k")
        outcome = redlock("status", "--timeout", "5s", "k", env=on(quorum))
        outcome.expect(code, err="^$" if code < 69 else None)
        equal(quorum.values("k"), before, "values after a status")
    status(1)
    quorum.occupy("k", [0, 1], "a")
    status(1)
    quorum.occupy("k", [2], "a")
    status(0)
    for server in quorum.servers:
        server.call("DEL", "k")
    quorum.occupy("k", [0, 1], "a")
    quorum.occupy("k", [2], "b")
    status(2)
    quorum.occupy("k", [3, 4], "b")
    status(0)
    quorum.kill(0, 1)
    status(0)
    quorum.kill(2)
    status(69)


@case("break: 0 also without a lock, 69 without a quorum, 64 without --yes")
def _(quorum):
    quorum.occupy("k")
    redlock("break", "k", env=on(quorum)).expect(64, err="--yes")
    equal(quorum.values("k"), ["foreign"] * 5, "values")
    redlock("break", *PATIENT, "--yes", "k", env=on(quorum)).expect(0, out=None)
    equal(quorum.keys(), 0, "keys after a break")
    redlock("break", "--yes", "k", env=on(quorum)).expect(0)
    quorum.kill(0, 1, 2)
    redlock("break", "--yes", "k", env=on(quorum)).expect(69)


# --- acquire ---

@case("acquire: 0, 75, -E, 69, 78, 64 as in run")
def _(quorum):
    env = on(quorum)
    redlock("acquire", "k", env=env).expect(0)
    redlock("acquire", "-n", "k", env=env).expect(75, out="")
    redlock("acquire", "-w", "150ms", "k", env=env).expect(75, out="")
    redlock("acquire", "-n", "-E", "7", "k", env=env).expect(7, out="")
    redlock("acquire", "k", "l", env=env).expect(64, out="")
    redlock("acquire", "k").expect(78, out="")
    quorum.kill(0, 1, 2)
    redlock("acquire", "-n", "other", env=env).expect(69, out="")


@case("acquire: a signal while it waits ends it by 128+n, and nothing stays on the nodes")
def _(quorum):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        quorum.reset()
        quorum.occupy("k", [0, 1, 2])
        before = quorum.attempts()
        process = lab.start("acquire", "k", env=on(quorum))
        lab.wait_for(lambda: quorum.attempts() > before, "an attempt")
        process.send_signal(number)
        lab.finish(process).expect(128 + number, out="")
        equal(quorum.values("k"), ["foreign"] * 3 + [None] * 2, "values")


@case("run: a signal while it waits ends it by 128+n, and the command never runs")
def _(quorum):
    quorum.occupy("k", [0, 1, 2])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        before = quorum.attempts()
        process = lab.start("run", "--json", "k", "echo", "ran", env=on(quorum))
        lab.wait_for(lambda: quorum.attempts() > before, "an attempt")
        process.send_signal(number)
        outcome = lab.finish(process).expect(128 + number, out="")
        equal(cause(outcome), "signalled", "cause")
        equal(quorum.values("k"), ["foreign"] * 3 + [None] * 2, "values")


# --- output that cannot be written ---

@case("125 if stdout is full: acquire releases the lock")
def _(quorum):
    for words in (("acquire", "k"), ("acquire", "--json", "k"), ("status", "k"), ("--help",),
                  ("break", "--yes", "k")):
        with open("/dev/full", "wb") as full:
            redlock(*words, env=on(quorum), stdout=full).expect(125, err="No space left")
        equal(quorum.keys(), 0, f"keys after {words}")


@case("125 if stdout is closed or its reader is gone: acquire releases the lock")
def _(quorum):
    reader, writer = os.pipe()
    os.close(reader)
    redlock("acquire", "k", env=on(quorum), stdout=writer).expect(125, err="Broken pipe")
    os.close(writer)
    equal(quorum.keys(), 0, "keys left behind")
    process = lab.spawn(["sh", "-c", 'exec "$0" acquire k >&-', lab.program],
                        env=lab.environment(on(quorum)), stderr=lab.subprocess.PIPE)
    lab.finish(process).expect(125)
    equal(quorum.keys(), 0, "keys left behind")


@case("64 for a missing command and an unknown one")
def _(quorum):
    redlock().expect(64, err="no command")
    redlock("bogus").expect(64, err="unknown command")


lab.main()

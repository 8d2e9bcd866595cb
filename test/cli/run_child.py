#!/usr/bin/env python3
"""redlock run and its command: what the command gets, which signals, and what it leaves behind."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import lab
from lab import PATIENT, case, check, equal, finish, matches, on, redlock


def run(quorum, *words, env=None, **more):
    return redlock("run", *words, env=on(quorum, **(env or {})), **more)


def start(quorum, *words, env=None, **more):
    return lab.start("run", *words, env=on(quorum, **(env or {})), **more)


def start_script(quorum, script, *words, **more):
    """Runs a shell script, which sees $ready, and waits until it created that file."""
    ready = lab.temporary("ready")
    process = start(quorum, *words, "k", "sh", "-c", script, env={"ready": ready}, **more)
    lab.wait_for(lambda: os.path.exists(ready) or process.poll() is not None, "the script")
    return process


def sockets(pid):
    """Of a process: what tells one of its sockets from another."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


# --- what the command gets ---

@case("the command has key, token, TTL and validity in its environment, while it is held")
def _(quorum):
    script = 'env; redis-cli -s "$0" GET some:key; redis-cli -s "$0" PTTL some:key'
    outcome = run(quorum, "-t", "100s", "some:key", "sh", "-c", script, quorum[0].path).expect(0)
    found = dict(re.findall(r"^(REDLOCK_\w+)=(.*)$", outcome.out, re.MULTILINE))
    value, left = outcome.out.split()[-2:]
    equal(found["REDLOCK_KEY"], "some:key", "key")
    equal(found["REDLOCK_TOKEN"], value, "token and what the node stores")
    equal(found["REDLOCK_TTL_MS"], "100000", "TTL")
    check(40000 < int(found["REDLOCK_VALID_MS"]) < 99000, f"validity {found['REDLOCK_VALID_MS']}")
    check(40000 < int(left) <= 100000, f"PTTL {left}")
    equal(quorum.keys(), 0, "keys after the end")


@case("systemd's sockets and its watchdog are for the command, by its own pid")
def _(quorum):
    def begin(pid):  # redlock has our pid at first, and then its own
        script = ("import os, sys; os.dup2(int(sys.argv.pop(1)), 3); "
                  f"os.environ['LISTEN_PID'] = os.environ['WATCHDOG_PID'] = str({pid}); "
                  "os.execv(sys.argv[1], sys.argv[1:])")
        command = ("echo $LISTEN_PID $WATCHDOG_PID $$ $LISTEN_FDS $LISTEN_FDNAMES; "
                   "readlink /proc/self/fd/3")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(lab.temporary("socket"))
            listening.listen()
            number = listening.fileno()
            name = os.readlink(f"/proc/self/fd/{number}")
            process = lab.spawn([sys.executable, "-c", script, str(number), lab.program, "run",
                                 "k", "--", "sh", "-c", command], pass_fds=(number,),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE,
                                env=lab.environment(on(quorum, LISTEN_FDS="1",
                                                       LISTEN_FDNAMES="web")))
            outcome = finish(process).expect(0)
        (listen, watchdog, own, fds, names), [inherited] = map(
            str.split, outcome.out.splitlines())
        equal((fds, names, inherited), ("1", "web", name), "files")
        return listen, watchdog, own
    listen, watchdog, own = begin("os.getpid()")
    equal((listen, watchdog), (own, own), "pids")
    listen, watchdog, own = begin("1")  # they are for another process
    equal((listen, watchdog), ("1", "1"), "pids of another process")


@case("no process can be made for the command: 125, and that is what is said")
def _(quorum):
    env = lab.keeper_shim(SHIM_NO_FORK="1")
    outcome = run(quorum, "--json", "k", "echo", "hello", env=env)
    outcome.expect(125, err="no process could be made for the command: Resource temp", out="")
    matches(outcome.err, '"cause":"failed"', "stderr")
    equal(quorum.keys(), 0, "keys")


@case("the environment of an outer lock is replaced")
def _(quorum):
    script = 'exec "$0" run inner sh -c "echo \\$REDLOCK_KEY \\$REDLOCK_TOKEN"; '
    outcome = run(quorum, "outer", "sh", "-c", 'echo $REDLOCK_TOKEN; ' + script, lab.program)
    outer, key, inner = outcome.expect(0).out.split()
    equal(key, "inner", "key")
    check(inner != outer, "the same token twice")


@case("stdin, stdout and stderr are the command's; redlock prints nothing")
def _(quorum):
    outcome = run(quorum, "k", "sh", "-c", "cat; echo problem >&2", text="from\nstdin\n")
    outcome.expect(0, out="from\nstdin\n", err="^problem\n$")


@case("other descriptors are inherited too, and none of redlock's own")
def _(quorum):
    reader, writer = os.pipe()
    outcome = run(quorum, "k", "sh", "-c", f"echo hello >/dev/fd/{writer}; ls /dev/fd",
                  pass_fds=[writer]).expect(0)
    os.close(writer)
    equal(os.read(reader, 100), b"hello\n", "what came through the pipe")
    os.close(reader)
    extra = [fd for fd in map(int, outcome.out.split()) if fd > 3 and fd != writer]
    check(not extra, f"descriptors {outcome.out.split()}")


@case("arguments arrive unchanged, with and without --, and no shell reads them")
def _(quorum):
    words = ["a b", "$HOME", "*", "--", "-n", "", "'\""]
    for middle in (["k"], ["k", "--"], ["--", "k", "--"]):
        outcome = run(quorum, *middle, "printf", "[%s]", *words).expect(0)
        equal(outcome.out, "".join(f"[{word}]" for word in words), f"arguments after {middle}")
    run(quorum, "-t", "5s", "k", "echo", "-n", "-t").expect(0, out="-t")


@case("working directory, umask, nice level and ignored signals are inherited; masks too")
def _(quorum):
    path = os.path.dirname(lab.temporary("x"))
    script = "pwd; umask; nice; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    plain = subprocess.run(["sh", "-c", f"trap '' PIPE HUP; umask 027; exec nice -n 3 sh -c \"{script}\""],
                           cwd=path, capture_output=True, text=True, check=True).stdout
    locked = subprocess.run(["sh", "-c", "trap '' PIPE HUP; umask 027; exec nice -n 3 \"$0\" run k "
                             f"sh -c \"{script}\"", lab.program], cwd=path, capture_output=True,
                            text=True, check=True, env=lab.environment(on(quorum))).stdout
    equal(locked, plain, "what the command sees")


LISTENER = r"""
import os, signal, sys
def note(number, _):
    os.write(1, b"%d\n" % number)
    if number == signal.SIGUSR2:
        sys.exit(7)
for number in (1, 2, 3, 12):
    signal.signal(number, note)
open(os.environ["ready"], "w").close()
while True:
    signal.pause()
"""


@case("a signal that was ignored at the start (nohup, & in a script) neither ends the wait nor "
      "reaches the command")
def _(quorum):
    ready = lab.temporary("ready")
    quorum.occupy("k")
    before = quorum.attempts()
    process = lab.spawn(["sh", "-c", 'trap "" HUP INT QUIT; exec "$0" "$@"', lab.program, "run",
                         "k", sys.executable, "-S", "-c", LISTENER],
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        env=lab.environment(on(quorum, ready=ready)))
    lab.wait_for(lambda: quorum.attempts() > before, "an attempt")
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    for number in ignored:
        process.send_signal(number)
    quorum.reset()
    lab.wait_for(lambda: os.path.exists(ready) or process.poll() is not None, "the command")
    if process.poll() is not None:
        raise lab.Failed(f"a signal ended the wait: {finish(process)}")
    for number in (*ignored, signal.SIGUSR2):  # the kernel hands on the lower numbers first
        process.send_signal(number)
    finish(process).expect(7, out="12\n")


@case("own process group where stdin is no terminal")
def _(quorum):
    script = "import os; print(os.getpid() == os.getpgrp(), os.getpgrp() == int(os.sys.argv[1]))"
    group = str(os.getpgrp())
    run(quorum, "k", "python3", "-c", script, group).expect(0, out="True False\n")


# --- signals ---

@case("TERM INT HUP QUIT USR1 USR2 WINCH are sent to the command, once each")
def _(quorum):
    names = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH")
    script = "".join(f"trap 'echo {name}' {name}; " for name in names)
    out, end = lab.temporary("out"), lab.temporary("end")
    script += f"echo > $ready; until [ -e {end} ]; do sleep 0.01; done"
    with open(out, "wb") as file:
        process = start_script(quorum, script, stdout=file)
    for count, name in enumerate(names, 1):
        process.send_signal(getattr(signal, f"SIG{name}"))
        lab.wait_for(lambda: len(lab.read(out).split()) >= count, f"the trap of {name}")
    lab.write(end, "")
    finish(process).expect(0)
    equal(lab.read(out).split(), list(names), "signals")
    equal(quorum.keys(), 0, "keys left behind")


@case("a command that ends by a forwarded signal gives 128+n, and the lock is free")
def _(quorum):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        process = start_script(quorum, "echo > $ready; exec sleep 300")
        process.send_signal(number)
        finish(process).expect(128 + number)
        equal(quorum.keys(), 0, "keys left behind")


@case("signals reach the whole group: a shell's child too")
def _(quorum):
    out = lab.temporary("out")
    script = f"""(trap 'echo child >> {out}; exit' USR1; echo > $ready.child
                  while :; do sleep 0.01; done) &
        trap 'echo parent >> {out}' USR1
        until [ -e $ready.child ]; do sleep 0.01; done; echo > $ready; wait; wait"""
    process = start_script(quorum, script)
    process.send_signal(signal.SIGUSR1)
    finish(process).expect(0)
    equal(sorted(lab.read(out).split()), ["child", "parent"], "the processes that got it")


@case("a command that is stopped from outside stays stopped, and the lock is held all the while")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, "-t", "6s", "k", *lab.beat(path))
    [pid] = lab.wait_for_beats(path)
    os.kill(pid, signal.SIGSTOP)
    lab.wait_for(lambda: lab.state(pid) == "T", "the command to stop")
    first = quorum.expires_us("k")
    while quorum.expires_us("k") < first + 3000000:
        equal(lab.state(pid), "T", "state of the command")
        check(None not in quorum.values("k"), "the lock was lost while the command was stopped")
    last = lab.beats(path)[pid]
    os.kill(pid, signal.SIGCONT)
    lab.wait_for(lambda: lab.beats(path)[pid] > last, "another sign of life")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)


@case("a command that stops and, continued, ends at once: its end is noticed")
def _(quorum):
    for _ in range(25):
        process = start(quorum, "k", "sh", "-c", "kill -STOP $$; exit 3")
        [pid] = lab.wait_for(lambda: lab.named(lab.marked(), "^sh -c kill -STOP"), "the command")
        lab.wait_for(lambda: lab.state(pid) == "T", "the command to stop")
        os.kill(pid, signal.SIGCONT)
        finish(process).expect(3)


@case("a command that is stopped and whose lock is lost is dead at the deadline")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, "-t", "1s", "k", *lab.beat(path))
    [pid] = lab.wait_for_beats(path)
    os.kill(pid, signal.SIGSTOP)
    quorum.kill(0, 1, 2)
    finish(process).expect(124)
    check(not lab.is_alive(pid), "it is alive")


# --- what it leaves behind ---

@case("children in the command's group are killed when it ends, before the lock is free")
def _(quorum):
    path = lab.temporary("beats")
    command = " ".join(f"'{word}'" for word in lab.beat(path))
    script = f"{command} & (setsid true; {command}) & until [ $(cut -d' ' -f1 {path} | " \
             "sort -u | wc -l) -ge 2 ]; do sleep 0.02; done 2>/dev/null"
    run(quorum, "k", "sh", "-c", script).expect(0)
    ended = lab.now_us()
    check(not lab.marked(), f"left: {lab.marked()}")
    check(all(last < ended for last in lab.beats(path).values()), "signs of life after the end")
    equal(quorum.keys(), 0, "keys")


@case("`sleep 999 & sleep 999`, TERM to redlock: no descendant remains, the lock is free")
def _(quorum):
    process = start(quorum, "k", "sh", "-c", "sleep 999 & sleep 999")
    lab.wait_for(lambda: len(lab.named(lab.marked(), "^sleep 999")) == 2, "both children")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)
    check(not lab.marked(), f"left: {lab.marked()}")
    equal(quorum.keys(), 0, "keys")


# --- time ---

@case("the lock is extended while the command runs for longer than the TTL")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, "-t", "6s", "k", *lab.beat(path))
    [pid] = lab.wait_for_beats(path)
    token = quorum.values("k")
    first = quorum.expires_us("k")
    while lab.now_us() < first + 1000000:
        equal(quorum.values("k"), token, "values while it runs")
        redlock("acquire", "-n", *PATIENT, "k", env=on(quorum)).expect(75)
    lab.wait_for(lambda: lab.beats(path)[pid] > first + 1000000, "a sign of life")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)
    equal(quorum.keys(), 0, "keys")


@case("the lock is extended while two of five nodes are dead, and while one came back")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, "-t", "6s", "k", *lab.beat(path))
    lab.wait_for_beats(path)
    quorum.kill(0, 1)
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first + 1500000, "extensions")
    quorum[0].start()
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first + 1500000, "more extensions")
    process.terminate()
    finish(process).expect(128 + signal.SIGTERM)
    equal(quorum.keys(), 0, "keys")


@case("--at-least keeps the lock when the command is quicker, to the end of its TTL at most")
def _(quorum):
    begun = lab.now_us()
    outcome = run(quorum, "-t", "20m", "--at-least", "10m", "k", "true").expect(0, err="^$")
    check(outcome.seconds < 60, f"redlock itself waited {outcome.seconds} s")
    check(None not in quorum.values("k"), "the lock was given back")
    free = quorum.expires_us("k")
    check(begun + 600000000 <= free, f"free after {free - begun} us")
    check(free <= lab.now_us() + 1200000000, f"free {free - begun} us after the beginning")
    run(quorum, "-n", "k", "true").expect(75)
    begun = lab.now_us()
    run(quorum, "-t", "5s", "--at-least", "1500ms", "short", "true").expect(0, err="^$")
    run(quorum, "-w", "20s", "short", "true").expect(0)
    check(lab.now_us() >= begun + 1500000, "another client had it too early")


@case("--at-least that is shorter than the command, or longer than the TTL")
def _(quorum):
    run(quorum, "--at-least", "10ms", "k", "sleep", "0.1").expect(0)
    equal(quorum.keys(), 0, "keys")
    begun = lab.now_us()
    run(quorum, "-t", "300ms", "--at-least", "20s", "k", "true").expect(0)
    check(quorum.expires_us("k") >= begun + 20000000, "the lock is free too early")
    check(quorum.expires_us("k") <= lab.now_us() + 21000000, "the lock is free too late")


@case("--at-least, and nodes that do not reply for a while when the command ends")
def _(quorum):
    stopped = quorum.servers[:3]
    stop = "kill -STOP " + " ".join(str(server.process.pid) for server in stopped)
    process = start(quorum, "--timeout", "300ms", "--at-least", "10m", "-t", "2m", "k",
                    "sh", "-c", stop)
    lab.wait_for(lambda: {lab.state(server.process.pid) for server in stopped} == {"T"},
                 "servers that stand still")
    before = sockets(process.pid)
    lab.wait_for(lambda: sockets(process.pid) - before or process.poll() is not None,
                 "a connection that was given up, after the first attempt")
    for server in stopped:
        server.go_on()
    finish(process).expect(0, err="^$")
    check(quorum.expires_us("k") > lab.now_us() + 400000000, "it is not kept for so long")


@case("--at-least also when the command fails, not when it was never run")
def _(quorum):
    run(quorum, "--at-least", "20s", "k", "false").expect(1)
    check(None not in quorum.values("k"), "the lock was given back")
    quorum.reset()
    run(quorum, "--at-least", "20s", "k", "no-such-program").expect(127)
    equal(quorum.keys(), 0, "keys")


@case("-q prints nothing; -v prints each node's reply; the command's output is unchanged")
def _(quorum):
    quorum.occupy("taken")
    run(quorum, "-q", "-n", "taken", "true").expect(75, err="^$", out="")
    outcome = run(quorum, "-v", "k", "echo", "x").expect(0, out="x\n")
    told = re.findall(r"^redlock: unix:\S+: (\w+)", outcome.err, re.MULTILINE)
    equal(len(told), 5, "nodes told")
    check(told.count("granted") >= 3, f"verdicts {told}")


lab.main()

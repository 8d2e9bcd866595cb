#!/usr/bin/env python3
"""redlock run and what its command leaves behind: all of it ends before the lock is free."""
import errno
import os
import shlex
import shutil
import signal
import subprocess
import sys

import lab
from lab import case, check, equal, finish, on, redlock

NOBODY = 65534


def start(quorum, script, *words, env=None, **more):
    return lab.start("run", *words, "k", "sh", "-c", script, env=on(quorum, **(env or {})), **more)


def beat(path):
    return shlex.join(lab.beat(path))


def until_beats(path, count=1):
    """Shell code that waits for signs of life of this many processes."""
    return f"until [ $(cut -d' ' -f1 {path} 2>/dev/null | sort -u | wc -l) -ge {count} ]; do sleep 0.02; done"


def free_since(quorum):
    """When the last node was seen to store nothing."""
    lab.wait_for(lambda: quorum.keys() == 0, "the release", 30)
    return lab.now_us()


def died_before(path, free, count=1):
    """Waits a moment for a sign of life that must not come."""
    last = lab.beats(path)
    equal(len(last), count, "processes that showed signs of life")
    check(not lab.named(lab.marked(), r"beat\.py"), f"left: {lab.marked()}")
    check(max(last.values()) < free, f"alive {max(last.values()) - free} us after the release")


# The ways in which a worker gets a process group or a session that is not the command's.
AWAY = {
    "timeout(1)": "timeout 300 {}",
    "bash -m": "exec bash -c 'set -m; {} & wait'",
    "setsid(1)": "setsid {} & wait",
    "setsid(1), an orphan": "(setsid {} &) & while :; do sleep 0.05; done",
}


@case("TERM to redlock: a worker in a group or session of its own is dead before the lock is free")
def _(quorum):
    for name, script in AWAY.items():
        path = lab.temporary("beats")
        process = start(quorum, script.format(beat(path)))
        lab.wait_for_beats(path)
        process.terminate()
        free = free_since(quorum)
        finish(process).expect(128 + signal.SIGTERM)
        died_before(path, free)
        check(not lab.marked(), f"left by {name}: {lab.marked()}")


@case("the command ends with 0: what it leaves in other groups and sessions is dead before that, too")
def _(quorum):
    path = lab.temporary("beats")
    script = (f"timeout 300 {beat(path)} & (setsid {beat(path)} >/dev/null 2>&1 &) ; {beat(path)} & "
              + until_beats(path, 3))
    process = start(quorum, script)
    lab.wait_for_beats(path, 3)
    free = free_since(quorum)
    finish(process).expect(0, err="^$")
    died_before(path, free, 3)


@case("what is left gets TERM first, also if it is stopped, and the lock is held until it has ended")
def _(quorum):
    ready, heard, end = lab.temporary("ready"), lab.temporary("heard"), lab.temporary("end")
    worker = (f"trap 'echo > {heard}; until [ -e {end} ]; do sleep 0.02; done; exit' TERM; "
              f"echo > {ready}; kill -STOP $$; while :; do sleep 0.02; done")
    process = start(quorum, f"setsid sh -c {shlex.quote(worker)} & until [ -e {ready} ]; do sleep 0.02; done",
                    "-t", "30s")
    lab.wait_for(lambda: os.path.exists(heard), "TERM at the worker")
    check(None not in quorum.values("k"), "the lock ended before the worker")
    check(process.poll() is None, "redlock has ended before the worker")
    lab.write(end, "")
    finish(process).expect(0)
    equal(quorum.keys(), 0, "keys")


@case("a process whose parent ends at TERM, before its own turn, gets TERM, too")
def _(quorum):
    heard = lab.temporary("heard")
    worker = f"trap 'echo >{heard}; exit' TERM; echo >{heard}.ready; while :; do sleep 0.02; done"
    script = (f"(sh -c {shlex.quote(worker)} & wait) & "
              f"until [ -e {heard}.ready ]; do sleep 0.02; done")
    process = start(quorum, script, "--kill-after", "1h", env=lab.keeper_shim(SHIM_LATE_PIDFD="1"))
    finish(process).expect(0, err="^$")
    check(os.path.exists(heard), "the worker got no TERM")


@case("a process that ignores TERM gets KILL after --kill-after; the lock is extended all the while")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, f"(trap '' TERM; exec setsid {beat(path)}) & " + until_beats(path),
                    "-t", "4s", "--kill-after", "1s")
    [pid] = lab.wait_for_beats(path)
    free = free_since(quorum)
    finish(process).expect(0)
    died_before(path, free)
    check(not lab.is_alive(pid), "it is alive")


@case("the lock is lost while what is left has time to end: it is killed at the deadline")
def _(quorum):
    path = lab.temporary("beats")
    gone = lab.temporary("gone")
    process = start(quorum, f"(trap '' TERM; exec setsid {beat(path)}) & " + until_beats(path)
                    + f"; echo > {gone}", "-t", "6s", "--kill-after", "1500ms")
    lab.wait_for(lambda: os.path.exists(gone), "the end of the command")
    process.send_signal(signal.SIGSTOP)
    free = quorum.expires_us("k")
    quorum.kill(0, 1, 2)
    process.send_signal(signal.SIGCONT)
    finish(process).expect(0)
    died_before(path, free)


@case("--spare-daemons: a process that called setsid continues after the release, and nothing else")
def _(quorum):
    path, others = lab.temporary("beats"), lab.temporary("others")
    # a daemon that has a child from the time before it called setsid
    daemon = f"""
import os, subprocess
if os.fork():
    os._exit(0)
subprocess.Popen({lab.beat(others)!r})
os.setsid()
os.execv({sys.executable!r}, {lab.beat(path)!r})
"""
    script = (f"{shlex.join([sys.executable, '-c', daemon])} >/dev/null 2>&1; "
              f"timeout 300 {beat(others)} & {until_beats(path)}; {until_beats(others, 2)}")
    process = start(quorum, script, "--spare-daemons")
    lab.wait_for_beats(path)
    free = free_since(quorum)
    finish(process).expect(0, err="^$")
    check(max(lab.beats(others).values()) < free, "others than the daemon after the release")
    [pid] = lab.named(lab.marked(), r"beat\.py")
    last = lab.beats(path)[pid]
    lab.wait_for(lambda: lab.beats(path)[pid] > last, "a sign of life after the end")
    os.kill(pid, signal.SIGKILL)
    lab.nothing_is_left()


@case("the end of the command leaves no zombie to the process that reaps orphans")
def _(quorum):
    subreaper = 36  # PR_SET_CHILD_SUBREAPER
    lab.libc.prctl(subreaper, 1)
    try:
        redlock("run", "k", "sh", "-c", "sleep 300 &", env=on(quorum)).expect(0)
        equal(os.waitpid(-1, os.WNOHANG)[0], 0, "a child that was reparented to this process")
    finally:
        lab.libc.prctl(subreaper, 0)


@case("a process that may not be signalled: its pid is printed, the lock is left to its TTL")
def _(quorum):
    if os.getuid() != 0:
        lab.say("skipped: only root can make a program of another user")
        return
    program = shutil.copy(shutil.which("setpriv"), lab.temporary("setpriv"))
    os.chmod(program, 0o4755)
    nodes = ",".join(f"redis://127.0.0.1:{server.listen()}" for server in quorum.servers)
    for path in (lab.folder, os.path.dirname(program)):
        os.chmod(path, 0o755)
    ready = os.path.join(lab.folder, f"ready-{os.getpid()}")
    os.close(os.open(ready, os.O_CREAT, 0o600))
    os.chown(ready, NOBODY, NOBODY)
    script = f"{program} --reuid=0 sh -c 'echo $$ > {ready}; exec sleep 300' >/dev/null 2>&1 & until [ -s {ready} ]; do sleep 0.02; done"
    words = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", lab.program, "run", "-t", "30s",
             "--kill-after", "200ms", "k", "sh", "-c", script]
    if subprocess.run(words[:3] + [lab.program, "--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        lab.say("skipped: others may not read the program")
        return
    env = lab.environment({"REDLOCK_NODES": nodes})
    process = lab.spawn(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE)
    outcome = finish(process)
    [pid] = map(int, lab.read(ready).split())
    os.unlink(ready)
    outcome.expect(0, err=rf"could be killed: pid {pid}; the lock is left to its TTL")
    check(lab.is_alive(pid), "it could be signalled after all")
    check(None not in quorum.values("k"), "the lock was given back")
    os.kill(pid, signal.SIGKILL)
    lab.nothing_is_left()


# --- kernels and containers that show less ---

@case("without lists of children: all processes are searched, and all that is left is found")
def _(quorum):
    path = lab.temporary("beats")
    script = (f"timeout 300 {beat(path)} & (setsid {beat(path)} >/dev/null 2>&1 &) ; "
              + until_beats(path, 2))
    process = start(quorum, script, env=lab.keeper_shim(SHIM_NO_LISTS=str(errno.ENOENT)))
    lab.wait_for_beats(path)
    free = free_since(quorum)
    finish(process).expect(0, err="^$")
    died_before(path, free, 2)
    redlock("run", "k", "true", env=on(quorum, **lab.keeper_shim(SHIM_NO_LISTS=str(errno.ENOENT)))).expect(0, err="^$")


@case("lists of children that cannot be read, for lack of descriptors: nothing is taken for "
      "the end of all, and the lock is left to its TTL")
def _(quorum):
    path = lab.temporary("beats")
    process = start(quorum, f"setsid {beat(path)} >/dev/null 2>&1 & " + until_beats(path), "-t", "30s",
                    env=lab.keeper_shim(SHIM_NO_LISTS=str(errno.EMFILE)))
    finish(process).expect(0, err="the lock is left to its TTL")
    check(None not in quorum.values("k"), "the lock was given back")
    [pid] = lab.named(lab.marked(), r"beat\.py")
    os.kill(pid, signal.SIGKILL)
    lab.nothing_is_left()


@case("a pid namespace without a /proc of its own: a warning names what cannot be "
      "guaranteed, and processes that cannot be found prevent the release")
def _(quorum):
    env = lab.keeper_shim(SHIM_NO_PROC="1")
    said = "/proc does not show this pid namespace"
    redlock("run", "k", "true", env=on(quorum, **env)).expect(0, err=said)
    equal(quorum.keys(), 0, "keys after a command that leaves nothing")
    path = lab.temporary("beats")
    outcome = finish(start(quorum, f"sleep 300 & {beat(path)} & " + until_beats(path), env=env))
    outcome.expect(0, err=said)
    equal(quorum.keys(), 0, "keys after a command whose group was killed")
    process = start(quorum, f"setsid {beat(path)} >/dev/null 2>&1 & " + until_beats(path), "-t", "30s", env=env)
    finish(process).expect(0, err="the lock is left to its TTL")
    check(None not in quorum.values("k"), "the lock was given back")
    [pid] = lab.named(lab.marked(), r"beat\.py")
    os.kill(pid, signal.SIGKILL)
    lab.nothing_is_left()


lab.main()

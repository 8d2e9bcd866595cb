#!/usr/bin/env python3
"""redlock local: real servers for a command, and nothing left of them, however it ends."""
import os
import re
import signal
import subprocess

import lab
from lab import case, check, equal, finish, matches, redlock, start
from redis_server import need_tls

COUNT_KEYS = 'for n in $(echo "$REDLOCK_NODES" | tr , " "); do redis-cli -s "${n#unix://}" PING; done'


def local(*words, **more):
    return redlock("local", *words, **more)


def folders():
    return [name for name in os.listdir(lab.folder) if name.startswith("redlock-")]


def nothing_is_left():
    lab.nothing_is_left()
    lab.wait_for(lambda: not folders(), f"the removal of the folder: {folders()}")


def begin(*words, **more):
    """A `redlock local` whose command runs: its process, and the command's nodes."""
    path = lab.temporary("nodes")
    script = f'echo "$REDLOCK_NODES" > {path}.new; mv {path}.new {path}; exec sleep 300'
    process = start("local", *words, "--", "sh", "-c", script, **more)
    lab.wait_for(lambda: os.path.exists(path) or process.poll() is not None, "the command")
    check(process.poll() is None, "it ended at once")
    return process, lab.read(path).strip().split(",")


@case("the command has five reachable nodes, and its folder")
def _():
    script = f'{COUNT_KEYS}; ls "$REDLOCK_LOCAL_DIR"/*.conf | wc -l'
    local("-n", "5", "--", "sh", "-c", script).expect(0, out="PONG\n" * 5 + "5\n", err="^$")
    local("--", "sh", "-c", COUNT_KEYS).expect(0, out="PONG\n" * 5)
    nothing_is_left()


@case("the command's exit code comes through")
def _():
    for code in (0, 1, 75, 255):
        local("-n", "1", "--", "sh", "-c", f"exit {code}").expect(code)
    local("-n", "1", "sh", "-c", "kill -KILL $$").expect(128 + signal.SIGKILL)
    nothing_is_left()


@case("from 1 to 32 servers, and no other number")
def _():
    for count in (1, 32):
        local("-n", str(count), "--", "sh", "-c", COUNT_KEYS).expect(0, out="PONG\n" * count)
    for text in ("0", "33", "-1", "x", "", "99999999999999999999"):
        outcome = local("-n", text, "--", "echo", "ran").expect(64, out="")
        equal(outcome.err.count("\n"), 1, f"lines on stderr of {outcome}")
    nothing_is_left()


@case("redlock runs in it: acquire, status, release")
def _():
    script = 't=$("$0" acquire --timeout 5s k) && "$0" status k && REDLOCK_TOKEN=$t "$0" release k; "$0" status k'
    local("--", "sh", "-c", script, lab.program).expect(1, out=None)
    nothing_is_left()


@case("stdin is the command's")
def _():
    local("-n", "1", "cat", text="from stdin").expect(0, out="from stdin")


@case("the secrets and the configuration of other servers do not reach the command")
def _():
    env = {"REDLOCK_PASSWORD": "secret", "REDLOCK_CONFIG": "/nowhere", "REDLOCK_USERNAME": "me",
           "REDLOCK_PASSWORD_FILE": "/nowhere", "REDLOCK_NODES": "redis://elsewhere"}
    outcome = local("-n", "1", "--", "env", env=env).expect(0)
    names = sorted(re.findall(r"^(REDLOCK_\w+)=", outcome.out, re.MULTILINE))
    equal(names, ["REDLOCK_CONFIG", "REDLOCK_LOCAL_DIR", "REDLOCK_NODES"],
          "names in the command's environment")
    matches(outcome.out, r"REDLOCK_NODES=unix:///", "nodes")
    matches(outcome.out, r"REDLOCK_CONFIG=/dev/null", "no file, not even /etc/redlock.conf")


@case("a command that is killed leaves nothing")
def _():
    process, _ = begin()
    [sleeper] = lab.wait_for(lambda: lab.named(lab.marked(), "^sleep 300"), "the command")
    os.kill(sleeper, signal.SIGKILL)
    finish(process).expect(128 + signal.SIGKILL)
    nothing_is_left()


@case("TERM, INT and HUP are sent to the command, and nothing is left")
def _():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process, _ = begin("-n", "2")
        process.send_signal(number)
        finish(process).expect(128 + number)
        nothing_is_left()


@case("redlock local is killed: nothing is left")
def _():
    process, nodes = begin()
    equal(len(lab.named(lab.marked(), "redis-server|valkey-server")), 5, "servers")
    process.kill()
    finish(process).expect(-signal.SIGKILL)
    nothing_is_left()
    check(not any(os.path.exists(node.removeprefix("unix://")) for node in nodes), "sockets")


@case("its keeper is killed: nothing is left, 125")
def _():
    process, _ = begin()
    [keeper] = lab.named(lab.marked(), "^lock-keeper")
    os.kill(keeper, signal.SIGKILL)
    finish(process).expect(125, err="keeper")
    nothing_is_left()


@case("a command that ignores TERM, and descendants that detached: nothing is left")
def _():
    path = lab.temporary("ready")
    script = f"""trap "" TERM HUP INT
        setsid sh -c 'trap "" TERM; sleep 301 & exec sleep 302' &
        (sleep 303 &)
        echo > {path}; while :; do sleep 0.05; done"""
    for end in ("kill", "end"):
        process = start("local", "-n", "2", "--", "sh", "-c", script)
        lab.wait_for(lambda: len(lab.named(lab.marked(), "^sleep 30[123]")) == 3
                     and os.path.exists(path), "the command")
        if end == "kill":
            process.kill()
        else:
            [shell] = [pid for pid in lab.named(lab.marked(), "^sh -c trap")
                       if os.getpgid(pid) == pid and "setsid" in lab.marked()[pid]]
            os.kill(shell, signal.SIGKILL)
        finish(process).expect(-signal.SIGKILL if end == "kill" else 128 + signal.SIGKILL)
        nothing_is_left()


@case("servers that the command started again, also as daemons, are gone too")
def _():
    script = """cd "$REDLOCK_LOCAL_DIR"
        for i in 1 2; do
          redis-cli -s $i.sock SHUTDOWN NOSAVE
          while redis-cli -s $i.sock PING 2>/dev/null; do sleep 0.01; done
        done
        redis-server 1.conf &
        redis-server 2.conf --daemonize yes
        for i in 1 2; do until redis-cli -s $i.sock PING 2>/dev/null; do sleep 0.01; done; done
        """
    local("-n", "3", "--", "sh", "-c", script).expect(0, out="PONG\nPONG\n")
    nothing_is_left()
    path = lab.temporary("ready")
    process = start("local", "-n", "3", "--", "sh", "-c", f"{script} touch {path}; sleep 300")
    lab.wait_for(lambda: os.path.exists(path), "the servers")
    process.kill()
    process.communicate()
    nothing_is_left()


@case("files that the command created in the folder are removed; the targets of links stay")
def _():
    kept = lab.write(lab.temporary("kept"), "kept")
    script = ('cd "$REDLOCK_LOCAL_DIR" && mkdir -p a/b && echo > a/b/c && ln -s "$0" link && '
              'ln -s "$1" folder')
    local("-n", "1", "--", "sh", "-c", script, kept, os.path.dirname(kept)).expect(0)
    nothing_is_left()
    equal(lab.read(kept), "kept", "what the link pointed to")


@case("without a command: prints the nodes' variables, stays, and ends with 0 by a signal")
def _():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process = start("local", "-n", "3")
        first = process.stdout.readline().decode()
        matches(first, r"^export REDLOCK_NODES=(unix:///[\w/.-]+,?){3}\n$", "first line")
        matches(process.stdout.readline().decode(), r"^export REDLOCK_LOCAL_DIR=/\S+\n$", "second")
        nodes = first.removeprefix("export REDLOCK_NODES=").strip()
        redlock("acquire", *lab.PATIENT, "k", env={"REDLOCK_NODES": nodes}).expect(0)
        process.send_signal(number)
        finish(process).expect(0, out="", err="3 servers run")
        nothing_is_left()


@case("without a command, killed: nothing is left; --json says it as an object")
def _():
    process = start("local", "--json", "-n", "1")
    said = lab.parsed(process.stdout.readline())
    equal(said["schema"], "redlock.local/1", "schema")
    check(os.path.isdir(said["folder"]) and said["nodes"][0]["uri"].startswith("unix://"), f"{said}")
    process.kill()
    process.communicate()
    nothing_is_left()


@case("126 and 127 for the command, 127 where no server is installed")
def _():
    local("-n", "1", "--", "/").expect(126)
    local("-n", "1", "--", "no-such-program").expect(127, err="no-such-program")
    local("--", "true", env={"PATH": "/nowhere"}).expect(127, err="redis-server")
    nothing_is_left()


@case("--tls: the command locks by TLS with the files that it is told")
def _():
    script = 'case $REDLOCK_NODES in rediss://*) redlock run --fence k true;; esac && ' \
             'ls "$REDLOCK_CACERT" "$REDLOCK_CERT" "$REDLOCK_CERT_KEY" | wc -l'
    path = f"{os.path.dirname(lab.program)}:{os.environ['PATH']}"
    need_tls()
    local("-n", "3", "--tls", "--", "sh", "-c", script, env={"PATH": path}).expect(0, out="3\n")
    process = start("local", "--json", "-n", "1", "--tls")
    said = lab.parsed(process.stdout.readline())
    check(said["nodes"][0]["uri"].startswith("rediss://127.0.0.1:"), f"{said}")
    for name in ("cacert", "cert", "key"):
        check(os.path.dirname(said[name]) == said["folder"], f"{said}")
    process.terminate()
    process.communicate()
    nothing_is_left()


@case("a server that ends at once: 125, its last words, and nothing is left")
def _():
    tools = os.path.dirname(lab.temporary("x"))
    lab.write(os.path.join(tools, "redis-server"), "#!/bin/sh\necho 'no luck today'\n", 0o755)
    outcome = local("-n", "2", "--", "echo", "ran", env={"PATH": tools}).expect(125, out="")
    matches(outcome.err, r"^redlock: [^\n]*no luck today\n$", "stderr")
    nothing_is_left()


@case("a TMPDIR that is missing, too long or odd: 125 and one line")
def _():
    long = os.path.join(lab.folder, "x" * 90)
    odd = os.path.join(lab.folder, "a b")
    os.mkdir(long)
    os.mkdir(odd)
    for path in ("/no/such/folder", long, odd):
        outcome = local("--", "echo", "ran", env={"TMPDIR": path}).expect(125, out="")
        equal(outcome.err.count("\n"), 1, f"lines on stderr of {outcome}")


@case("a signal while the servers start: nothing is left")
def _():
    for seconds in (0, 0.01, 0.03, 0.06):
        process = start("local", "-n", "8", "--", "sleep", "300")
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        process.terminate()
        check(finish(process).code in (128 + signal.SIGTERM, -signal.SIGTERM), "exit code")
        nothing_is_left()


@case("several at once do not conflict")
def _():
    several = [start("local", "-n", "2", "--", "sh", "-c",
                     '"$0" acquire --timeout 5s -n k && sleep 0.2 && echo "$REDLOCK_NODES"', lab.program)
               for _ in range(4)]
    nodes = [finish(process).expect(0).out.splitlines()[-1] for process in several]
    equal(len(set(nodes)), 4, "different nodes")
    nothing_is_left()


@case("the servers are admitted: fenced locks at once, up to --max-ttl")
def _():
    inner = f'"{lab.program}" run --timeout 5s -n -t "$0" --fence k -- sh -c "echo \\$REDLOCK_FENCE"'
    for count in ("1", "5"):
        fence = redlock("local", "-n", count, "--", "sh", "-c", inner, "5s").expect(0, err="^$").out
        check(int(fence) > 10**15, f"the fence {fence}")
    longest = ("local", "--max-ttl", "2s", "--", "sh", "-c", inner)
    redlock(*longest, "2s").expect(0, err="^$")
    redlock(*longest, "3s").expect(64, err="--ttl 3.0 s is longer", out="")
    redlock("local", "--max-ttl", "48h", "--", "true").expect(125, err="--max-ttl is 48 h 0 min, and must be at most 24 h 0 min", out="")


lab.main(servers=0)

#!/usr/bin/env python3
"""What is printed where: results on stdout, all else on stderr, and JSON for programs."""
import json
import re
import subprocess

import lab
from lab import PATIENT, case, check, equal, matches, on, redlock


def check_object(found, command, nodes=5):
    """Checks the schema, which lab.py has validated, numbers, and how many nodes there are."""
    equal(found["schema"], f"redlock.{command}/1", "schema")
    lab.check_numbers(found, found)
    equal(len(found["nodes"]), nodes, "nodes")
    return found


TOKEN = "p" + "a" * 32 + "@someone"  # in the command's format


@case("acquire --json: the contents of a token file, a cause and the nodes; the same when refused")
def _(quorum):
    def acquire(code, cause, *words):
        found = redlock("acquire", "--json", *PATIENT, *words, "k",
                        env=on(quorum)).expect(code).json()
        equal(check_object(found, "acquire")["cause"], cause, "cause")
        return found
    held = acquire(0, "ok", "-t", "20s")
    equal(quorum.values("k"), [held["token"]] * 5, "token")
    check(19000 < held["valid_ms"] < 20000, f"valid_ms {held['valid_ms']}")
    refused = acquire(75, "taken", "-n")
    equal(refused["holder"], held["token"].partition("@")[2], "holder")
    check(15000 < refused["remaining_ms"] <= 20000, f"remaining_ms {refused['remaining_ms']}")
    acquire(75, "timeout", "-w", "50ms")
    quorum.kill(0, 1, 2)
    acquire(69, "no_quorum", "-n")


@case("extend and release --json: ok, gone, taken, no_quorum, unconfirmed")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()

    def call(command, code, cause):
        found = redlock(command, "--json", *PATIENT, "k", env=on(quorum, REDLOCK_TOKEN=token))
        found = check_object(found.expect(code).json(), command)
        equal(found["cause"], cause, "cause")
    call("extend", 0, "ok")
    call("release", 0, "ok")
    call("extend", 1, "gone")
    call("release", 1, "gone")
    quorum.occupy("k")
    call("extend", 2, "taken")
    call("release", 2, "taken")
    quorum.kill(0, 1, 2)
    call("extend", 69, "no_quorum")
    call("release", 69, "unconfirmed")


@case("status --json: held, free, split, no_quorum, with the time of day")
def _(quorum):
    def status(code, state):
        found = redlock("status", "--json", *PATIENT, "k", env=on(quorum)).expect(code).json()
        equal(check_object(found, "status")["state"], state, "state")
        return found
    status(1, "free")
    quorum.occupy("k", [0, 1, 2], TOKEN, ms=50000)
    found = status(0, "held")
    equal([found["holder"], found["agreeing"], found["held"], found["free"]],
          ["someone", 3, 3, 2], "counts")
    check(40000 < found["remaining_ms"] <= 50000, f"remaining_ms {found['remaining_ms']}")
    quorum[0].call("SET", "k", "other")
    status(2, "split")
    quorum.kill(0, 1, 2)
    status(69, "no_quorum")


@case("break --json: the former holder, and the cause")
def _(quorum):
    quorum.occupy("k", value=TOKEN)
    found = redlock("break", "--json", *PATIENT, "--yes", "k", env=on(quorum)).expect(0).json()
    check_object(found, "break")
    equal([found["holder"], found["held"], found["cause"]], ["someone", 5, "ok"], "the former value")
    quorum.kill(0, 1, 2)
    found = redlock("break", "--json", "--yes", "k", env=on(quorum)).expect(69).json()
    equal(check_object(found, "break")["cause"], "no_quorum", "cause")


@case("run --json: one object on stderr, for every end; stdout is the command's")
def _(quorum):
    def run(code, cause, *words):
        outcome = redlock("run", "--json", *words, env=on(quorum)).expect(code)
        found = json.loads(outcome.err.splitlines()[-1])
        check_object(found, "run")
        equal([found["cause"], found["exit"]], [cause, code], "cause and exit")
        return outcome.out
    equal(run(0, "child", "k", "echo", "{}"), "{}\n", "stdout")
    run(3, "child", "k", "sh", "-c", "exit 3")
    run(137, "signalled", "k", "sh", "-c", "kill -9 $$")
    run(127, "not_found", "k", "no-such-program")
    run(126, "cannot_execute", "k", "/")
    quorum.occupy("k")
    run(75, "taken", "-n", "k", "true")
    run(75, "timeout", "-w", "20ms", "k", "true")
    quorum.kill(0, 1, 2)
    run(69, "no_quorum", "-n", "k", "true")


@case("causes of nodes that refuse: denied, with the fault of each")
def _(quorum):
    for server in quorum.servers[:3]:
        server.call("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-set", "-eval",
                    "-evalsha")
    for server in quorum.servers[3:]:
        server.call("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all")
    env = on(quorum, REDLOCK_USERNAME="limited", REDLOCK_PASSWORD="pw")
    found = redlock("acquire", "--json", "-n", "k", env=env).expect(77).json()
    check_object(found, "acquire")
    equal(found["cause"], "denied", "cause")
    equal([node["denied"] for node in found["nodes"]].count(True), 3, "nodes that refused")
    equal(quorum.keys(), 0, "keys")
    for server in quorum.servers:
        server.call("ACL", "DELUSER", "limited")


@case("the same texts without --json are printed to the right stream")
def _(quorum):
    outcome = redlock("acquire", "k", env=on(quorum)).expect(0, err="^$")
    matches(outcome.out, r"^\S+\n$", "stdout of acquire")
    token = outcome.out.strip()
    redlock("acquire", "-n", "k", env=on(quorum)).expect(75, out="", err=r"^redlock: [^\n]*\n$")
    outcome = redlock("status", "k", env=on(quorum)).expect(0, err="^$")
    equal(outcome.out.count("\n"), 6, "lines of status")
    redlock("release", "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(0, out="", err="^$")
    redlock("release", "k", env=on(quorum, REDLOCK_TOKEN=token)).expect(
        1, out="", err=r"^redlock: [^\n]*\n$")
    quorum.occupy("k", value=TOKEN)
    outcome = redlock("break", *PATIENT, "--yes", "k", env=on(quorum)).expect(0, err="^$")
    matches(outcome.out, r"someone was on 5 of them\n.* up to 3 min \d+ s,.* up to (10 min|9 min \d+) s?.*\n$",
            "stdout of break")


@case("-q: nothing on stderr, the same codes; -v: every node, on stderr only")
def _(quorum):
    quorum.occupy("k")
    for words, code in ((("acquire", "-n", "k"), 75), (("extend", "k"), 2), (("release", "k"), 2),
                        (("run", "-n", "k", "true"), 75)):
        env = on(quorum, REDLOCK_TOKEN="pother@me")
        redlock("-q", *PATIENT, *words, env=env).expect(code, out="", err="^$")
        outcome = redlock("-v", *PATIENT, *words, env=env).expect(code, out="")
        equal(len(re.findall(r"^redlock: unix://", outcome.err, re.MULTILINE)), 5, "nodes told")
    outcome = redlock("-v", "acquire", "free", env=on(quorum)).expect(0)
    equal(outcome.out.count("\n"), 1, "lines on stdout")


@case("keys and holders that are no UTF-8 or have control characters: still valid JSON")
def _(quorum):
    for key, value in ((b"\xff\xfe", b"\x80@\xffname"), (b"a\x01\"\\", b"x@\x1b[31m\"")):
        quorum.reset()
        quorum.occupy(key, value=value)
        found = redlock("status", "--json", key, env=on(quorum)).expect(0).json()
        check_object(found, "status")
        found = redlock("acquire", "--json", "-n", key, env=on(quorum)).expect(75).json()
        check_object(found, "acquire")


@case("status --watch: a line per change in a pipe, objects with --json, until TERM")
def _(quorum):
    for words in ([], ["--json"]):
        quorum.reset()
        process = lab.start("status", "--watch", *PATIENT, *words, "k", env=on(quorum))
        first = process.stdout.readline().decode()
        quorum.occupy("k", value=TOKEN)
        second = process.stdout.readline().decode()
        process.terminate()
        outcome = lab.finish(process)
        check(outcome.code in (0, 143), f"exit code {outcome.code}")
        equal(outcome.out, "", "more output")
        if words:
            equal([lab.parsed(line)["state"] for line in (first, second)], ["free", "held"], "states")
        else:
            matches(first, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ k: free on 5 of 5 nodes\n$", "first")
            matches(second, "k: held by someone", "second")


@case("--help, -h and --version: on stdout, 0; -h is the short one")
def _(quorum):
    matches(redlock("--version").expect(0, err="^$").out, r"^redlock \d+\.\d+\.\d+(-dev(\+g[0-9a-f]{7})?)?\n$", "version")
    listed = re.search(r"(?<=Commands:\n)(?:  .*\n)+", redlock("--help").out).group()
    commands = re.findall(r"^  (\w+)", listed, re.MULTILINE)
    check(len(commands) > 10, listed)
    for command in ("", *commands):
        words = [command] if command else []
        outcome = redlock(*words, "--help").expect(0, err="^$")
        matches(outcome.out, r"^Usage: redlock", f"help of {command}")
        brief = redlock(*words, "-h").expect(0, err="^$").out
        check(brief.count("\n") <= 40, f"-h of {command} has {brief.count(chr(10))} lines")
        own = outcome.out.partition("\nOptions of every")[0]
        option = re.compile(r"^ {2,6}(?:-\w, )?--.*$", re.MULTILINE)
        equal(option.findall(brief.partition("\nOptions of every")[0]), option.findall(own), "options")
        check("Example:" in brief or not command, f"no example: {brief}")
        for paragraph in brief.split("\n\n")[:-1]:
            check(paragraph in outcome.out, f"--help of {command} lacks: {paragraph}")
        equal(redlock("help", *words).expect(0).out, outcome.out, "help")
    matches(redlock("--help").out, r"run.*acquire.*extend.*release.*break.*status.*check.*bench.*local", "commands")


@case("closed standard descriptors are never reused for sockets")
def _(quorum):
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        process = lab.spawn(["sh", "-c", f'exec "$0" status k {closing}', lab.program],
                            env=lab.environment(on(quorum)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
        outcome = lab.finish(process)
        equal(outcome.code, 125 if ">&-" in closing.split()[:2] else 1, f"exit with {closing}")
    equal(quorum.keys(), 0, "keys")


lab.main()

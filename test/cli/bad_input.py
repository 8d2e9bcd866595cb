#!/usr/bin/env python3
"""Invalid arguments and configurations: one line on stderr, a code, and nothing is done."""
import os

import lab
from lab import case, check, equal, matches, on, redlock

COMMANDS = {
    "run": ("k", "true"), "acquire": ("k",), "extend": ("k",), "release": ("k",),
    "status": ("k",), "break": ("--yes", "k"),
}


def refused(code, err, *words, env=None, **more):
    """One line, nothing on stdout; returns the line."""
    outcome = redlock(*words, env=env, **more).expect(code, out="")
    matches(outcome.err, r"^redlock: [^\n]+\n$", f"one line on stderr of {words}")
    matches(outcome.err, err, f"stderr of {words}")
    return outcome.err


def each(quorum, *options, env=None):
    """Every command with these options, a token, and nodes."""
    for command, rest in COMMANDS.items():
        yield [command, *options, *rest], on(quorum, REDLOCK_TOKEN="pfoo@me", **(env or {}))


# Each is one call: its code, what it says, its words, and the environment besides the nodes.
ROWS = [
    (78, "empty URI", ["status", "-N", "", "k"], {}),
    (78, "empty URI", ["status", "-N", "redis://a,,redis://b", "k"], {}),
    (78, "empty URI", ["status", "-N", "redis://a,", "k"], {}),
    *((78, ".", ["status", "-N", uri, "k"], {}) for uri in (
        "nonsense", "redis://", "redis:///", "redis://a:b:c", "redis://host:0", "redis://host:65536",
        "redis://host/99999999999", "http://host", "unix://relative", "unix:///" + "x" * 200,
        "unix:///x?db=y", "unix:///x?nonsense=1", "redis://[::1", "redis://h1 h2")),
    *((78, why, ["status", "-N", uri, "k"], {}) for uri, why in (
        ("redis://me:hush@host:port", "the port is not a number"),
        ("redis://me:hush@host/x", "the database is not a number"),
        ("redis://:hush@", "the host is missing"),
        ("redis://:hush@hush@host", '"@" in a password is written %40'),
        ("redis://:hush/hush@host", '"/", "[?]" and "#" in a password are written'),
        ("redis://:hush@h1 redis://:hush@h2", "a list takes commas, not blanks"),
        ("127.0.0.1:6379", "did you mean redis://127.0.0.1:6379[?]"),
        ("localhost:6379", "did you mean redis://localhost:6379[?]"),
        ("/tmp/redis.sock", "did you mean unix:///tmp/redis.sock[?]"))),
    *((78, f"{option} /none: No such file", ["status", option, "/none", "-N", "rediss://host", "k"], {})
      for option in ("--cacert", "--cacertdir", "--cert", "--key")),
    *((78, "are the same", ["status", "-N", pair, "k"], {}) for pair in (
        "redis://host,redis://host", "redis://host,redis://host:6379", "redis://host/0,redis://host",
        "redis://HOST,redis://host", "unix:///a/b,unix:///a/b?db=0", "redis://a@host,redis://b@host")),
    (78, "are the same", ["status", "-N", "redis://a", "-N", "redis://a", "k"], {}),
    (64, "--ttl is 25 h 0 min, and must be at most 24 h 0 min", ["acquire", "-t", "25h", "k"], {}),
    (64, "--ttl is 11.0 s, and must be at most 10.0 s: ",
     ["run", "--max-ttl", "10s", "-t", "11s", "k", "true"], {}),
    *((64, "key has 600 bytes, and must have at most 510",
       [command, "--prefix", "p:", *("x" * 600 if word == "k" else word for word in rest)],
       {"REDLOCK_TOKEN": "pfoo@me"}) for command, rest in COMMANDS.items()),
    (64, "--max-hold is 400 d 0 h, and must be at most 366 d 0 h",
     ["run", "--max-hold", "400d", "k", "true"], {}),
    (64, "--at-least must be shorter than --max-hold",
     ["run", "--max-hold", "5s", "--at-least", "5s", "k", "true"], {}),
    (78, "--timeout is 833 d 8 h, and must be at most 366 d 0 h",
     ["status", "--timeout", "20000h", "k"], {}),
    (64, "-n and -w", ["acquire", "-n", "-w", "1s", "k"], {}),
    *((64, "-E|conflict-exit-code", ["acquire", "-E", code, "k"], {}) for code in ("256", "-1", "x", "")),
    (64, "--color", ["status", "--color=blue", "k"], {}),
    (64, "no option --fenced: --fence[?]$", ["acquire", "--fenced", "k"], {}),
    (64, "no option --timout: --timeout[?]$", ["acquire", "--timout=1s", "k"], {}),
    (64, "no option --xyz: --help[?]$", ["acquire", "--xyz", "k"], {}),
    (64, "no option --ca: --ca", ["acquire", "--ca", "k"], {}),
    *((64, "--label", [command, "--label", text, "k", "true"], {}) for command in ("run", "elect")
      for text in ("", "a b", "x" * 65, "\x1b[31m", "a\nb")),
    *((78, "REDLOCK_LABEL: .* one word", ["acquire", "k"], {"REDLOCK_LABEL": text})
      for text in ("a b", "x" * 65, "\x1b[31m", "a\nb")),
    *((78, name, ["acquire", "k"], {name: "soon"}) for name in ("REDLOCK_TTL", "REDLOCK_WAIT")),
]


@case("one wrong word each: its code and its line, which has no secret")
def _(quorum):
    for code, err, words, env in ROWS:
        line = refused(code, err, *words, env=on(quorum, **env))
        check("hush" not in line, f"a secret: {line}")
    for text, why in (("1000000", 'config:1: drift-ppm: "1000000" must be from 0 to 500000'),
                      ("999999999999", "drift")):
        path = lab.write(lab.temporary("config"), f"drift-ppm = {text}\n")
        refused(78, why, "acquire", "--config", path, "k", env=on(quorum))


@case("no nodes: 78")
def _(_):
    for command, rest in COMMANDS.items():
        refused(78, "no nodes", command, *rest, env={"REDLOCK_TOKEN": "pfoo"})
        refused(78, "no nodes", command, *rest, env={"REDLOCK_TOKEN": "pfoo", "REDLOCK_NODES": ""})


@case("more than 32 nodes: 78; 32 are fine")
def _(quorum):
    many = [f"unix:///nowhere/{index}" for index in range(33)]
    refused(78, "32|more", "acquire", "-n", "-N", ",".join(many), "k")
    redlock("acquire", "-n", "-N", ",".join(many[:32]), "k").expect(69)
    refused(78, "nodes are 2000, and must be from 1 to 32", "status", "-N", ",".join(f"unix:///{i}" for i in range(2000)), "k")


@case("an empty key and one that is too long: 64; the prefix counts")
def _(quorum):
    for command, rest in COMMANDS.items():
        for key in ("", "x" * 513):
            words = [key if word == "k" else word for word in rest]
            refused(64, "(?i)key", command, *words, env=on(quorum, REDLOCK_TOKEN="pfoo@me"))
    redlock("acquire", "x" * 512, env=on(quorum)).expect(0)
    refused(64, "(?i)key", "acquire", "--prefix", "pp", "x" * 511, env=on(quorum))
    redlock("acquire", "--prefix", "p", "y" * 511, env=on(quorum)).expect(0)


@case("a TTL of 0, below its margins, or above the limit: 64")
def _(quorum):
    for ttl in ("0", "0s", "1ms", "2ms", "25h", "10000000h"):
        for command in ("run", "acquire", "extend"):
            refused(64, "--ttl|is too long", command, "-t", ttl, *COMMANDS[command],
                    env=on(quorum, REDLOCK_TOKEN="pfoo@me"))
    redlock("acquire", "-t", "24h", "k", env=on(quorum)).expect(0)


@case("a TTL above --max-ttl: 64")
def _(quorum):
    refused(64, "TTL", "acquire", "--max-ttl", "10s", "-t", "11s", "k", env=on(quorum))
    redlock("acquire", "--max-ttl", "10s", "-t", "10s", "k", env=on(quorum)).expect(0)


@case("--at-least above --max-ttl: 64")
def _(quorum):
    words = ("-n", "--max-ttl", "1m", "--at-least")
    refused(64, "max-ttl of 6", "run", *words, "10m", "k", "true", env=on(quorum))
    redlock("run", *words, "50s", "k", "true", env=on(quorum)).expect(0, err="^$")
    check(all(server.call("PTTL", "k") > 40000 for server in quorum.servers), "it is kept")


@case("malformed durations: 64")
def _(quorum):
    for text in ("", "x", "1x", "-1", "1.", ".5", "1e3", " 1", "1 s", "0x10", "1s1s", "1,5s",
                 "0.1ms", "0.0001", "nan", "1S", "213503982335d", "99999999999999999999"):
        for option in ("--ttl", "--wait", "--timeout", "--max-ttl"):
            refused(64, option, "acquire", f"{option}={text}", "k", env=on(quorum))
        refused(64, "--kill-after", "run", "--kill-after", text, "k", "true", env=on(quorum))
        refused(64, "--at-least", "run", "--at-least", text, "k", "true", env=on(quorum))
    equal(quorum.keys(), 0, "keys")


@case("unknown options and options of other commands: 64")
def _(quorum):
    for words, env in each(quorum, "--nonsense"):
        refused(64, "--nonsense", *words, env=env)
    for words, env in each(quorum, "-Z"):
        refused(64, "-Z", *words, env=env)
    refused(64, "--yes", "status", "--yes", "k", env=on(quorum))
    refused(64, "--at-least", "acquire", "--at-least", "1s", "k", env=on(quorum))
    refused(64, "takes no value", "acquire", "--json=yes", "k", env=on(quorum))
    refused(64, "requires a value", "acquire", "--ttl", env=on(quorum))
    refused(64, "requires a value", "acquire", "-t", env=on(quorum))


@case("-q: nothing about the outcome")
def _(quorum):
    redlock("status", "-q", "k", env=on(quorum)).expect(1, out="", err="^$")
    redlock("break", "-q", "--yes", "k", env=on(quorum)).expect(0, out="", err="^$")
    redlock("check", "-q", env=on(quorum)).expect(1, out="", err="^$")
    equal(redlock("status", "-q", "--json", "k", env=on(quorum)).expect(1).json()["state"], "free",
          "with --json")


@case("operands that are missing or too many: 64")
def _(quorum):
    for command in COMMANDS:
        refused(64, "KEY is missing", command, env=on(quorum))
    for command in ("acquire", "status", "break"):
        refused(64, "one operand too many", command, *COMMANDS[command], "more", env=on(quorum))
    for command in ("extend", "release"):
        line = refused(64, "a token is no operand: REDLOCK_TOKEN", command, "k", "hush", env=on(quorum))
        check("hush" not in line, f"a token: {line}")
    refused(64, "NAME is missing", "elect", env=on(quorum))
    refused(64, "CMD is missing|no command", "run", "k", env=on(quorum))
    refused(64, "CMD is missing|no command", "run", "k", "--", env=on(quorum))


@case("invalid arguments are reported before the configuration is read")
def _(quorum):
    for command in COMMANDS:
        refused(64, "missing", command, "--config", "/no/such/file")
        refused(64, "--nonsense", command, "--config", "/no/such/file", "--nonsense")


@case("bad lines of a configuration file: 78 with file and line")
def _(quorum):
    for line, err in (("nonsense = 1", "no setting"), ("nodes", "not key = value"),
                      ("= x", "no setting"), ("ttl = soon", "not a duration"), ("ttl =", "is empty"),
                      ("password = hush", "no setting"), ("drift-ppm = many", "not a number"),
                      ("durable = maybe", "neither yes nor no"), ("ttl = 1s\nttl = 2s", "already"),
                      ("\0", "NUL")):
        path = lab.write(lab.temporary("config"), f"# comment\n\n{line}\n")
        said = refused(78, err, "status", "--config", path, "k", env=on(quorum))
        matches(said, r"config:[34]:", "file and line")
        check("hush" not in said, f"a secret: {said}")


@case("files that cannot be read: 78")
def _(quorum):
    folder = os.path.dirname(lab.temporary("x"))
    for path in ("/no/such/file", folder):
        refused(78, path, "status", "--config", path, "k", env=on(quorum))
        refused(78, path, "status", "k", env=on(quorum, REDLOCK_CONFIG=path))
        refused(78, path, "extend", "--token-file", path, "k", env=on(quorum))
        refused(78, path, "release", "--token-file", path, "k", env=on(quorum))
    refused(78, "No such file", "acquire", "--token-file", "/no/such/file", "k", env=on(quorum))
    refused(78, "not a regular file", "acquire", "--token-file", folder, "k", env=on(quorum))
    refused(78, "not a regular file", "acquire", "--token-file", "/dev/null", "k", env=on(quorum))
    equal(quorum.keys(), 0, "keys")


@case("tokens that are empty, too long, or more than one line: 64")
def _(quorum):
    for command in ("extend", "release"):
        refused(64, "empty", command, "k", env=on(quorum, REDLOCK_TOKEN=""))
        refused(64, "too long", command, "k", env=on(quorum, REDLOCK_TOKEN="x" * 129))
        refused(64, "no token", command, "k", env=on(quorum))
        for text in ("a\nb\n", "x" * 129 + "\n", "x" * 10000, "a\0b\n", "a\rb\n"):
            refused(64, "not one token", command, "k", env=on(quorum), text=text)


@case("a token in the place of another word: the error does not print it")
def _(quorum):
    digits = "abcdefgh" * 4
    for mark in ("p", "s", "f:", "g:", "r:"):
        token = f"{mark}{digits}@host:1"
        for words in (["release", "k", token], ["extend", "k", token], ["status", "k", token],
                      ["run", token], ["release", token], [token], ["acquire", "-t", token, "k"],
                      ["acquire", f"--{token}", "k"], ["release", "--token-file", token, "k"]):
            outcome = redlock(*words, env=on(quorum, REDLOCK_TOKEN="pfoo@me"))
            check(outcome.code != 0 and outcome.err and digits not in outcome.err, outcome.err)


@case("a token with the line end of another system: 64, and the lock stays")
def _(quorum):
    token = redlock("acquire", "k", env=on(quorum)).expect(0).out.strip()
    for command in ("extend", "release"):
        refused(64, "ends in CR LF", command, "k", env=on(quorum), text=token + "\r\n")
        refused(64, "end of a line", command, "k", env=on(quorum, REDLOCK_TOKEN=token + "\r"))
    check(quorum.values("k").count(token) >= 3, "the lock is gone")
    redlock("release", "k", env=on(quorum), text=token + "\n").expect(0)


@case("--token-file with an empty name: 64, before anything is acquired")
def _(quorum):
    before = quorum.attempts()
    for command in ("acquire", "extend", "release"):
        refused(64, "--token-file: an empty name", command, "--token-file", "", "k",
                env=on(quorum, REDLOCK_TOKEN="pfoo@me"))
    equal(quorum.attempts(), before, "attempts")


@case("options work after the key, except in commands that run a command")
def _(quorum):
    env = on(quorum)
    token = redlock("acquire", "k", "-t", "1m", *lab.PATIENT, env=env).expect(0).out.strip()
    held = on(quorum, REDLOCK_TOKEN=token)
    equal(redlock("status", "k", "--json", env=env).expect(0).json()["key"], "k", "key")
    redlock("acquire", "k", "-n", *lab.PATIENT, "-q", env=env).expect(75, err="^$")
    redlock("extend", "k", "--ttl=2m", *lab.PATIENT, env=held).expect(0)
    redlock("release", "k", *lab.PATIENT, env=held).expect(0)
    redlock("break", "k", "--yes", *lab.PATIENT, env=env).expect(0)
    refused(64, "no option -n", "status", "k", "-n", env=env)
    redlock("status", "--", "-n", env=env).expect(1)


@case("run: what looks like an option after the key: 64 and a hint, before anything is acquired")
def _(quorum):
    before = quorum.attempts()
    for words in (("-n", "true"), ("--wait=1s", "true"), ("-", "true")):
        refused(64, "options go before the key", "run", "k", *words, env=on(quorum))
        refused(64, "options go before the key", "run", "--", "k", *words, env=on(quorum))
    equal(quorum.attempts(), before, "attempts")
    folder = os.path.dirname(lab.write(lab.temporary("-n"), "#!/bin/sh\necho $1\n", 0o700))
    redlock("run", "k", "--", "-n", "-w", env=on(quorum, PATH=f"{folder}:{os.environ['PATH']}")
            ).expect(0, out="-w\n")
    redlock("run", "k", "--", "--", env=on(quorum)).expect(127)
    redlock("run", "--", "echo", "no-such-command", env=on(quorum)).expect(
        127, err='"echo" was taken for the key: KEY comes before --')
    redlock("run", "k", "echo hello", env=on(quorum)).expect(127, err="no shell is used")


@case("control characters of operands do not reach the terminal")
def _(quorum):
    outcome = redlock("status\033[31m", "k", env=on(quorum)).expect(64)
    check("\033" not in outcome.err, f"{outcome.err!r}")
    key = "k\033[31m\nredlock: k is held by nobody"
    quorum.occupy(key, value="evil\033[2J\nname")
    outcome = redlock("acquire", "-n", key, env=on(quorum)).expect(75)
    equal(outcome.err.count("\n"), 1, f"lines of {outcome.err!r}")
    check("\033" not in outcome.err, f"{outcome.err!r}")
    outcome = redlock("status", key, env=on(quorum)).expect(0)
    check("\033" not in outcome.out, f"{outcome.out!r}")
    equal(outcome.out.count("\n"), 6, f"lines of {outcome.out!r}")


lab.main()

#!/usr/bin/env python3
"""Option before environment before file, and secrets by every way except argv."""

import os

import lab
from lab import case, check, equal, on, redlock, start

SECRET = "hush-5ecret"
TRAP = "wrong-5ecret"


def config(text, mode=0o600):
    return lab.write(lab.temporary("config"), text, mode)


def without_nodes(*words, **more):
    return redlock(*words, **more)


# --- precedence ---

@case("a configuration file that begins with a byte order mark")
def _(quorum):
    path = config(f"\ufeffnodes = {quorum.nodes}\n")
    redlock("status", "--config", path, "k").expect(1, err="^$")
    path = config(f"\ufeff# comment\nnodes = {quorum.nodes}\n")
    redlock("status", "--config", path, "k").expect(1, err="^$")

@case("nodes: option before environment before file")
def _(quorum):
    path = config(f"nodes = {quorum.uris[0]}\n")
    for words, env, used in (
            ([], {}, [0]),
            ([], {"REDLOCK_NODES": quorum.uris[1]}, [1]),
            (["-N", quorum.uris[2]], {"REDLOCK_NODES": quorum.uris[1]}, [2]),
            (["-N", quorum.uris[2], "--nodes", quorum.uris[3]], {}, [2, 3])):
        quorum.reset()
        redlock("acquire", "--config", path, *words, "k", env=env).expect(0)
        equal([index for index in range(5) if quorum.values("k")[index]], used, "nodes")


@case("the configuration file: option before REDLOCK_CONFIG")
def _(quorum):
    first, second = config(f"nodes = {quorum.uris[0]}\n"), config(f"nodes = {quorum.uris[1]}\n")
    redlock("acquire", "k", env={"REDLOCK_CONFIG": first}).expect(0)
    redlock("acquire", "--config", second, "k", env={"REDLOCK_CONFIG": first}).expect(0)
    equal([bool(value) for value in quorum.values("k")], [True, True, False, False, False], "nodes")


@case("TTL: option before environment before file before 30s")
def _(quorum):
    path = config("ttl = 100s\n")
    for words, env, seconds in ((["--config", path, "-t", "300s"], {"REDLOCK_TTL": "200s"}, 300),
                                (["--config", path], {"REDLOCK_TTL": "200s"}, 200),
                                (["--config", path], {}, 100), ([], {}, 30)):
        quorum.reset()
        redlock("acquire", *words, "k", env=on(quorum, **env)).expect(0)
        left = quorum[0].call("PTTL", "k")
        check(seconds * 1000 - 5000 < left <= seconds * 1000, f"PTTL {left} with {words} {env}")


@case("wait: option before environment before file, -n before all")
def _(quorum):
    quorum.occupy("k")
    path, quick = config("wait = 1h\n"), config("wait = 0\n")
    for words, env in ((["--config", path, "-w", "10ms"], {"REDLOCK_WAIT": "1h"}),
                       (["--config", path], {"REDLOCK_WAIT": "10ms"}),
                       (["--config", quick], {}), (["--config", path, "-n"], {"REDLOCK_WAIT": "1h"})):
        redlock("acquire", *words, "k", env=on(quorum, **env)).expect(75)


@case("prefix: option before environment before file")
def _(quorum):
    path = config("prefix = f:\n")
    for words, env, key in ((["--config", path, "--prefix", "o:"], {"REDLOCK_PREFIX": "e:"}, "o:k"),
                            (["--config", path], {"REDLOCK_PREFIX": "e:"}, "e:k"),
                            (["--config", path], {"REDLOCK_PREFIX": ""}, "f:k")):
        quorum.reset()
        redlock("acquire", *words, "k", env=on(quorum, **env)).expect(0)
        check(all(quorum.values(key)), f"{key} with {words} {env}")


@case("label: option before environment before file; each holder is shown by it")
def _(quorum):
    path = config("label = file\n")
    for words, env, label in ((["--config", path, "--label", "team/job"], {"REDLOCK_LABEL": "env"}, "team/job"),
                              (["--config", path], {"REDLOCK_LABEL": "env"}, "env"), (["--config", path], {}, "file")):
        quorum.reset()
        redlock("acquire", *words, "k", env=on(quorum, **env)).expect(0)
        equal(redlock("status", "--json", "k", env=on(quorum)).json()["holder"], label, "status")
        equal(redlock("list", "--json", env=on(quorum)).json()["holder"], label, "list")
        redlock("acquire", "-n", "k", env=on(quorum)).expect(75, err=f"held by {label}")


@case("the file: every key, comments, blank lines, white space")
def _(quorum):
    nodes = " , ".join(quorum.uris)
    path = config(f"# all of it\n\n  nodes = {nodes}  \nttl=40s\n\twait = 5s\r\nusername = default\n"
                  "prefix = app:\ntimeout = 500ms\nmax-ttl = 1m\ndrift-ppm = 20000\ndurable = yes\n"
                  "# end = 1")
    found = redlock("acquire", "--json", "--config", path, "k").expect(0).json()
    equal(quorum.values("app:k"), [found["token"]] * 5, "values")
    check(38000 < found["valid_ms"] < 39200, f"validity with a drift of 2 %: {found['valid_ms']}")
    redlock("acquire", "--config", path, "-t", "61s", "other").expect(64)


@case("an empty variable counts as unset")
def _(quorum):
    env = on(quorum, REDLOCK_TTL="", REDLOCK_WAIT="", REDLOCK_USERNAME="",
             REDLOCK_PASSWORD="", REDLOCK_PASSWORD_FILE="")
    redlock("acquire", "k", env=env).expect(0)


@case("a file that all users may write is refused; one of a group is warned of; a pipe will do")
def _(quorum):
    text = f"nodes = {quorum.nodes}\n"
    redlock("status", "--config", config(text, 0o646), "k").expect(
        78, err="^redlock: [^\n]*: all users may write it: chmod o-w\n$")
    path = config(text, 0o664)
    redlock("status", "--config", path, "k").expect(1, err="the group may write it: chmod g-w\n$")
    redlock("-q", "status", "--config", path, "k").expect(1, err="^$")
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    redlock("status", "--config", f"/dev/fd/{reader}", "k", pass_fds=(reader,)).expect(1, err="^$")
    os.close(reader)


# --- secrets ---

class Locked:
    """The servers require a password within this block."""

    def __init__(self, quorum):
        self.quorum = quorum

    def __enter__(self):
        for server in self.quorum.servers:
            server.call("CONFIG", "SET", "requirepass", SECRET)
            server.call("ACL", "SETUSER", "me", "on", f">{SECRET}", "~*", "&*", "+@all")

    def __exit__(self, *_):
        for server in self.quorum.servers:
            server.call("CONFIG", "SET", "requirepass", "")
            server.call("ACL", "DELUSER", "me")


def no_secret(outcome):
    for text in (SECRET, TRAP):
        check(text not in outcome.out + outcome.err, f"a secret in the output: {outcome}")
    return outcome


@case("77 without a password, with a wrong one, and with a wrong user")
def _(quorum):
    with Locked(quorum):
        for env in ({}, {"REDLOCK_PASSWORD": TRAP},
                    {"REDLOCK_USERNAME": "nobody", "REDLOCK_PASSWORD": SECRET},
                    {"REDLOCK_PASSWORD_FILE": config(TRAP + "\n")}):
            for words in (("acquire", "-n", "k"), ("run", "-n", "k", "true"), ("status", "k"),
                          ("break", "--yes", "k"), ("acquire", "-w", "5s", "k")):
                no_secret(redlock(*words, env=on(quorum, **env)).expect(77))
            for command in ("extend", "release"):
                outcome = redlock("-v", command, "k",
                                  env=on(quorum, **{"REDLOCK_TOKEN": "pfoo@me", **env}))
                no_secret(outcome.expect(77))
        equal(quorum.keys(), 0, "keys")


@case("the password by REDLOCK_PASSWORD, by REDLOCK_PASSWORD_FILE and by the file")
def _(quorum):
    secret = config(SECRET + "\n")
    with Locked(quorum):
        for user in ({}, {"REDLOCK_USERNAME": "me"}):
            for words, env in (([], {"REDLOCK_PASSWORD": SECRET}),
                               ([], {"REDLOCK_PASSWORD_FILE": secret}),
                               (["--config", config(f"password-file = {secret}\n")], {})):
                quorum.reset()
                env = on(quorum, **env, **user)
                no_secret(redlock("run", "-v", *words, "k", "true", env=env).expect(0))


@case("--user and the file's username")
def _(quorum):
    with Locked(quorum):
        env = on(quorum, REDLOCK_PASSWORD=SECRET, REDLOCK_USERNAME="nobody")
        redlock("--user", "me", "acquire", "k", env=env).expect(0)
        env = on(quorum, REDLOCK_PASSWORD=SECRET)
        redlock("--config", config("username = me\n"), "status", "k", env=env).expect(0)
        redlock("--config", config("username = nobody\n"), "status", "k", env=env).expect(77)


@case("nodes over TCP, by address and by name; user and password of a URI go before others")
def _(quorum):
    ports = [server.listen() for server in quorum.servers]
    with Locked(quorum):
        for who, host, env, code in (
                (f"me:{SECRET}@", "127.0.0.1", {}, 0), (f":{SECRET}@", "localhost", {}, 0),
                (f"me:{SECRET}@", "127.0.0.1", {"REDLOCK_USERNAME": "x", "REDLOCK_PASSWORD": "x"}, 0),
                (f"me:{TRAP}@", "127.0.0.1", {"REDLOCK_PASSWORD": SECRET}, 77),
                ("me@", "127.0.0.1", {"REDLOCK_PASSWORD": SECRET}, 0), ("", "localhost", {}, 77)):
            nodes = ",".join(f"redis://{who}{host}:{port}" for port in ports)
            outcome = redlock("run", "-v", "-n", "k", "true", env={"REDLOCK_NODES": nodes, **env})
            no_secret(outcome.expect(code))
            outcome = redlock("status", "--json", "k", env={"REDLOCK_NODES": nodes, **env})
            no_secret(outcome.expect(77 if code else 1))
    for server in quorum.servers:
        server.call("CONFIG", "SET", "port", 0)


@case("REDLOCK_PASSWORD goes before any password file")
def _(quorum):
    with Locked(quorum):
        env = on(quorum, REDLOCK_PASSWORD=SECRET, REDLOCK_PASSWORD_FILE=config(TRAP))
        redlock("status", "--config", config("password-file = /no/such/file\n"), "k",
                env=env).expect(1)
        env = on(quorum, REDLOCK_PASSWORD_FILE=config(SECRET))
        redlock("status", "--config", config("password-file = /no/such/file\n"), "k",
                env=env).expect(1)


@case("a password file that cannot be read is reported by its name, not as a success")
def _(quorum):
    with Locked(quorum):
        outcome = redlock("acquire", "-n", "k", env=on(quorum, REDLOCK_PASSWORD_FILE="/no/such"))
        check(outcome.code in (77, 78, 69), f"{outcome}")
        equal(outcome.out, "", "stdout")
        equal(quorum.keys(), 0, "keys")


@case("one node of five with another password costs a vote, three cost the quorum: 77")
def _(quorum):
    for bad, code in ((1, 0), (2, 0), (3, 77)):
        quorum.reset()
        for server in quorum.servers[:bad]:
            server.call("CONFIG", "SET", "requirepass", TRAP)
        no_secret(redlock("acquire", "-n", "k", env=on(quorum)).expect(code))
        for server in quorum.servers[:bad]:
            server.call("CONFIG", "SET", "requirepass", "")


@case("a user without the right to SET: 77 or of this key: 77")
def _(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "me", "on", f">{SECRET}", "~k", "&*", "+@all", "-set")
    env = on(quorum, REDLOCK_USERNAME="me", REDLOCK_PASSWORD=SECRET)
    outcome = no_secret(redlock("acquire", "-n", "k", env=env).expect(77))
    check("NOPERM" in outcome.err or "right" in outcome.err, f"{outcome}")
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "me", "+set")
    advice = "; compare --prefix and the user's rights with redlock check --acl\n$"
    for command in ("acquire", "-n"), ("run", "-n"), ("status",), ("break", "--yes"):
        more = ["true"] if command[0] == "run" else []
        redlock(*command, "other", *more, env=env).expect(77, err=advice)
    redlock("run", "k", "true", env=env).expect(0)
    for server in quorum.servers:
        server.call("ACL", "DELUSER", "me")
    equal(quorum.keys(), 0, "keys")


@case("no secret in the arguments or the environment of any process that redlock starts, or in its output")
def _(quorum):
    with Locked(quorum):
        script = 'cat "/proc/$PPID/cmdline" "/proc/$$/cmdline" | tr "\\0" " "'
        env = on(quorum, REDLOCK_PASSWORD_FILE=config(SECRET))
        no_secret(redlock("run", "-v", "--json", "k", "sh", "-c", script + "; env", env=env).expect(0))


def shown_words(process):
    with open(f"/proc/{process.pid}/cmdline", "rb") as file:
        return file.read().decode().split("\0")[1:-1]


@case("a password in -N or --replace is overwritten in argv, and works all the same")
def _(quorum):
    ports = [server.listen() for server in quorum.servers]
    quorum.occupy("k")
    with Locked(quorum):
        given = [f"redis://me:{SECRET}@127.0.0.1:{port}/0" for port in ports]
        shown = [uri.replace(SECRET, "*" * len(SECRET)) for uri in given]
        for option in ("-N", "--nodes"):
            words = [option, ",".join(given[:3]), option, ",".join(given[3:])]
            no_secret(redlock(*words, "status", "k").expect(0))
            attempts = quorum.attempts()
            process = start("acquire", *words, "k")
            lab.wait_for(lambda: SECRET not in "".join(shown_words(process)), "no secret in argv")
            equal(shown_words(process), ["acquire", option, ",".join(shown[:3]), option,
                                         ",".join(shown[3:]), "k"], "the arguments that ps shows")
            lab.wait_for(lambda: quorum.attempts() > attempts, "an attempt: signals are handled")
            process.terminate()
            no_secret(lab.finish(process).expect(143, err="Terminated"))
        process = start("admit", "--replace", f"{given[0]}=redis://:{SECRET}@localhost:1",
                        "-N", ",".join(given))
        lab.wait_for(lambda: SECRET not in "".join(shown_words(process)), "no secret in argv")
        no_secret(lab.finish(process).expect(69))
    for server in quorum.servers:
        server.call("CONFIG", "SET", "port", 0)


lab.main()

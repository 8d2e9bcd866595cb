#!/usr/bin/env python3
"""Changes of docs/production.md, typed in word for word under a holder of a fenced lock."""
import os
import shutil

import certificates
import lab
from lab import Skipped, case, check, equal, on, redlock
from lock_nodes import PREFIX, as_user, nodes
from operating import TTL, Holder, Hosts, commands, type_in

LONGER = "15s"


def admitted():
    quorum = nodes().__enter__()
    redlock("admit", *PREFIX, "--new", "--at-once", "--max-ttl", TTL, "--promise", "durable",
            env=as_user(quorum, "operator")).expect(0)
    return quorum


def operator(quorum):
    """A folder with a redis-cli that finds redis-1 to redis-3, and what it needs."""
    real = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if not real:
        raise Skipped("there is no redis-cli")
    home = os.path.dirname(lab.temporary("operator"))
    lab.write(os.path.join(home, "redis-cli"),
              '#!/bin/sh\n[ "$1" = -h ] || exit 64\nnode=${2#redis-}\nshift 2\n'
              '[ "$1" != --tls ] || shift\n'
              f'exec {real} -s {quorum.home}/$node.sock "$@"\n', 0o700)
    return home, {**as_user(quorum, "operator"), "REDISCLI_AUTH": "SECRET"}


def disconnect(quorum):
    """All clients of locks: what connects again has to be accepted."""
    for server in quorum.servers:
        server.call("CLIENT", "KILL", "USER", "lock")


@case("new passwords: a holder keeps its lock, and connects by the new one")
def _():
    with admitted() as quorum:
        programs, env = operator(quorum)
        of_client = os.path.join(programs, "redlock.password")
        for name, text in (("old", "SECRET"), ("new", "ANOTHER"), ("redlock", "SECRET")):
            lab.write(os.path.join(programs, f"{name}.password"), text + "\n", 0o600)
        mine = on(quorum, REDLOCK_USERNAME="lock", REDLOCK_PASSWORD_FILE=of_client)
        holder = Holder(quorum, mine, PREFIX[1])
        type_in(quorum, "New passwords", "printf '>", env, programs).expect(0)
        disconnect(quorum)
        check(holder.keeps(), "the holder lost its lock while both passwords are good")
        os.rename(os.path.join(programs, "new.password"), of_client)
        type_in(quorum, "New passwords", "printf '<", env, programs).expect(0)
        disconnect(quorum)
        check(holder.keeps(), "the holder lost its lock")
        redlock("status", *PREFIX, "job", env=as_user(quorum, "lock")).expect(77, err="WRONGPASS")
        quorum.kill(0)
        quorum.start()  # ACL SAVE
        done = redlock("check", *PREFIX, "--strict", "--json", env=mine).json()
        equal(done["fit"], 3, "fit nodes after a restart")
        holder.end()


@case("new certificates: a holder keeps its lock over them")
def _():
    with admitted() as quorum:
        programs, env = operator(quorum)
        authority = certificates.Authority("CA")
        uris = []
        for number, server in enumerate(quorum.servers, 1):
            home = os.path.join(programs, f"redis-{number}")
            os.mkdir(home)
            old = authority.sign("old", dates=("-days", "5"))
            new = authority.sign(f"redis-{number}")
            for ending, before, after in zip(("crt", "key"), old, new):
                shutil.copy(before, f"{home}/node.{ending}")
                shutil.copy(after, f"{programs}/redis-{number}.{ending}")
            pair = [f"{home}/node.{ending}" for ending in ("crt", "key")]
            uris.append(f"rediss://localhost:{certificates.serve(server, authority, pair, 'no')}")
        lab.write(os.path.join(programs, "scp"), '#!/bin/sh\nexec cp "$1" "${2#*:}"\n', 0o700)
        env = {**env, "REDLOCK_NODES": ",".join(uris), "REDLOCK_CACERT": authority.cert}
        holder = Holder(quorum, {**env, "REDLOCK_USERNAME": "lock"}, PREFIX[1])
        found = redlock("check", *PREFIX, env=env).expect(1).out
        equal(found.count("certificate_ends"), 1, f"old certificates in {found}")
        done = type_in(quorum, "New certificates", "scp", env, programs,
                       {"/etc/lock-node": f"{programs}/$node"}).expect(0)
        check("3 of 3 nodes are fit, 2 are needed: fit\n" in done.out, done.out)
        disconnect(quorum)
        check(holder.keeps(), "the holder lost its lock")
        holder.end()


@case("a longer TTL: holders lose their locks, waiters go on, tokens go on rising")
def _():
    with admitted() as quorum:
        programs, env = operator(quorum)
        env["REDLOCK_PREFIX"] = PREFIX[1]
        mine = as_user(quorum, "lock")
        holder = Holder(quorum, mine, PREFIX[1])
        fence = ["run", "--fence", *PREFIX, "-t", TTL, "-w", "3m"]
        show = ["sh", "-c", "echo $REDLOCK_FENCE"]
        before = int(redlock(*fence, "k", "--", *show, env=mine).expect(0).out)
        waiter = lab.start(*fence, "job", "--", *show, env=mine)
        type_in(quorum, "A longer TTL", "--new", env, programs,
                {"--max-ttl 2m": f"--max-ttl {LONGER}"}).expect(0)
        holder.loses()
        lab.finish(waiter).expect(0)
        redlock(*fence, "-t", LONGER, "job", "--", "true", env=mine).expect(0)
        after = int(redlock(*fence, "k", "--", *show, env=mine).expect(0).out)
        check(after > before, f"the token {after} after {before}")


@case("a node moves to another machine: a holder keeps its lock")
def _():
    with admitted() as quorum:
        moved = os.path.join(quorum.home, "new-1")

        def handle(name, *words):
            """redis-1's data is in the folder of its server, and new-1's in one beside it."""
            data = quorum[0].words[quorum[0].words.index("--dir") + 1]
            if name == "scp":
                equal(words, ("-pr", "redis-1:/var/lib/lock-node", "new-1:/var/lib/"), "scp")
                shutil.copytree(data, moved)
            elif words[2] == "disable":
                equal(words, ("redis-1", "systemctl", "disable", "--now", "lock-node"), name)
                quorum.kill(0)
            else:
                equal(words, ("new-1", "systemctl", "enable", "--now", "lock-node"), name)
                quorum[0].words[quorum[0].words.index("--dir") + 1] = moved
                quorum[0].start()
        hosts = Hosts(handle, "ssh", "scp")
        holder = Holder(quorum, as_user(quorum, "lock"), PREFIX[1])
        text = "Moving a node to another machine"
        type_in(quorum, text, "ssh", programs=hosts.home).expect(0)
        wait = commands(text, "--until-repaired").split()[1:]
        redlock(*wait, *PREFIX, env=as_user(quorum, "monitor")).expect(0)
        check(holder.keeps(), "the holder lost its lock")
        found = redlock("check", *PREFIX, "--strict", "--fence", env=as_user(quorum, "monitor"))
        check("fenced locks: 3 of 3 nodes vote" in found.expect(0).out, found.out)
        holder.end()
        hosts.end()


lab.main(servers=0)

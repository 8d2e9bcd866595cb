#!/usr/bin/env python3
"""The files of contrib/nodes and contrib/kubernetes make nodes in which `redlock check` finds
nothing, and whose users have the rights that they need."""
import re

import lab
from lab import case, check, equal, redlock, wait_for
from lock_nodes import NODES, PREFIX, as_user, nodes
from monitoring import Monitor


def findings(user, quorum, *words):
    done = redlock("check", *PREFIX, "--strict", "--json", *words, env=as_user(quorum, user))
    return [found["code"] for node in done.expect(0).json()["nodes"] for found in node["findings"]]


@case("check --strict finds nothing; a client's user may not read a setting")
def _():
    with nodes() as quorum:
        equal(findings("monitor", quorum), [], "as monitor")
        equal(findings("lock", quorum), ["fsync_unknown"] * 3, "as lock")
        redlock("admit", *PREFIX, "--new", "--at-once", "--promise", "durable,sole",
                env=as_user(quorum, "operator")).expect(0)
        equal(findings("monitor", quorum, "--fence", "--durable"), [], "of fenced locks")


@case("a client, the monitor and a restart of all nodes, which forget nothing")
def _():
    with nodes() as quorum:
        redlock("admit", *PREFIX, "--new", "--at-once", "--promise", "durable",
                env=as_user(quorum, "operator")).expect(0)
        env = as_user(quorum, "lock")
        token = redlock("acquire", *PREFIX, "-t", "10m", "k", env=env).expect(0).out.strip()
        quorum.kill(0, 1, 2)
        quorum.start()
        equal(quorum.values("lock:k"), [token] * 3, "the lock after the restart")
        redlock("run", *PREFIX, "--fence", "-w", "1m", "f", "--", "true", env=env).expect(0)
        with Monitor(quorum, *PREFIX, REDLOCK_USERNAME="monitor",
                     REDLOCK_PASSWORD="SECRET") as monitor:
            wait_for(lambda: monitor.get("/healthz")[0] == 200, "a monitor that is content")
            wait_for(lambda: monitor.json("locks")["locks"], "the lock on its page")


@case("users.acl has the rights that check --acl prints, and valkey.conf is redis.conf")
def _():
    lines = (NODES / "users.acl").read_text().splitlines()
    users = dict(re.fullmatch(r"user (\w+) (.*)", line).groups() for line in lines)
    equal(list(users), ["default", "lock", "monitor", "operator"], "users")
    equal(users["default"], "reset off", "the default user")
    for name, words, more in (("lock", [], ""), ("monitor", ["--list"], " +config|get +client|list")):
        rule = redlock("check", "--acl", *words, *PREFIX, "--user", name,
                       env={"REDLOCK_NODES": "redis://a"}).expect(0).out.strip()
        equal(f"ACL SETUSER {name} {users[name]}", rule + more, "the rule")
    check((NODES / "valkey.conf").samefile(NODES / "redis.conf"), "two files")


lab.main(servers=0)

#!/usr/bin/env python3
"""Nodes that are not a redis-server of one's own: what a service leaves out (docs/services.md)."""
import lab
from lab import case, check, equal, on, redlock

REFUSED = r"NOPERM .* has no permissions to run the 'eval' command"


def deny(server, *rules):
    server.call("ACL", "SETUSER", "me", "reset", "on", ">pw", "~*", "&*", "+@all", *rules)


@case("a node that refuses EVAL has no vote: no lock is granted that it could not release")
def _():
    with lab.Quorum(3) as quorum:
        env = on(quorum, REDLOCK_USERNAME="me", REDLOCK_PASSWORD="pw")
        for server in quorum.servers:
            deny(server)
        deny(quorum[0], "-eval")
        outcome = redlock("run", "-v", "-n", "k", "true", env=env).expect(0)
        lab.matches(outcome.err, rf"{quorum.uris[0]}.*{REFUSED}", "the node is refused")
        equal(quorum.keys(), 0, "keys that stay")
        deny(quorum[1], "-eval")
        redlock("run", "-n", "k", "true", env=env).expect(77, err=REFUSED)
        equal(quorum.keys(), 0, "keys that stay")


@case("the same where the server does not know EVAL")
def _():
    with lab.Quorum(1, ("--rename-command", "EVAL", "")) as quorum:
        outcome = redlock("run", "-n", "k", "true", env=on(quorum))
        outcome.expect(77, err=r"runs no scripts \(EVAL\).*: ERR unknown command")
        check("return 1" not in outcome.err, f"arguments in {outcome}")
        equal(quorum.keys(), 0, "keys that stay")


lab.main(servers=0)

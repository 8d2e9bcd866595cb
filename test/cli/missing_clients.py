#!/usr/bin/env python3
"""redlock check compares which clients are connected to each node, by CLIENT LIST."""
import re
import socket
import threading

import lab
from lab import case, durable, equal, matches, on, redlock

FIT, WARNINGS, NO_QUORUM = range(3)
AGE_S = 6  # RL_CLIENT_AGE


def client(quorum, label, *words, nodes=slice(None)):
    """A client that lives until it is stopped."""
    return lab.start(*words, env=on(quorum, REDLOCK_LABEL=label,
                                    REDLOCK_NODES=",".join(quorum.uris[nodes])))


def stop(*clients):
    for one in clients:
        one.terminate()
    for one in clients:
        one.communicate()


def aged(server, *labels):
    """Waits until a connection of each of these clients to this node is old enough."""
    def are_old():
        lines = server.call("CLIENT", "LIST").splitlines()
        return all(any(f" name={label} " in line and
                       int(line.partition(" age=")[2].split()[0]) >= AGE_S for line in lines)
                   for label in labels)
    lab.wait_for(are_old, "old connections", seconds=30)


def asked(quorum, *words, **env):
    return redlock("check", "--json", *words, env=on(quorum, **env))


def lists(quorum):
    """How often the last node was asked for its list."""
    seen = re.search(r"cmdstat_client\|list:calls=(\d+)", quorum[-1].call("INFO", "commandstats"))
    return int(seen[1]) if seen else 0


def details(outcome):
    return [[one["detail"] for one in node["findings"] if one["code"] == "missing_clients"]
            for node in outcome.json()["nodes"]]


@case("a client of three of five nodes is a finding at the other two; others of all are none")
def _():
    with durable(5) as quorum:
        some = client(quorum, "some", "run", "-t", "1m", "k", "sleep", "100", nodes=slice(1, 4))
        # A holder, waiters and an observer have one or two connections to each node.
        others = [client(quorum, "all", "run", "-t", "1m", "k2", "sleep", "100"),
                  client(quorum, "waits", "run", "-w", "5m", "k2", "true"),
                  client(quorum, "waits", "wait", "-w", "5m", "k2"),
                  client(quorum, "leads", "elect", "e", "sleep", "100")]
        stopped = client(quorum, "young", "run", "k3", "sleep", "100", nodes=slice(0, 1))
        stop(stopped)
        aged(quorum[1], "some", "all", "waits", "leads")
        outcome = asked(quorum).expect(WARNINGS, err="^$")
        equal(lists(quorum), 2, "lists of the last node")
        # The sockets' paths are long: the detail may be cut.
        where = r"^1 client: some from \S+:\d+, connected to " + quorum.uris[1]
        found = details(outcome)
        equal([len(one) for one in found], [1, 0, 0, 0, 1], "findings")
        for index in (0, 4):
            matches(found[index][0], where, "the detail")
        # The check's own connections do not count, though they have the same name.
        outcome = asked(quorum, "--strict", "--label", "some")
        equal([len(one) for one in details(outcome.expect(WARNINGS))], [1, 0, 0, 0, 1], "strict")
        table = redlock("check", env=on(quorum)).expect(WARNINGS).out
        matches(table, r"\nwarning missing_clients: clients of other nodes are not connected",
                "the table")
        matches(table, f"\n    {quorum.uris[4]} \\(1 client: some from ", "the table")
        stop(some, *others)


@case("who may not call CLIENT LIST has no finding, and waits for none")
def _():
    with durable() as quorum:
        some = client(quorum, "some", "run", "-t", "1m", "k", "sleep", "100", nodes=slice(0, 1))
        aged(quorum[0], "some")
        user = {"REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "secret"}
        for index, server in enumerate(quorum.servers):
            rights = ["+@all", *(["-client|list"] if index < 2 else [])]
            server.call("ACL", "SETUSER", "me", "on", ">secret", "~*", "&*", *rights)
        asked(quorum, "--strict", **user).expect(FIT, err="^$")
        equal(lists(quorum), 1, "lists of the last node")
        quorum[0].call("ACL", "SETUSER", "me", "+client|list")
        outcome = asked(quorum, **user)
        equal([len(one) for one in details(outcome.expect(WARNINGS))], [0, 0, 1], "findings")
        stop(some)
        outcome = asked(quorum, "--strict")
        outcome.expect(FIT)


class Named:
    """A connection of another program, with a name."""

    def __init__(self, server, name):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(server.path)
        self.socket.sendall(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$%d\r\n%b\r\nPING\r\n" %
                            (len(name), name))


@case("a list of more than 64 KB is read whole")
def _():
    with durable() as quorum:
        for server in quorum.servers:
            server.call("CONFIG", "SET", "maxclients", "200")
        held = [Named(server, b"%d-" % i + 3000 * b"n") for server in quorum.servers for i in range(100)]
        held += [Named(server, b"short") for server in quorum.servers[:2]]
        for server in quorum.servers:
            lab.wait_for(lambda server=server: len(server.call("CLIENT", "LIST")) > 300000, "names")
        aged(quorum[0], "short")
        outcome = asked(quorum)
        found = details(outcome.expect(WARNINGS, err="^$"))
        equal([len(one) for one in found], [0, 0, 1], "findings")
        matches(found[2][0], "^1 client: short from ", "the detail")
        for one in held:
            one.socket.close()
        outcome = asked(quorum, "--strict")
        outcome.expect(FIT)


@case("a list of more than 16 MB is not compared, and hides no other finding")
def _():
    with durable() as quorum:
        held = [Named(quorum[2], b"%d-" % i + 200000 * b"n") for i in range(100)]
        lab.wait_for(lambda: len(quorum[2].call("CLIENT", "LIST")) > 16 << 20, "names")
        outcome = asked(quorum, "--fence").expect(NO_QUORUM)
        equal([[one["code"] for one in node["findings"]] for node in outcome.json()["nodes"]],
              3 * [["unmarked"]], "findings")
        for one in held:
            one.socket.close()


@case("--strict finds nothing while clients connect, end, and connect again after CLIENT KILL")
def _():
    with durable() as quorum:
        old = [client(quorum, f"old-{i}", "run", "-t", "1m", f"old{i}", "sleep", "100") for i in range(5)]
        aged(quorum[0], *(f"old-{i}" for i in range(5)))
        done = threading.Event()

        def connect(number):
            for turn in range(1000):
                if done.is_set():
                    return
                env = on(quorum, REDLOCK_LABEL=f"job-{number}-{turn}")
                redlock("run", "-t", "1m", f"job{number}", "true", env=env)
        threads = [threading.Thread(target=connect, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        try:
            for times in range(5):
                # A client that a node has just thrown out connects again.
                quorum[times % 3].call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                outcome = asked(quorum, "--strict")
                equal([one for node in outcome.json()["nodes"] for one in node["findings"]], [],
                      "findings")
                if times == 2:
                    stop(*old)
        finally:
            done.set()
            for one in threads:
                one.join()


lab.main(servers=0)

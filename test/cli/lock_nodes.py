"""Servers that are made from the files of contrib/nodes and contrib/kubernetes."""
import os
import pathlib
import re
import shutil

from lab import Quorum, on
from redis_server import find_server

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"
NODES = CONTRIB / "nodes"
PREFIX = ("--prefix", "lock:")
# What starts the server: its command line, from the configuration file on.
STARTS = {
    NODES / "lock-node.service": r"^ExecStart=redis-server (.*)$",
    NODES / "compose.yaml": r"^  command: \[(.*)\]$",
    CONTRIB / "kubernetes/nodes.yaml": r"^          args: \[(/etc/lock-node/.*)\]$",
}


def words_of(path, pattern, home):
    """`home` is its /etc/lock-node: ACL SAVE writes to it."""
    [line] = re.findall(pattern, path.read_text(), re.MULTILINE)
    return line.replace("/etc/lock-node", home).replace(",", "").split()


def nodes():
    """One server by each of STARTS, with its data in a folder of its own."""
    quorum = Quorum(len(STARTS))
    for server, start in zip(quorum.servers, STARTS.items()):
        data, home = f"{server.path}.data", f"{server.path}.etc"
        os.mkdir(data)
        shutil.copytree(NODES, home)
        shutil.copy(NODES / "users.acl", data)
        server.words = [find_server(), *words_of(*start, home), "--dir", data, "--port", "0",
                        "--unixsocket", server.path, "--logfile", server.log]
        server.password = ("operator", "SECRET")
    return quorum


def as_user(quorum, user):
    return on(quorum, REDLOCK_USERNAME=user, REDLOCK_PASSWORD="SECRET")

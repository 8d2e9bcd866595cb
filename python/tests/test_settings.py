"""One configuration file and one environment: the command, C, C++ and Python connect alike, and
refuse each value that is not possible with the same words."""
import os
import re
import subprocess
import sys

import pytest

import lab

PYTHON = """
import sys
import redlock_quorum as rq
try:
    with rq.Client() as client, client.lock("k"):
        print("held", flush=True)
        sys.stdin.read()
except rq.BadInput as why:
    sys.exit(f"{why.text}")
"""
INTERFACES = {
    "command": [lab.program, "run", "k", "sh", "-c", "echo held; cat"],
    **{path: [path] for path in os.environ.get("REDLOCK_ALIKE", "").split(os.pathsep) if path},
    "Python": [sys.executable, "-c", PYTHON],
}


def start(words, env):
    env = {"REDLOCK_LIBRARY": os.environ["REDLOCK_LIBRARY"],
           "PYTHONPATH": os.pathsep.join(sys.path), **env}
    return lab.spawn(words, env=lab.environment(env), stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(params=INTERFACES)
def interface(request):
    return INTERFACES[request.param]


@pytest.fixture
def locked(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "me", "on", ">hush", "~*", "&*", "+@all")
        server.call("CONFIG", "SET", "requirepass", "other")
    yield quorum
    for server in quorum.servers:
        server.call("CONFIG", "SET", "requirepass", "")
        server.call("ACL", "DELUSER", "me")


@pytest.mark.parametrize("place", ["file", "environment"])
def test_all_connect_alike(locked, interface, place, tmp_path):
    secret = lab.write(str(tmp_path / "secret"), "hush\n")
    nodes = ", ".join(locked.uris)
    path = str(tmp_path / "config")
    env = {"REDLOCK_CONFIG": path}
    if place == "file":
        lab.write(path, f"nodes = {nodes}\nusername = me\npassword-file = {secret}\n"
                        "prefix = p:\ntimeout = 5s\nttl = 20s\nwait = 1h\n")
    else:
        lab.write(path, "nodes = redis://127.0.0.1:1\nusername = nobody\n"
                        "password-file = /no/such/file\nprefix = q:\ntimeout = 5s\nttl = 1h\n")
        env |= {"REDLOCK_NODES": nodes, "REDLOCK_USERNAME": "me", "REDLOCK_PASSWORD": "hush",
                "REDLOCK_PREFIX": "p:", "REDLOCK_TTL": "20s", "REDLOCK_WAIT": "1h"}
    process = start(interface, env)
    assert process.stdout.readline() == b"held\n", process.stderr.read()
    for server in locked.servers:
        lab.wait_for(lambda: server.call("EXISTS", "p:k"), "a key with the prefix")
        clients = server.call("CLIENT", "LIST")
        assert "user=me" in (clients.decode() if isinstance(clients, bytes) else clients)
        if interface is not INTERFACES["Python"]:  # it has a TTL of its own
            assert server.call("PTTL", "p:k") <= 20000
    process.stdin.close()
    process.stdin = None
    lab.finish(process).expect(0)


# One of each source of a message; test/unit/settings.c has the others.
REFUSED = [
    # the file, the environment, what all say
    ("", {"REDLOCK_NODES": ""}, "no nodes: set REDLOCK_NODES, or nodes in redlock.conf(5)"),
    ("", {"REDLOCK_NODES": "redis://me:hush@host:99999"}, "the port is not from 1 to 65535"),
    ("", {"REDLOCK_NODES": "unix:///a,unix:///a"}, "are the same"),
    ("", {"REDLOCK_TTL": "soon"}, 'REDLOCK_TTL: "soon" is not a duration'),
    ("", {"REDLOCK_CONFIG": "/no/such/file"}, "/no/such/file: No such file or directory"),
    ("", {"REDLOCK_PASSWORD_FILE": "/no/such/file"},
     "password file /no/such/file: No such file or directory"),
    ("", {"REDLOCK_CACERT": "/no/such/file", "REDLOCK_NODES": "rediss://a"},
     " /no/such/file: No such file"),
    ("password = hush\n", {}, 'FILE:1: no setting "password"'),
    ("ttl = 1s\nttl = 1s\n", {}, 'FILE:2: "ttl" is already set in line 1'),
]


@pytest.mark.parametrize("text, env, words", REFUSED)
def test_all_refuse_alike(text, env, words, servers, tmp_path):
    path = lab.write(str(tmp_path / "c"), text)
    env = {"REDLOCK_NODES": "unix:///nowhere", "REDLOCK_CONFIG": path, **env}
    for interface in INTERFACES.values():
        outcome = lab.finish(start(interface, env))
        assert outcome.code != 0 and outcome.out == "", interface
        assert words.replace("FILE", path[-100:]) in outcome.err, interface
        assert re.fullmatch(r"[^\n]+\n", outcome.err), interface
        assert "hush" not in outcome.err, interface

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
        if "-c" not in interface or interface[1] == "run":  # Python has a TTL of its own
            assert server.call("PTTL", "p:k") <= 20000
    process.stdin.close()
    process.stdin = None
    lab.finish(process).expect(0)


REFUSED = [
    # the file, the environment, what all say
    ("", {"REDLOCK_NODES": ""}, "no nodes: set REDLOCK_NODES, or nodes in redlock.conf(5)"),
    ("", {"REDLOCK_NODES": "unix:///a,,unix:///b"}, "nodes: an empty URI in the list"),
    ("", {"REDLOCK_NODES": "unix:///a," * 32 + "unix:///b"}, "nodes are 33, and must be from 1 to 32"),
    ("", {"REDLOCK_NODES": "redis://me:hush@host:99999"}, "the port is not from 1 to 65535"),
    ("", {"REDLOCK_NODES": "http://host"}, "scheme is neither redis, rediss nor unix"),
    ("", {"REDLOCK_NODES": "unix:///a,unix:///a"}, "are the same"),
    ("", {"REDLOCK_TTL": "soon"}, 'REDLOCK_TTL: "soon" is not a duration'),
    ("", {"REDLOCK_TTL": "25h"}, 'REDLOCK_TTL: "25h" must be from 1 to 86400000 ms'),
    ("", {"REDLOCK_WAIT": "-1"}, 'REDLOCK_WAIT: "-1" is not a duration'),
    ("", {"REDLOCK_PREFIX": "x" * 512}, f'REDLOCK_PREFIX: "{"x" * 64}" must have from 1 to 511 bytes'),
    ("", {"REDLOCK_CONFIG": "/no/such/file"}, "/no/such/file: No such file or directory"),
    ("", {"REDLOCK_CONFIG": "/"}, "/: Is a directory"),
    ("", {"REDLOCK_PASSWORD_FILE": "/no/such/file"},
     "password file /no/such/file: No such file or directory"),
    ("", {"REDLOCK_CACERT": "/no/such/file", "REDLOCK_NODES": "rediss://a"},
     " /no/such/file: No such file"),
    ("", {"REDLOCK_CACERTDIR": "/no/such/dir", "REDLOCK_NODES": "rediss://a"},
     " /no/such/dir: No such file"),
    ("", {"REDLOCK_CERT": "/no/such/file", "REDLOCK_NODES": "rediss://a"},
     " /no/such/file: No such file"),
    ("", {"REDLOCK_CERT_KEY": "/no/such/file", "REDLOCK_NODES": "rediss://a"},
     " /no/such/file: No such file"),
    ("password = hush\n", {}, 'FILE:1: no setting "password"'),
    ("\nnonsense = 1\n", {}, 'FILE:2: no setting "nonsense"'),
    ("ttl\n", {}, "FILE:1: the line is not key = value"),
    ("ttl = 1s\nttl = 1s\n", {}, 'FILE:2: "ttl" is already set in line 1'),
    ("ttl = 0\n", {"REDLOCK_TTL": "1s"}, 'FILE:1: ttl: "0" must be from 1 to 86400000 ms'),
    ("wait = 1000d\n", {}, 'FILE:1: wait: "1000d" must be from 0 to 31622400000 ms'),
    ("username =\n", {}, 'FILE:1: username: "" is empty'),
    ("password-file = /no/such/file\n", {}, "password file /no/such/file: No such file"),
    (f"prefix = {'x' * 512}\n", {}, f'FILE:1: prefix: "{"x" * 64}" must have from 1 to 511 bytes'),
    ("timeout = 400d\n", {}, 'FILE:1: timeout: "400d" must be from 0 to 31622400000 ms'),
    ("max-ttl = 2d\n", {}, 'FILE:1: max-ttl: "2d" must be from 0 to 86400000 ms'),
    ("drift-ppm = 500001\n", {}, 'FILE:1: drift-ppm: "500001" must be from 0 to 500000'),
    ("durable = on\n", {}, 'FILE:1: durable: "on" is neither yes nor no'),
    ("tls = 1\n", {}, 'FILE:1: tls: "1" is neither yes nor no'),
    ("insecure = true\n", {}, 'FILE:1: insecure: "true" is neither yes nor no'),
    ("sni =\n", {}, 'FILE:1: sni: "" is empty'),
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

#!/usr/bin/env python3
"""Why a node fails is told in the words of the system, the resolver and the server."""
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import threading

import lab
from lab import case, check, equal, redlock


@contextlib.contextmanager
def fake(answer):
    """A node that gets each connection and its first bytes: `answer(socket)`. Its URI."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as peer, contextlib.suppress(OSError):
                    peer.recv(65536)
                    answer(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def says(uri, text, code=69):
    """run, status and check tell the text of the only node."""
    redlock("run", "-n", "-N", uri, "k", "true").expect(code, err=f": {re.escape(text)}\n")
    [node] = redlock("status", "--json", "-N", uri, "k").json()["nodes"]
    equal(node["text"], text, "the text in JSON")
    found = redlock("check", "-N", uri)
    check(text in found.out, f"not {text}: {found}")


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@case("nobody listens, no such socket, no such name")
def _(quorum):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    says(f"redis://127.0.0.1:{port}", "cannot connect: Connection refused")
    says(f"unix://{lab.temporary('none')}", "cannot connect: No such file or directory")
    outcome = redlock("run", "-n", "-N", "redis://no.such.name.invalid", "k", "true")
    outcome.expect(69, err="(the host name does not resolve|no reply in time): [A-Za-z]")


@case("a socket that the user may not connect to")
def _(quorum):
    path = lab.temporary("closed")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.chmod(path, 0)
        words = [lab.program, "run", "-n", "-N", f"unix://{path}", "k", "true"]
        if os.geteuid() == 0:  # who may do anything
            if not shutil.which("setpriv"):
                raise lab.Skipped("root, and no setpriv")
            words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] + words
        process = lab.spawn(words, env=lab.environment({}), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lab.finish(process).expect(69, err="cannot connect: Permission denied")


@case("a connection that is reset, and one that is closed")
def _(quorum):
    with fake(reset) as address:
        says(f"redis://{address}", "the connection was closed: Connection reset by peer")
    with fake(lambda peer: None) as address:
        says(f"redis://{address}", "the connection was closed")


@case("a database that the server does not have, a wrong password, no password there")
def _(quorum):
    server = quorum[0]
    says(f"{server.uri}?db=9999",
         "the server replied with an error: ERR DB index is out of range")
    says(server.uri.replace("unix://", "unix://:hunter2@"),
         "the server rejected the user or password: ERR AUTH <password> called without any "
         "password configured for the default user.", 77)
    server.call("CONFIG", "SET", "requirepass", "secret")
    try:
        says(server.uri.replace("unix://", "unix://:hunter2@"),
             "the server rejected the user or password: WRONGPASS invalid username-password "
             "pair or user is disabled.", 77)
    finally:
        server.call("AUTH", "secret")
        server.call("CONFIG", "SET", "requirepass", "")


@case("of a reply to AUTH only a known sentence is told: the rest may have the password")
def _(quorum):
    rejected, failed = "the server rejected the user or password", "the server replied with an error"
    for reply, text, code in (
            (b"ERR unknown command 'AUTH', with args beginning with: 'hunter2' ",
             failed + ": ERR unknown command", 69),
            (b"ERR wrong number of arguments for 'auth' command",
             rejected + ": ERR wrong number of arguments for 'auth' command", 77),
            (b"ERR Client sent AUTH, but no password is set",
             rejected + ": ERR Client sent AUTH, but no password is set", 77),
            (b"ERR invalid password", rejected + ": ERR invalid password", 77),
            (b"ERR invalid password hunter2 for default", rejected + ": ERR invalid password", 77),
            (b"ERR invalid password hunt... for default", rejected + ": ERR invalid password", 77),
            (b"ERR bad command *2 $4 AUTH $7 aHVudGVyMg==", failed, 69),
            (b"ERR upstream connect failure", failed, 69),
            (b"WRONGPASS no user has hunter2", rejected, 77),
            (b"ERR " + 10000 * b"y" + b" hunter2", failed, 69)):
        for replies in (9, 1):  # 1: it closes before the greeting ends
            said = replies * (b"-" + reply + b"\r\n")
            with fake(lambda peer, said=said: peer.sendall(said)) as address:
                says(f"redis://:hunter2@{address}", text, code)


@case("a server's words have no control character, and are short")
def _(quorum):
    reply = b"-ERR \x1b[31mred\x7f " + 300 * b"x" + b"\r\n"
    with fake(lambda peer: peer.sendall(9 * reply)) as address:
        says(f"redis://{address}",
             "the server replied with an error: ERR ?[31mred? " + 126 * "x" + "...")


@case("a reply after AUTH has no password either")
def _(quorum):
    def echo(peer):
        peer.sendall(b"+OK\r\n" + 8 * b"-ERR auth hunter2 lost\r\n")
    with fake(echo) as address:
        outcome = redlock("run", "-v", "-n", "-N", f"redis://:hunter2@{address}", "k", "true")
        outcome.expect(69, err="the server replied with an error: ERR auth ")
        check("hunter2" not in outcome.err, f"a password in {outcome}")


@case("a port that does not answer to TLS, and one that closes")
def _(quorum):
    port = quorum[0].listen()
    if "TLS is no part" in redlock("run", "-N", "rediss://127.0.0.1", "-n", "k", "true").err:
        raise lab.Skipped("a build without TLS")
    says(f"rediss://127.0.0.1:{port}", "no reply in time: does this port speak TLS?")

    def close(peer):
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass
    with fake(close) as address:
        says(f"rediss://{address}", "the connection was closed")


lab.main(1)

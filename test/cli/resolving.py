#!/usr/bin/env python3
"""Nodes that are named: a name server that is silent, lies, or knows several addresses.

In a network and a mount namespace of its own, so that 127.0.0.1:53 is the only name server.
"""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import lab
from lab import case, check, redlock

INSIDE = "RESOLVING_INSIDE"
RESOLV_CONF = "/etc/resolv.conf"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
A, IN = 1, 1


def raise_loopback():
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def use_name_server():
    """Puts a resolv.conf of its own over the machine's; the namespace ends with the process."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
        file.write("nameserver 127.0.0.1\n")
    target = os.path.realpath(RESOLV_CONF)
    libc = ctypes.CDLL(None, use_errno=True)
    bound = libc.mount(file.name.encode(), target.encode(), None, 4096, None)  # MS_BIND
    os.unlink(file.name)
    return bound == 0


class NameServer:
    """Answers each question for an address by what `answer(name)` gives; None: not at all."""

    def __init__(self, answer):
        self.answer, self.asked, self.ends = answer, 0, False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.socket.settimeout(0.05)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()
        self.socket.close()

    def serve(self):
        while not self.ends:
            try:
                question, sender = self.socket.recvfrom(512)
            except TimeoutError:
                continue
            self.asked += 1
            reply = self.answer(question)
            if reply is not None:
                self.socket.sendto(reply, sender)


def addresses(*texts, number=None):
    """A reply with these addresses to the question; `number`: instead of the question's."""
    def answer(question):
        kind = struct.unpack("!H", question[-4:-2])[0]
        known = texts if kind == A else ()
        head = (number or question[:2]) + struct.pack("!HHHHH", 0x8180, 1, len(known), 0, 0)
        rows = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", A, IN, 1, 4) + socket.inet_aton(text)
                        for text in known)
        return head + question[12:] + rows
    return answer


def nodes(quorum, uri):
    """The first node by this URI, the others by their sockets."""
    path = lab.write(lab.temporary("conf"), f"timeout = {lab.PATIENCE}\n")
    return {"REDLOCK_NODES": ",".join([uri, *quorum.uris[1:]]), "REDLOCK_CONFIG": path}


def locks(quorum, answer, port):
    """A quorum locks while the name server does that; returns what `status` prints after it."""
    with NameServer(answer) as server:
        env = nodes(quorum, f"redis://node.test:{port}")
        redlock("run", "k", "true", env=env).expect(0)
        lab.wait_for(lambda: server.asked > 0, "a question")
        return redlock("status", "k", env=env).out


@contextlib.contextmanager
def holder_of(quorum, port):
    """A lock is held and extended meanwhile; the first node is named."""
    env = nodes(quorum, f"redis://node.test:{port}")
    holder = lab.start("run", "-t", "2s", "k", *lab.beat(lab.temporary("beats")), env=env)
    yield
    holder.terminate()
    lab.finish(holder).expect(143)


def await_named(quorum):
    lab.wait_for(lambda: quorum.values("k")[0], "the lock on the node that is named")


@case("a name server that never replies: a quorum of the others holds the lock")
def _(quorum):
    out = locks(quorum, lambda question: None, quorum[0].listen())
    check("free on 4 of 5 nodes" in out, out)


@case("a name server that lies: garbage, a reply to another question, no address")
def _(quorum):
    port = quorum[0].listen()
    for answer in (lambda question: os.urandom(40), lambda question: question[:12],
                   addresses("127.0.0.1", number=b"\xff\xff"), addresses()):
        out = locks(quorum, answer, port)
        check("free on 4 of 5 nodes" in out, out)


@case("a name server that names another node: it is noticed, and has one vote")
def _(quorum):
    out = locks(quorum, addresses("127.0.0.1"), quorum[1].listen())
    check("already a node under another address" in out and "4 of 5" in out, out)


@case("a name with three addresses, of which the last one works")
def _(quorum):
    port = quorum[0].listen()
    quorum[0].call("CONFIG", "SET", "bind", "127.0.0.1")
    with NameServer(addresses("127.0.0.7", "127.0.0.8", "127.0.0.1")):
        with holder_of(quorum, port):
            await_named(quorum)


class Servers:
    """/etc/resolv.conf with this text, while a case runs."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        self.before = lab.read(RESOLV_CONF)
        self.write(self.text)
        return self

    def __exit__(self, *_):
        self.write(self.before)

    def write(self, text):
        with open(RESOLV_CONF, "w") as file:
            file.write(text)


@case("no name server: the names of /etc/hosts resolve")
def _(quorum):
    with Servers("# none\n"):
        env = nodes(quorum, f"redis://localhost:{quorum[0].listen()}")
        redlock("acquire", *lab.PATIENT, "k", env=env).expect(0)
        out = redlock("status", *lab.PATIENT, "k", env=env).out
    check("on 5 of 5 nodes" in out, out)


@case("a name server that does not reply beside one that does")
def _(quorum):
    port = quorum[0].listen()
    with Servers("nameserver 127.0.0.9\nnameserver 127.0.0.1\n"), \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, \
            NameServer(addresses("127.0.0.1")):
        silent.bind(("127.0.0.9", 53))
        with holder_of(quorum, port):
            await_named(quorum)


@case("a new name server in /etc/resolv.conf is asked from the next connection on")
def _(quorum):
    port = quorum[0].listen()
    with Servers("nameserver 127.0.0.9\n") as servers, NameServer(addresses("127.0.0.1")):
        with holder_of(quorum, port):
            lab.wait_for(lambda: quorum.values("k")[1], "a lock without that node")
            servers.write("nameserver 127.0.0.1\n")
            await_named(quorum)


if __name__ == "__main__":
    if os.environ.get(INSIDE):
        raise_loopback()
        if not use_name_server():
            print("1..0 # SKIP /etc/resolv.conf cannot be replaced")
            sys.exit(0)
        lab.main()
    unshare = ["unshare", "--mount", "--net", *([] if os.getuid() == 0 else
                                                ["--user", "--map-root-user"])]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("1..0 # SKIP namespaces are not allowed here")
        sys.exit(0)
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})

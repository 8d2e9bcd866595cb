#!/usr/bin/env python3
"""Distant nodes: which limit they exceed, and which option moves it."""
import os
import socket
import threading
import time

import lab
from lab import case, check, redlock

DELAY_S = 0.3  # of each reply: the least round trip


class Distance:
    """Unix sockets that lead to those of the quorum, and deliver each reply late."""

    def __init__(self, quorum):
        self.quorum = quorum
        self.listeners, self.nodes = [], ""

    def __enter__(self):
        paths = [server.path + ".far" for server in self.quorum.servers]
        for path, server in zip(paths, self.quorum.servers):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
            self.listeners.append(listener)
            threading.Thread(target=self.accept, args=(listener, server.path), daemon=True).start()
        self.nodes = ",".join("unix://" + path for path in paths)
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            os.unlink(listener.getsockname())
            listener.shutdown(socket.SHUT_RDWR)  # ends accept()
            listener.close()

    @staticmethod
    def accept(listener, path):
        try:
            while True:
                near = listener.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(path)
                for source, target, delay in ((near, far, 0), (far, near, DELAY_S)):
                    threading.Thread(target=Distance.carry, args=(source, target, delay),
                                     daemon=True).start()
        except OSError:
            pass  # the case is over

    @staticmethod
    def carry(source, target, delay):
        try:
            while data := source.recv(65536):
                time.sleep(delay)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one end is gone


@case("a reply takes longer than a tenth of the TTL: the error says so, and --timeout moves it")
def _(quorum):
    with Distance(quorum) as distance:
        env = {"REDLOCK_NODES": distance.nodes}
        for words in (["acquire", "-n", "-t", "2s", "k"], ["run", "-n", "-t", "2s", "k", "true"]):
            outcome = redlock(*words, env=env).expect(69, out="", err="k is not held: ")
            check("no reply within a tenth of the TTL" in outcome.err, str(outcome))
        redlock("acquire", "-n", "-t", "10s", "--timeout", "5s", "k", env=env).expect(0)


@case("a reply takes longer than --timeout: the error says so, and a longer one helps")
def _(quorum):
    with Distance(quorum) as distance:
        env = {"REDLOCK_NODES": distance.nodes}
        outcome = redlock("acquire", "-n", "--timeout", "100ms", "k", env=env).expect(69, out="")
        check("no reply within the node timeout" in outcome.err, str(outcome))
        redlock("acquire", "-n", "--timeout", "5s", "k", env=env).expect(0)


@case("the TTL is over before a quorum replies: the error says so, and a longer TTL helps")
def _(quorum):
    with Distance(quorum) as distance:
        env = {"REDLOCK_NODES": distance.nodes}
        redlock("acquire", "-n", "-t", "200ms", "--timeout", "5s", "k", env=env).expect(
            69, out="", err="k is not held: after .* ms without a quorum too little of the TTL of 200 ms "
            "was left; use a longer --ttl")
        redlock("run", "-n", "-t", "300ms", "--timeout", "5s", "k", "true", env=env).expect(
            69, out="", err="too little of the TTL of 300 ms was left for --kill-after; use a longer --ttl")
        redlock("run", "-n", "-t", "10s", "--timeout", "5s", "k", "true", env=env).expect(0)


lab.main(servers=3)

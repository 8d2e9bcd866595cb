"""A host of the command whose machine is suspended, or paused with all its clocks.

test/support/clockshim.c gives its programs their clocks, and a Relay for each node brings what
they send, and the replies, which a test may hold back.
"""
import os
import signal
import socket
import threading
import time

import lab
from processes import is_alive, state
from wrongclock import WrongClock


class Relay:
    """Brings bytes between the clients of a unix socket and a node."""

    def __init__(self, node_path):
        self.node_path, self.path = node_path, lab.temporary("relay")
        self.held_until = 0  # by time.monotonic(): replies wait for that
        self.replies = 0     # that were brought since
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self._start(self._accept, listener)

    @staticmethod
    def _start(function, *args):
        threading.Thread(target=function, args=args, daemon=True).start()

    def _accept(self, listener):
        while True:
            client, node = listener.accept()[0], socket.socket(socket.AF_UNIX)
            try:
                node.connect(self.node_path)
            except OSError:  # the node has ended
                client.close()
                continue
            self._start(self._bring, client, node, False)
            self._start(self._bring, node, client, True)

    def _bring(self, source, target, replies):
        try:
            while data := source.recv(65536):
                while replies and (left := self.held_until - time.monotonic()) > 0:
                    time.sleep(left)
                target.sendall(data)
                self.replies += replies
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Host:
    """Programs that are started with environment() are on it. `clocks`: as WrongClock has it."""

    def __init__(self, quorum, clocks):
        self.clock = WrongClock(lab.temporary("clock"), clocks)
        self.relays = [Relay(server.path) for server in quorum.servers]

    def environment(self):
        nodes = ",".join(f"unix://{relay.path}" for relay in self.relays)
        return {**self.clock.environment(), "REDLOCK_NODES": nodes}

    def pids(self):
        """Its living programs."""
        word = f"CLOCK_SHIM_FILE={self.clock.path}".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if word in file.read().split(b"\0") and is_alive(pid):
                        found.append(int(pid))
            except OSError:
                pass  # it has ended meanwhile
        return found

    def stand_still(self, seconds, delays):
        """For so long; then node i's replies come after delays[i]."""
        pids = self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        lab.wait_for(lambda: all(state(pid) in ("T", "") for pid in pids), "a host that stands still")
        begun = time.monotonic_ns()
        time.sleep(seconds)
        for relay, delay in zip(self.relays, delays):
            relay.replies, relay.held_until = 0, time.monotonic() + delay
        self.clock.jump((begun - time.monotonic_ns()) // 1000)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def wait_for_replies(self, count):
        """So many have come from each node since it stood still."""
        lab.wait_for(lambda: all(time.monotonic() > relay.held_until and relay.replies >= count
                                 for relay in self.relays), "replies of all nodes")

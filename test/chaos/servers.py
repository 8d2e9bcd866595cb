"""The servers, and the network between them and the clients."""
import concurrent.futures
import os
import shutil
import subprocess
import threading
import time

import lab

NODES = 5
PASSWORD = "secret"
USER = ("on", f">{PASSWORD}", "~*", "&*", "+@all")
REPLY_S = 30  # a server may be stopped, pause or sleep, and the machine be busy
MARKER = "!marker"

# A process ends with the thread that started it, as lab.spawn() asks: faults are threads.
spawner = concurrent.futures.ThreadPoolExecutor(1)


def now_us():
    return time.monotonic_ns() // 1000


class Server(lab.Server):
    """One that can come back empty, from its AOF, or from an old snapshot."""

    def __init__(self, home, index, clock):
        super().__init__(home, index, clock=clock)
        self.words += ["--user", "lock", *USER, "--enable-debug-command", "local",
                       "--dbfilename", f"{index}.rdb", "--appenddirname", f"aof-{index}"]
        self.snapshot = os.path.join(home, f"{index}.rdb")
        self.voted = False  # when it last replied
        self.restored = 0  # when it came back with old keys, in s

    def begin(self):
        spawner.submit(super().begin).result()

    def call(self, *words, timeout=REPLY_S):
        """By a connection of its own: the last one may be stuck."""
        with lab.Redis(self.path, timeout=timeout) as redis:
            return redis.call(*words)

    def is_ready(self):
        return super().is_ready() and "\nloading:0" in self.call("INFO", "persistence")

    def restart(self, *words):
        """Killed, and started with these options besides."""
        self.kill()
        usual, self.words = self.words, [*self.words, *words]
        try:
            self.start()
        finally:
            self.words = usual

    def tokens(self):
        """(key, token) of all that locks store here."""
        with lab.Redis(self.path, timeout=REPLY_S) as redis:
            for key in redis.call("KEYS", "*"):
                if key.rpartition("!")[2] in ("marker", "fence", "queue", "intents"):
                    continue
                kind = redis.call("TYPE", key)
                reads = {"string": ("GET", key), "zset": ("ZRANGE", key, 0, -1),
                         "hash": ("HKEYS", key)}
                found = redis.call(*reads[kind]) if kind in reads else []
                for token in found if isinstance(found, list) else [found or ""]:
                    yield key, token

    def votes_now(self):
        """Its marker is active, and of this process."""
        try:
            marker = (self.call("GET", MARKER, timeout=1) or "").split()
            self.voted = (len(marker) > 6 and marker[1] == "sound" and
                          marker[6] in self.call("INFO", "server", timeout=1))
        except (OSError, lab.RedisError):
            return False
        return self.voted


class Network:
    """A way for each client to each node, through the relay."""

    def __init__(self, program):
        self.lock, self.ports = threading.Lock(), {}
        self.process = lab.spawn([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)

    def call(self, *words):
        with self.lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()

    def add(self, client, servers):
        """The URIs of the nodes for this client."""
        for index, server in enumerate(servers):
            self.ports[client, index] = self.call("way", f"{client}/{index}", server.path)
        return [f"redis://lock:{PASSWORD}@n{index}.node.test:{self.ports[client, index]}"
                for index in range(len(servers))]

    def each(self, client=None, index=None):
        """The names of these ways."""
        return [f"{one}/{node}" for one, node in self.ports
                if client in (None, one) and index in (None, node)]

    def stop(self, ways, direction):
        for way in ways:
            self.call("stop", way, direction)

    def go(self, ways):
        for way in ways:
            self.call("go", way)

    def cut(self, ways):
        for way in ways:
            self.call("cut", way)

    def lead_to(self, ways, server):
        for way in ways:
            self.call("to", way, server.path)


class Nodes:
    """Five servers, and those that take the place of one."""

    def __init__(self, network):
        self.home, self.network = lab.temporary("nodes"), network
        os.mkdir(self.home)
        self.servers = [self.make(index) for index in range(NODES)]
        self.made = NODES
        threading.Thread(target=self.watch, daemon=True).start()

    def make(self, index, snapshot=None):
        """With what is in the snapshot of another one."""
        clock = lab.WrongClock(os.path.join(self.home, f"{index}.clock"))
        server = Server(self.home, index, clock)
        if snapshot:
            shutil.copy(snapshot, server.snapshot)
        server.start()
        return server

    def another(self, snapshot=None):
        self.made += 1
        return self.make(self.made, snapshot)

    def uris(self):
        return [server.uri for server in self.servers]

    def all_vote(self):
        """Those that do not reply as they did before."""
        return all(server.voted for server in self.servers)

    def watch(self):
        while True:
            for server in list(self.servers):
                server.votes_now()
            time.sleep(0.2)

"""The servers of one try, and those who use them: holders, long-lived clients, fresh processes.

All times are of CLOCK_MONOTONIC in s.
"""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import lab
import servers
from fencing import marker
from processes import is_alive, state_and_parent

MAX_TTL_S = 5
QUARANTINE_S = 12.1  # max(MAX_TTL_S and its drift, 11 s), and a tenth: docs/safety.md
LIMIT_S = 3 * QUARANTINE_S + 10  # what has not come back by then needs a human
SETTLED_S = MAX_TTL_S + 2  # a holder that has not extended by then has lost its lock
CALM_S = 3  # without a failure: it is back
EXTENSION_S = MAX_TTL_S / 3
TURN_US = 200000
GAP_S = 1  # between two turns of a long-lived client: no lock can be had
FRESH_WAIT, FRESH_PAUSE_S = "1s", 0.2
IDLE_US = 2000000000
KINDS = {"plain": ["run"], "fenced": ["run", "--fence"], "elect": ["elect"]}
MODES = {"plain": "exclusive", "fenced": "fenced"}  # of turns.c
NOTE = 'read up rest < /proc/uptime; echo "$$ $up" >> "$1"; exec sleep 1000'


class Client:
    process = None

    def end(self):
        self.process.kill()
        self.process.wait()


class Holder(Client):
    """A `redlock run` or `elect` whose command runs on, and notes each time that it begins."""

    def __init__(self, kind, key, env):
        self.log = pathlib.Path(lab.temporary(kind))
        self.messages = pathlib.Path(lab.temporary("messages"))
        with open(self.messages, "wb") as messages:
            self.process = lab.start(*KINDS[kind], "-t", f"{MAX_TTL_S}s", key, "sh", "-c", NOTE,
                                     "sh", str(self.log), env=env, stderr=messages,
                                     stdout=subprocess.DEVNULL)

    def begun(self):
        """(pid, time) of each command."""
        offset = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(int(pid), float(at) - offset) for pid, at in map(str.split, lines)]

    def holds(self):
        begun = self.begun()
        return bool(begun) and self.process.poll() is None and is_alive(begun[-1][0])

    def lived(self):
        return self.holds() and len(self.begun()) == 1

    def why(self):
        """What it said if it lost its lock."""
        lines = self.messages.read_text(errors="replace").splitlines()
        return [] if self.lived() else [line for line in lines if " is lost" in line][:1] or lines

    def recovered(self, since):
        """The seconds until it held again; None: it does not hold."""
        return max(0, self.begun()[-1][1] - since) if self.holds() else None


class LongLived(Client):
    """A client that takes a lock and releases it, again and again."""

    def __init__(self, mode, key, pause_us, env):
        self.log = pathlib.Path(lab.temporary(mode))
        with open(self.log, "wb") as output:
            self.process = lab.spawn([turns, mode, "0", str(pause_us), "0", key], stdout=output,
                                     stderr=subprocess.DEVNULL, env=lab.environment(env))

    def acquired(self):
        return [int(at) / 1e6 for at in re.findall(r"^(\d+) acquired ", self.log.read_text(),
                                                   re.MULTILINE)]

    def recovered(self, since):
        times = [*self.acquired(), time.monotonic()]
        later = [at for at in times[:-1] if at >= since]
        ends = [after for before, after in zip(times, times[1:])
                if after > since and after - before > GAP_S]
        if not later or times[-1] in ends:
            return None
        return max(later[0], *ends) - since if ends else later[0] - since


class Fresh(Client):
    """One process after the other that takes a lock for a moment."""

    def __init__(self, kind, env):
        self.log = pathlib.Path(lab.temporary("fresh"))
        self.log.touch()
        self.pid = os.fork()
        if self.pid == 0:
            lab.die_with_us()
            self.live(kind, env)

    def live(self, kind, env):
        count = 0
        while True:
            count += 1
            begun = time.monotonic()
            code = subprocess.run([lab.program, *KINDS[kind], "-q", "-w", FRESH_WAIT, "-t", "2s",
                                   f"fresh:{kind}:{count}", "true"], env=lab.environment(env),
                                  stdin=subprocess.DEVNULL, capture_output=True).returncode
            with open(self.log, "a", encoding="ascii") as log:
                log.write(f"{begun} {time.monotonic()} {code}\n")
            time.sleep(FRESH_PAUSE_S)

    def acquired(self):
        return [end for end, code in self.attempts() if code == 0]

    def attempts(self):
        return [(float(end), int(code)) for _, end, code in
                map(str.split, self.log.read_text().splitlines())]

    def recovered(self, since):
        since_failure = None
        for end, code in self.attempts():
            if end >= since and (code or since_failure is None):
                since_failure = None if code else end
        return since_failure and since_failure - since

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def tree(pid):
    """The process and all its descendants."""
    parents = {int(name): state_and_parent(name)[1] for name in os.listdir("/proc")
               if name.isdigit()}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


class Host:
    """Where clients run that are suspended, paused or cut off together."""

    def __init__(self, deployment, clocks):
        self.network = servers.Network(relay)
        self.ways = [f"host/{index}" for index in range(len(deployment.quorum.servers))]
        ports = [self.network.call("way", way, server.path)
                 for way, server in zip(self.ways, deployment.quorum.servers)]
        self.clock = lab.WrongClock(lab.temporary("clock"), clocks)
        self.env = {"REDLOCK_NODES": ",".join(f"redis://127.0.0.1:{port}" for port in ports)}
        if clocks:
            self.env.update(self.clock.environment())
        self.clients = []

    def signal(self, number):
        for client in self.clients:
            for pid in tree(client.process.pid):
                os.kill(pid, number)

    def sleep(self, seconds, apart_s):
        """The host sleeps; then each node gets its commands so much after the one before."""
        self.signal(signal.SIGSTOP)
        begun = time.monotonic()
        for way in self.ways:
            self.network.call("stop", way, "in")
        time.sleep(seconds)
        self.clock.jump(-int((time.monotonic() - begun) * 1e6))
        self.signal(signal.SIGCONT)
        woken = time.monotonic()
        for index, way in enumerate(self.ways):
            time.sleep(max(0, woken + apart_s * index - time.monotonic()))
            self.network.call("go", way)
        return woken

    def partition(self, seconds):
        for direction in ("in", "out"):
            self.network.stop(self.ways, direction)
        time.sleep(seconds)
        self.network.go(self.ways)


class Deployment:
    """`row` says what the servers keep, and who uses them where; see rows.py."""

    def __init__(self, row, count, prng):
        self.row, self.prng = row, prng
        make = lab.durable if row.keeps else lab.Quorum
        self.quorum = make(count)
        self.config = os.path.join(self.quorum.home, "redlock.conf")
        durable = "yes" if row.keeps else "no"
        lab.write(self.config, f"max-ttl = {MAX_TTL_S}s\ndurable = {durable}\n")
        self.q = count // 2 + 1
        self.replica = None
        self.host = None
        self.served = []  # when each node that was restarted served again
        self.clients, self.holders, self.probes = [], {}, {}
        self.leaders = []  # and those who wait for the lead

    def __enter__(self):
        self.quorum.start()
        if self.row.fails_over:
            self.replicate()
        promise = ["--promise", self.row.promise] if self.row.promise else []
        if self.row.kinds != ("plain",):
            self.redlock("admit", "--new", "--at-once", *promise).expect(0)
        if self.row.fails_over == "lost":
            self.part_from_replica()
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.end()
        if self.host:
            self.host.network.process.kill()
            self.host.network.process.wait()
        if self.replica:
            self.replica.kill()
        self.quorum.__exit__()

    def env(self):
        more = {"DURABLE": "1"} if self.row.keeps else {}
        return {"REDLOCK_NODES": self.quorum.nodes, "REDLOCK_CONFIG": self.config,
                "MAX_TTL_MS": str(MAX_TTL_S * 1000), **more}

    def redlock(self, *words):
        return lab.redlock(*words, env=self.env())

    def add(self, who, what, *words):
        """A client, on the host if the row says so of those."""
        env = self.env()
        if who in self.row.on_host:
            env.update(self.host.env)
        client = what(*words, env)
        self.clients.append(client)
        if who in self.row.on_host:
            self.host.clients.append(client)
        return client

    def populate(self):
        """Holders hold on all nodes, and all others have had a lock."""
        kinds, on_host = self.row.kinds, self.row.on_host
        if on_host:
            self.host = Host(self, self.row.clocks)
        self.holders = {kind: self.add("holder", Holder, kind, f"held:{kind}") for kind in kinds}
        lab.wait_for(lambda: all(holder.holds() for holder in self.holders.values()), "holders")
        self.leaders = [self.holders["elect"]] if "elect" in kinds else []
        if "waiter" in on_host:
            self.leaders.append(self.add("waiter", Holder, "elect", "held:elect"))
        if "idle" in on_host:
            idle = self.add("idle", LongLived, "fenced", "idle", IDLE_US)
            lab.wait_for(idle.acquired, "a client that is idle")
        for kind in (kind for kind in kinds if kind in MODES):
            self.probes["long", kind] = self.add("client", LongLived, MODES[kind], f"long:{kind}",
                                                 TURN_US)
            self.probes["fresh", kind] = self.add("fresh", Fresh, kind)
        lab.wait_for(lambda: all(one.acquired() for one in self.probes.values()), "first locks")
        lab.wait_for(lambda: all(None not in self.quorum.values(f"held:{kind}")
                                 for kind in kinds), "a lock on all nodes")

    # --- faults ---

    def kill(self, *indexes, wiped=()):
        self.quorum.kill(*indexes)
        for index in wiped:
            self.wipe(index)

    def wipe(self, index):
        folder = pathlib.Path(self.quorum.home, f"aof{index}")
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def start(self, *indexes):
        waiting = [self.quorum[index] for index in indexes]
        for server in waiting:
            server.begin()
        while waiting:
            ready = [server for server in waiting if server.is_ready()]
            self.served += [time.monotonic()] * len(ready)
            waiting = [server for server in waiting if server not in ready]
            time.sleep(0.005)

    def replicate(self):
        """Node 0 gets a replica."""
        master = self.quorum[0]
        master.call("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        self.replica = lab.Server(self.quorum.home, len(self.quorum.servers),
                                  ["--replicaof", "127.0.0.1", str(master.listen())])
        self.replica.start()
        lab.wait_for(lambda: "master_link_status:up" in self.replica.call("INFO", "replication"),
                     "a replica")

    def part_from_replica(self):
        """The replica misses all that comes."""
        lab.wait_for(lambda: marker(self.replica), "a marker on the replica")
        self.quorum[0].call("CONFIG", "SET", "port", "0")
        self.quorum[0].call("CLIENT", "KILL", "TYPE", "replica")

    def fail_over(self):
        """The replica takes the place of node 0, behind the same address."""
        master = self.quorum[0]
        if self.row.fails_over == "kept":
            keys = master.call("KEYS", "held:*")
            lab.wait_for(lambda: self.replica.call("EXISTS", *keys) == len(keys), "a copy")
        master.kill()
        self.replica.call("REPLICAOF", "NO", "ONE")
        os.rename(self.replica.path, master.path)
        self.replica.path = master.path
        self.quorum.servers[0], self.replica = self.replica, None
        self.served.append(time.monotonic())

    # --- what came of it ---

    def served_since(self, what):
        """When the last of the restarted nodes served again, or as many as make a "quorum"."""
        served = sorted(self.served)
        needed = self.q - (len(self.quorum.servers) - len(served))
        return served[max(needed, 1) - 1] if what == "quorum" else served[-1]

    def markers(self):
        return [marker(server) for server in self.quorum.servers]

    def led(self, since):
        times = [one.recovered(since) for one in self.leaders]
        return min((at for at in times if at is not None), default=None)

    def recovered(self, since):
        """{(who, kind): in how many seconds a lock could be had again, or None}"""
        times = {name: probe.recovered(since) for name, probe in self.probes.items()}
        return {**times, ("led", "elect"): self.led(since)} if self.leaders else times

    def watch(self, since):
        """Which holders lived, and recovered(); what has settled counts, whatever comes later."""
        begun, found = time.monotonic(), {}
        time.sleep(SETTLED_S)
        lived = {kind: {"lived": holder.lived(), "why": holder.why()}
                 for kind, holder in self.holders.items()}
        while True:
            times, now = self.recovered(since), time.monotonic()
            for name, at in times.items():
                if at is not None and now > since + at + CALM_S:
                    found.setdefault(name, at)
            if len(found) == len(times) or now > begun + LIMIT_S:
                return lived, {name: found.get(name) for name in times}
            time.sleep(0.2)


turns = relay = None  # the programs of these names


def play(row, count, prng):
    """What one try shows, for each kind of lock."""
    with Deployment(row, count, prng) as deployment:
        deployment.populate()
        time.sleep(prng.uniform(0, EXTENSION_S))
        before = deployment.markers()
        begun = time.monotonic()
        since = row.fault(deployment)
        if since is None:
            since = deployment.served_since(row.since)
        lived, times = deployment.watch(since)
        changed = sum(one != other for one, other in zip(before, deployment.markers()))
        return [{"kind": kind, **lived[kind], "markers_changed": changed, "nodes": count,
                 "fault_s": round(since - begun, 3),
                 **{f"{who}_s": at for (who, of), at in times.items() if of == kind}}
                for kind in row.kinds]

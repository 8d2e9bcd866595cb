"""What goes wrong, and when: a schedule that a seed draws.

A fault is a generator: it breaks something, yields for how many seconds, and mends it. Those of
LOSSES lose what a node stored, or its clock: at most one per quarantine. The others may fall
together, but on different nodes.
"""
import contextlib
import dataclasses
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable

import lab
import servers
from servers import now_us

QUARANTINE_S = 12.2  # with TTLs up to 10 s
VOTES_S = 90  # until all nodes vote again, on a busy machine
SQUEEZE_S = 0.3, 1.0


class Arena:
    """What a fault may break; it has its node or its client for itself."""

    def __init__(self, schedule, node, client, seed):
        self.schedule, self.team, self.nodes, self.network = (
            schedule, schedule.team, schedule.nodes, schedule.network)
        self.node, self.client, self.prng = node, client, random.Random(seed)

    @property
    def server(self):
        return self.nodes.servers[self.node]

    @contextlib.contextmanager
    def squeezed(self):
        """Mostly two other nodes miss what happens before this, and nothing after it."""
        with self.schedule.lock:
            free = [i for i in range(len(self.nodes.servers)) if i not in self.schedule.nodes_busy]
            others = free[:2] if self.prng.random() < 0.7 else []
            self.schedule.nodes_busy |= set(others)
        for index in others:
            self.nodes.servers[index].stop()
        time.sleep(self.prng.uniform(*SQUEEZE_S) if others else 0)
        yield
        for index in others:
            self.nodes.servers[index].go_on()
        with self.schedule.lock:
            self.schedule.nodes_busy -= set(others)

    def some_ways(self):
        """Of all clients to this node, or of one."""
        client = self.prng.choice([None, *range(len(self.team.clients))])
        return self.network.each(client, self.node)


# --- nodes: nothing is lost ---

def stop_server(arena):
    arena.server.stop()
    yield arena.prng.uniform(0.1, 2.5)
    arena.server.go_on()


def pause_commands(arena):
    ms = arena.prng.randrange(100, 2500)
    arena.server.call("CLIENT", "PAUSE", ms, arena.prng.choice(["WRITE", "ALL"]))
    yield ms / 1000


def debug_sleep(arena):
    seconds = arena.prng.uniform(0.1, 2)
    arena.server.call("DEBUG", "SLEEP", f"{seconds:.3f}")
    yield 0


def kill_connections(arena):
    arena.server.call("CLIENT", "KILL", "TYPE", "normal")
    yield 0


def kill_subscribers(arena):
    arena.server.call("CLIENT", "KILL", "TYPE", "pubsub")
    yield 0


def no_memory(arena):
    arena.server.call("CONFIG", "SET", "maxmemory", 1)
    yield arena.prng.uniform(0.5, 3)
    arena.server.call("CONFIG", "SET", "maxmemory", 0)


def flush_scripts(arena):
    arena.server.call("SCRIPT", "FLUSH")
    yield 0


def change_rights(arena):
    rule = arena.prng.choice(["-evalsha -eval", "-set", "-publish", "off", ">other <secret",
                              "-subscribe", "-@all"])
    arena.server.call("ACL", "SETUSER", "lock", *rule.split())
    if arena.prng.random() < 0.5:
        arena.server.call("CLIENT", "KILL", "USER", "lock")
    yield arena.prng.uniform(0.5, 3)
    arena.server.call("ACL", "SETUSER", "lock", "reset", *servers.USER)


def one_way(arena):
    ways = arena.some_ways()
    arena.network.stop(ways, arena.prng.choice(["in", "out"]))
    yield arena.prng.uniform(0.3, 3)
    arena.network.go(ways)


def cut(arena):
    arena.network.cut(arena.some_ways())
    yield 0


def slew(arena):
    arena.server.clock.slew(arena.prng.choice([-4000, 4000]))
    yield arena.prng.uniform(1, 5)
    arena.server.clock.slew(0)


def no_names(arena):
    """And connections that need them. A lookup fails, or does not end."""
    path = arena.team.folder / arena.prng.choice(["names-fail", "names-silent"])
    path.touch()
    arena.network.cut(arena.some_ways())
    yield arena.prng.uniform(1, 4)
    path.unlink(missing_ok=True)


def from_aof(arena):
    server = arena.server
    server.call("CONFIG", "SET", "appendfsync", "always")
    server.call("CONFIG", "SET", "appendonly", "yes")
    lab.wait_for(lambda: "aof_rewrite_in_progress:0" in server.call("INFO", "persistence") and
                 "aof_rewrite_scheduled:0" in server.call("INFO", "persistence"), "the AOF")
    yield arena.prng.uniform(0.2, 1)
    server.restart("--appendonly", "yes")
    server.call("CONFIG", "SET", "appendonly", "no")


# --- nodes: something is lost ---

def restart_empty(arena):
    if os.path.exists(arena.server.snapshot):
        os.unlink(arena.server.snapshot)
    with arena.squeezed():
        arena.server.restart()
    yield 0


def from_old_snapshot(arena):
    arena.server.call("SAVE")
    yield arena.prng.uniform(0.2, 3)
    with arena.squeezed():
        arena.server.restart()
    arena.server.restored = time.monotonic()


def flush(arena):
    with arena.squeezed():
        arena.server.call("FLUSHALL")
    yield 0


def swap(arena):
    """What was there may come back with the next one."""
    with arena.squeezed():
        arena.server.call("SWAPDB", 0, 7)
    arena.server.restored = time.monotonic()
    yield 0


def delete_key(arena):
    """Not the key of a fenced lock: that breaks assumption A5, and F2."""
    marker = arena.prng.random() < 0.5
    keys = [key for key in arena.server.call("KEYS", "*")
            if key.startswith("p") or key.endswith("!queue")] or ["p:0"]
    arena.server.call("DEL", servers.MARKER if marker else arena.prng.choice(sorted(keys)))
    yield 0


def set_clock(arena):
    """Back, or ahead by so much that each client sees it."""
    us = arena.prng.choice([-3600, -30, -3, 3, 30, 3600]) * 1000000
    arena.server.clock.jump(us)
    yield arena.prng.uniform(0.5, 4)
    arena.server.clock.jump(-us)


def replace(arena):
    """The command is refused while another node has no vote, or is silent: then once more."""
    old, new = arena.server, arena.nodes.another()
    processes = [start_replacing(arena, new)]

    def has_index():
        if processes[-1].poll() is not None:
            processes.append(start_replacing(arena, new))
        return new.call("GET", servers.MARKER)
    lab.wait_for(has_index, "a member index", VOTES_S)
    meet_new(arena, new)
    for process in processes[:-1]:
        done = lab.finish(process)
        lab.check(done.code in (69, 75), f"exit {done.code}: {done}")
    lab.finish(processes[-1]).expect(0)
    arena.nodes.servers[arena.node] = new
    yield arena.prng.uniform(0, 2)
    finish(arena, old)


def start_replacing(arena, new):
    return lab.start("admit", "--replace", f"{arena.server.uri}={new.uri}", "-w", f"{VOTES_S}s",
                     env={"REDLOCK_NODES": ",".join(arena.nodes.uris())})


def fail_over(arena):
    """To a copy of some time ago; the old server lives on for a while."""
    old = arena.server
    old.call("SAVE")
    yield arena.prng.uniform(0, 1)
    new = arena.nodes.another(old.snapshot)
    new.restored = time.monotonic()
    meet_new(arena, new)
    arena.nodes.servers[arena.node] = new
    time.sleep(arena.prng.uniform(0, 1))  # far less than a quarantine without the longest TTL
    finish(arena, old)


def meet_new(arena, new):
    """Some clients meet the new server behind the address before the others do."""
    ways = arena.network.each(None, arena.node)
    arena.prng.shuffle(ways)
    arena.network.lead_to(ways[:arena.prng.randrange(len(ways))], new)


def finish(arena, old):
    """All others meet it."""
    arena.network.lead_to(arena.network.each(None, arena.node), arena.server)
    old.kill()


# --- clients ---

def kill_client(arena):
    arena.client.kill()
    yield 0


def stop_client(arena):
    """Mostly past the deadlines of what it holds."""
    arena.client.stop()
    yield arena.prng.choice([0.3, 1, 1.5, 2.5, 4])
    arena.client.go_on()


def set_client_clock(arena):
    """No time of day of a client counts."""
    arena.client.clock.jump(arena.prng.choice([-3600, -5, 5, 3600]) * 1000000)
    arena.client.clock.slew(arena.prng.choice([-50000, 0, 50000]))
    yield 0


def kill_pipe(arena):
    """Its application lives, and starts another one."""
    arena.client.signal_pipe(signal.SIGKILL)
    arena.team.started[arena.client.name()].append(now_us())
    yield 0


def stop_pipe(arena):
    arena.client.signal_pipe(signal.SIGSTOP)
    yield arena.prng.choice([0.3, 1, 2.5, 4])
    arena.client.signal_pipe(signal.SIGCONT)


HARMLESS = (stop_server, pause_commands, debug_sleep, kill_connections, kill_subscribers,
            no_memory, flush_scripts, change_rights, one_way, one_way, cut, slew, no_names)
RESTARTS = (from_aof,)
LOSSES = (restart_empty, restart_empty, from_old_snapshot, flush, swap, delete_key, set_clock,
          replace, fail_over)
# Plain clients see these by the run_id (docs/safety.md, rule 8). Not replace(): two servers are
# behind an address for longer than a quarantine, which breaks A4.
SEEN = (restart_empty, from_old_snapshot, fail_over)
CLIENTS = (kill_client, stop_client, stop_client, set_client_clock)
PIPES = (kill_pipe, kill_pipe, stop_pipe, kill_client)  # of clients by a pipe, too
KEPT = 2  # clients that are never killed: the longest-lived ones


@dataclasses.dataclass
class Told:
    """A fault that has begun."""
    begin: int
    fault: Callable
    node: int | None
    client: str | None
    end: float = float("inf")

    def __str__(self):
        return (f"{self.begin} {self.end} {self.fault.__name__} node={self.node} "
                f"client={self.client}")


class Schedule:
    """Begins faults until it is told to rest."""

    def __init__(self, team, nodes, network, seed, only=()):
        self.team, self.nodes, self.network = team, nodes, network
        self.prng, self.only = random.Random(seed), only
        self.log, self.failure = [], None
        self.lock = threading.Lock()
        self.nodes_busy, self.clients_busy = set(), set()
        self.broken = 0  # faults that are not mended yet
        self.losing = self.restarting = False

    def choose(self, faults):
        allowed = [one for one in faults if not self.only or one.__name__ in self.only]
        return self.prng.choice(allowed) if allowed else None

    def step(self):
        """Begins one if it may fall now; the draws are the same if not."""
        dice, seed = self.prng.random(), self.prng.randrange(1 << 30)
        fault = self.choose(CLIENTS if dice < 0.25 else RESTARTS if dice < 0.28 else HARMLESS)
        loss = self.choose(LOSSES)
        node = self.prng.randrange(len(self.nodes.servers))
        client = self.prng.choice(self.team.clients)
        if fault in CLIENTS and client.interface == "pipe":
            fault = self.choose(CLIENTS + PIPES)
        with self.lock:
            if loss and not self.losing and node not in self.nodes_busy and self.nodes.all_vote():
                self.begin(loss, seed, node=node)
            elif fault in CLIENTS + PIPES:
                is_kept = fault is kill_client and client.index < KEPT
                if not is_kept and client.index not in self.clients_busy:
                    self.begin(fault, seed, client=client)
            elif fault and node not in self.nodes_busy and not (fault in RESTARTS and
                                                                self.restarting):
                self.begin(fault, seed, node=node)

    def begin(self, fault, seed, node=None, client=None):
        told = Told(now_us(), fault, node, client and client.name())
        self.log.append(told)
        self.broken += 1
        self.losing |= fault in LOSSES
        self.restarting |= fault in RESTARTS
        self.nodes_busy |= {node} - {None}
        self.clients_busy |= {client.index} if client else set()
        threading.Thread(target=self.run, args=(told, Arena(self, node, client, seed)),
                         daemon=True).start()

    def run(self, told, arena):
        fault, begun = told.fault, time.monotonic()
        try:
            steps = fault(arena)
            time.sleep(next(steps))
            next(steps, None)
            told.end = now_us()
            self.mended()
            if fault in LOSSES + RESTARTS:
                lab.wait_for(arena.server.votes_now, "the vote of the node", VOTES_S)
            if fault in LOSSES:
                time.sleep(max(0, begun + QUARANTINE_S - time.monotonic()))
        except Exception:
            self.failure = f"{fault.__name__}: {traceback.format_exc()}"
        with self.lock:
            self.losing &= fault not in LOSSES
            self.restarting &= fault not in RESTARTS
            self.nodes_busy -= {arena.node}
            self.clients_busy -= {arena.client.index} if arena.client else set()

    def mended(self):
        with self.lock:
            self.broken -= 1

    def losses(self):
        return [told for told in self.log if told.fault in LOSSES]

    def heal(self):
        """Until nothing is broken; nodes may still be in quarantine."""
        lab.wait_for(lambda: self.broken == 0 or self.failure, "the ends of faults", 2 * VOTES_S)
        lab.check(not self.failure, self.failure)

"""What client.c is for the clients in C, for those in Python: turns, the history, the resource."""
import dataclasses
import fcntl
import itertools
import os
import random
import struct
import time

KEYS, KEYS_SLOT, SLOTS = 6, 2, 3
MAX_S = 10  # the longest TTL

NAME, FOLDER = os.environ["CHAOS_NAME"], os.environ["CHAOS_FOLDER"]
PAUSE_S = int(os.environ["CHAOS_PAUSE_US"]) / 1e6
NODES = os.environ["REDLOCK_NODES"].split(",")

prng = random.Random(int(os.environ["CHAOS_SEED"]))
numbers = itertools.count(1)
history = os.open(f"{FOLDER}/{NAME}.history", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def pauses():
    return os.path.exists(f"{FOLDER}/pause")


def pause_s():
    return PAUSE_S / 2 + prng.random() * PAUSE_S


def put(*words):
    os.write(history, (" ".join(map(str, words)) + "\n").encode())


def note_idle(greeted):
    """The client is idle, and connected to so many nodes."""
    put("idle", f"{NAME}:0", now_us(), now_us(), greeted, "-", "-", 0, 0)


@dataclasses.dataclass
class Turn:
    kind: str  # exclusive, set, redisson, shared, slot, election
    fenced: bool
    keys: list
    ttl: float = 2
    wait: float = 3
    hold: float = 0.002
    way: str = "brief"
    slot: int = 0
    fence: int = 0
    token: str = ""

    def __post_init__(self):
        self.holder = f"{NAME}:{next(numbers)}"
        self.begin = now_us()

    def note(self, what, begin, end, result, until=0, keys=None):
        kind = f"slots={SLOTS}:{self.slot}" if self.kind == "slot" else self.kind
        put(what, self.holder, begin, end, result, self.token or "-",
            "fenced-" * self.fenced + kind, self.fence, until, *(keys or self.keys))

    def use(self, until):
        """The resource compares tokens. until(): the deadline, or 0."""
        reads = self.kind == "shared"
        for key in self.keys if self.fenced else ():
            begin = now_us()
            accepted = offer(f"{key}!{self.slot}" if self.slot else key, reads, self.fence)
            end = now_us()
            self.note("read" if reads else "write", begin, end,
                      "accepted" if accepted else "refused", until(), [key])


def offer(name, reads, fence):
    file = os.open(f"{FOLDER}/resource-{name}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        most, most_of_writers = struct.unpack("@qq", os.pread(file, 16, 0).ljust(16, b"\0"))
        accepted = fence >= (most_of_writers if reads else most)
        if accepted:
            os.pwrite(file, struct.pack("@qq", max(most, fence),
                                        most_of_writers if reads else fence), 0)
        return accepted
    finally:
        os.close(file)


def choose():
    kind = prng.choice(os.environ["CHAOS_KINDS"].split(","))
    fenced = kind.startswith("fenced-") or kind == "election"
    kind = kind.removeprefix("fenced-")
    if kind == "shared" and prng.random() < 0.25:
        kind = "exclusive"
    group = {"slot": "fs" if fenced else "ps", "election": "e"}.get(kind, "f" if fenced else "p")
    count = prng.choice([2, 3]) if kind == "set" else 1
    room = KEYS if len(group) == 1 and group != "e" else KEYS_SLOT
    keys = [f"{group}:{number}" for number in prng.sample(range(room), count)]
    ttl = 8 if prng.random() < 1 / 8 else prng.choice([0.5, 1, 2])
    turn = Turn(kind, fenced, keys, ttl, prng.choice([0, 0.3, 0.6, 1]), prng.uniform(0, 0.005))
    turn.way = prng.choices(["brief", "extend", "long", "stall", "read"], [20, 6, 2, 1, 3])[0]
    if turn.way == "read" and kind != "exclusive" or turn.way in ("long", "stall") and ttl == 8:
        turn.way = "brief"
    turn.hold = {"extend": ttl * prng.uniform(0.1, 0.4), "long": ttl * 1.5,
                 "stall": ttl + prng.random() * 0.3}.get(turn.way, turn.hold)
    return turn


def probe(fenced):
    return Turn("exclusive", fenced, [f"{'fx' if fenced else 'px'}:{NAME}"])

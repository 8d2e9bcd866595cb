"""A client by `redlock pipe`: an application with its wrapper (docs/pipe.md), and two tasks."""
import asyncio
import json
import os
import signal
import subprocess
import time

import turns
from turns import now_us

TASKS = 2
LINE_MAX = 1 << 20
CANCELS = 0.1  # of all waits
COMMAND = [os.environ["CHAOS_REDLOCK"], "--label", turns.NAME, "--max-ttl", f"{turns.MAX_S}s",
           "pipe", "--parent", str(os.getpid())]


class Refused(Exception):
    """With the code of the reply."""


def from_boot(boot_us):
    """A time on CLOCK_BOOTTIME, on the clock of the history; rather too early than too late."""
    now = now_us()
    return boot_us - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 + now


class Hold:
    def __init__(self, pipe, turn, number):
        self.pipe, self.turn, self.number, self.until, self.lost = pipe, turn, number, 0, None

    def deadline(self):
        return 0 if self.lost or self.until <= now_us() else self.until

    def lose(self, code):
        if not self.lost:
            self.lost = code
            self.turn.note("loss", now_us(), now_us(), code)


class Pipe:
    def __init__(self):
        self.process, self.open, self.holds, self.last_id = None, {}, {}, 0

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=LINE_MAX,
            env={**os.environ, "LD_PRELOAD": os.environ["CHAOS_SHIMS"]})
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        line = b"\n"
        while line.endswith(b"\n"):
            line = await self.process.stdout.readline()
            if line.endswith(b"\n"):
                self.take(json.loads(line))
        await self.process.wait()
        for hold in self.holds.values():
            hold.lose("PIPE_ENDED")
        for _, reply in self.open.values():
            reply.set_exception(Refused("PIPE_ENDED"))
        self.open = {}

    def take(self, line):
        notice, hold = line.get("notice"), self.holds.get(line.get("hold"))
        if notice == "until" and hold:
            self.renew(hold, line)
        elif notice == "lost" and hold:
            hold.lose(line["error"])
        elif not notice:
            turn, reply = self.open.pop(line["id"])
            if turn and "hold" in line:
                self.begin(turn, line)
            if "error" in line:
                reply.set_exception(Refused(line["error"]))
            else:
                reply.set_result(line)

    def begin(self, turn, line):
        hold = self.holds[line["hold"]] = Hold(self, turn, line["hold"])
        hold.until = from_boot(line["until_us"])
        turn.fence, turn.slot = line["fence"] or 0, line["slot"] or 0
        turn.note(turn.what, turn.begin, now_us(), "OK", hold.until)

    def renew(self, hold, line):
        hold.until = from_boot(line["until_us"])
        hold.turn.note("renew", now_us(), now_us(), "OK", hold.until)

    def ask(self, op, turn=None, **members):
        self.last_id += 1
        reply = asyncio.get_running_loop().create_future()
        self.open[self.last_id] = turn, reply
        self.process.stdin.write((json.dumps({"id": self.last_id, "op": op, **members}) +
                                  "\n").encode())
        return reply


def members(turn):
    kinds = {"slot": {"slots": turns.SLOTS}, "exclusive": {}, "set": {}}
    found = {"key": turn.keys[0]} if len(turn.keys) == 1 else {"keys": turn.keys}
    if turn.way in ("long", "stall"):
        found["beat_ms"] = round(turn.ttl * 500)
    return {**found, **kinds.get(turn.kind, {"kind": turn.kind}), "fence": turn.fenced,
            "ttl_ms": round(turn.ttl * 1000), "wait_ms": round(turn.wait * 1000)}


class Program:
    def __init__(self):
        self.ends, self.busy, self.pipe = False, 0, None
        self.starts = asyncio.Lock()

    async def running(self):
        """The pipe; another one if it has ended."""
        async with self.starts:
            if not self.pipe or self.pipe.reader.done():
                self.pipe = Pipe()
                await self.pipe.start()
            return self.pipe

    async def turn(self, turn, what):
        pipe = await self.running()
        turn.what = what
        try:
            asked = pipe.ask("lock", turn, **members(turn))
            if what == "acquire" and turn.wait and turns.prng.random() < CANCELS:
                asyncio.get_running_loop().call_later(turn.wait / 2, cancel, pipe, pipe.last_id)
            hold = pipe.holds[(await asked)["hold"]]
        except Refused as why:
            turn.note(what, turn.begin, now_us(), why)
            return
        await use(turn, hold)

    async def run(self):
        while not self.ends:
            if not turns.pauses():
                self.busy += 1
                await self.turn(turns.choose(), "acquire")
                self.busy -= 1
            await asyncio.sleep(turns.pause_s())

    async def rest(self):
        """All was healed: plain locks work at once, fenced ones when the pause ends."""
        while self.busy and not self.ends:
            await asyncio.sleep(0.01)
        await self.turn(turns.probe(False), "probe")
        turns.note_idle(0)
        while turns.pauses() and not self.ends:
            await asyncio.sleep(0.02)
        await self.turn(turns.probe(True), "probe")

    async def main(self):
        def end():
            self.ends = True
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        tasks = [asyncio.create_task(self.run()) for _ in range(TASKS)]
        while not self.ends:
            if turns.pauses():
                await self.rest()
            await asyncio.sleep(0.05)
        await asyncio.gather(*tasks)
        self.pipe.process.stdin.close()
        await self.pipe.reader


def cancel(pipe, number):
    if number in pipe.open:
        pipe.ask("cancel", lock=number)


async def note(turn, what, hold, op, **more):
    """It begins before the pipe can read the request: after that another client may hold."""
    begin, code = now_us(), "OK"
    try:
        line = await hold.pipe.ask(op, hold=hold.number, **more)
        if what == "extend":
            hold.until = from_boot(line["until_us"])
    except Refused as why:
        code = why
    turn.note(what, begin, now_us(), code, hold.deadline() if code == "OK" else 0)


async def hold_long(turn, hold):
    """With beats, so that it is extended."""
    end = now_us() + turn.hold * 1e6
    while now_us() < end and not hold.lost:
        await asyncio.sleep(turn.ttl / 20)
        hold.pipe.ask("beat", hold=hold.number).add_done_callback(lambda reply: reply.exception())


async def use(turn, hold):
    """A stall without beats outlives the deadline; what it then writes must be refused."""
    turn.use(hold.deadline)
    if turn.way == "long":
        await hold_long(turn, hold)
    else:
        await asyncio.sleep(turn.hold)
    if turn.way == "extend" and not hold.lost:
        await note(turn, "extend", hold, "extend", ttl_ms=round(turn.ttl * 1000))
    turn.use(hold.deadline)
    if not hold.pipe.reader.done():
        await note(turn, "release", hold, "unlock")
    del hold.pipe.holds[hold.number]


asyncio.run(Program().main())

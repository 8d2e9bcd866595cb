"""A client by redlock_quorum for asyncio, with two tasks that lock."""
import asyncio
import signal

import redlock_quorum
import turns
from turns import now_us

TASKS = 2


class Program:
    def __init__(self):
        self.ends, self.busy = False, 0
        self.client = redlock_quorum.AsyncClient(
            turns.NODES, redlock_quorum.Options(label=turns.NAME, max_ttl=turns.MAX_S))

    def lock(self, turn):
        def lost(_hold, why):
            turn.note("loss", now_us(), now_us(), why.code)
        more = {"on_lost": lost, "timeout": turn.wait,
                "options": redlock_quorum.LockOptions(watchdog=turn.way == "long")}
        make, key = self.client, turn.keys[0]
        return {"exclusive": lambda: make.lock(key, turn.ttl, fenced=turn.fenced, **more),
                "redisson": lambda: make.lock(key, turn.ttl, redisson=True, **more),
                "set": lambda: make.lock_many(turn.keys, turn.ttl, fenced=turn.fenced, **more),
                "shared": lambda: make.shared(key, turn.ttl, fenced=turn.fenced, **more),
                "slot": lambda: make.slots(key, turns.SLOTS, turn.ttl, fenced=turn.fenced, **more),
                "election": lambda: make.election(key, turn.ttl, **more)}[turn.kind]()

    async def turn(self, turn, what):
        try:
            hold = await self.lock(turn).__aenter__()
        except redlock_quorum.RedlockError as error:
            turn.note(what, turn.begin, now_us(), error.code)
            return
        end = now_us()
        turn.fence, turn.slot, turn.token = hold.fence or 0, hold.slot or 0, hold.token
        turn.note(what, turn.begin, end, "OK", deadline(hold))
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
        told = False
        while turns.pauses() and not self.ends:
            nodes = await self.client.explain()
            greeted = sum(node.verdict in ("ready", "quarantined") for node in nodes)
            if not told and greeted == len(nodes):
                turns.note_idle(greeted)
                told = True
            await asyncio.sleep(0.05)
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
        await self.client.aclose()


def deadline(hold):
    now, left = now_us(), hold.valid_ms()
    return now + left * 1000 if left > 0 else 0


async def note(turn, what, hold, change):
    begin, code = now_us(), "OK"
    try:
        await change
    except redlock_quorum.RedlockError as error:
        code = error.code
    turn.note(what, begin, now_us(), code, deadline(hold) if code == "OK" else 0)


async def hold_long(turn, hold):
    end = now_us() + turn.hold * 1e6
    while now_us() < end and not hold.lost:
        await asyncio.sleep(turn.ttl / 20)
        now, until = now_us(), deadline(hold)
        if until:
            turn.note("renew", now, now, "OK", until)


async def use(turn, hold):
    turn.use(lambda: deadline(hold))
    if turn.way == "long":
        await hold_long(turn, hold)
    else:
        await asyncio.sleep(turn.hold)
    if turn.way == "extend":
        await note(turn, "extend", hold, hold.extend())
    elif turn.way == "read":
        turn.kind = "shared"
        await note(turn, "downgrade", hold, hold.downgrade())
    turn.use(lambda: deadline(hold))
    await note(turn, "release", hold, hold.release())


asyncio.run(Program().main())

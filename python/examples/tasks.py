"""A thousand locks that asyncio holds at a time: tasks.py redis://a redis://b redis://c"""
import asyncio
import sys

import redlock_quorum


async def main(nodes: list[str]) -> None:
    async with redlock_quorum.AsyncClient(nodes) as client:
        locks = [client.lock(f"task:{number}", ttl=30) for number in range(1000)]
        holds = await asyncio.gather(*(lock.acquire() for lock in locks))
        print(f"{sum(hold.valid() > 0 for hold in holds)} locks are held.")
        await asyncio.gather(*(hold.release() for hold in holds))


asyncio.run(main(sys.argv[1:]))

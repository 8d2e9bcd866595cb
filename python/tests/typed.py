"""What a typechecker knows of this interface: read by mypy --strict, and run by nobody."""
import asyncio
from typing import assert_type

import redlock_quorum as rq

client, tasks = rq.Client(), rq.AsyncClient()


@client.locked("k", timeout=5)
def add(number: int, *, text: str = "") -> float:
    """It keeps its signature."""
    return number + len(text)


@tasks.locked("k", timeout=5)
async def add_soon(number: int, *, text: str = "") -> float:
    return number + len(text)


assert_type(add(1, text="two"), float)
add("one")  # type: ignore[arg-type]
assert_type(asyncio.run(add_soon(1, text="two")), float)
asyncio.run(add_soon(1, test="two"))  # type: ignore[call-arg]
assert_type(client.lock("k").acquire(), rq.Hold)
assert_type(client.lock("k").acquire(timeout=5), rq.Hold | None)

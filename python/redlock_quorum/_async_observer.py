"""Who leads an election, for asyncio."""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from ._async_lease import call_in
from ._common import Leader, leader_of
from ._engine import Engine
from ._errors import RedlockError, make_error, of_last_call
from ._native import NULL, ffi, lib
from ._registry import Registry, argument, callback

_leaders: Registry[Callable[[Leader], object]] = Registry()


def _report_leader(_observer: Any, leader: Any, arg: Any) -> None:
    tell = _leaders.find(arg)
    if tell:
        tell(leader_of(leader))


_ON_LEADER = callback("void (*)(redlock_observer *, const redlock_leader *, void *)",
                      _report_leader)


async def observe(engine: Engine, key: bytes) -> AsyncIterator[Leader]:
    """Who leads the election, and each change, until the iteration is ended."""
    loop = asyncio.get_running_loop()
    changes: asyncio.Queue[Leader | RedlockError] = asyncio.Queue()
    number = _leaders.add(lambda leader: call_in(loop, changes.put_nowait, leader))
    handle: list[Any] = []

    def closed() -> None:
        call_in(loop, changes.put_nowait, make_error(lib.REDLOCK_CLOSED))

    def begin() -> None:
        made = ffi.new("redlock_observer **")
        if engine.client == NULL:
            closed()
        elif lib.redlock_observe(engine.client, key, len(key), _ON_LEADER,
                                 argument(number), made) == lib.REDLOCK_OK:
            handle.append(made[0])
            engine.closing.append(end)
            engine.closing.append(closed)
        else:
            call_in(loop, changes.put_nowait, of_last_call())

    def end() -> None:
        if handle:
            lib.redlock_observer_free(handle.pop())

    def leave() -> None:
        end()
        for job in (end, closed):
            if job in engine.closing:
                engine.closing.remove(job)
    engine.post(begin)
    try:
        while True:
            change = await changes.get()
            if isinstance(change, RedlockError):
                raise change
            yield change
    finally:
        _leaders.remove(number)
        with contextlib.suppress(RedlockError):
            engine.post(leave)

"""The client for asyncio: thousands of locks, on one thread of C (see _engine.py)."""
from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec, TypeVar

from ._admin import Inspection, Report, start_check, start_inspect, start_list
from ._async_holds import AsyncElection, AsyncHold, AsyncLock, OnLostAsync
from ._async_lease import AsyncLease, Result, call_in
from ._async_observer import observe
from ._common import (
    Leader, LeaderLeft, LockOptions, check_decorated, end_flight, record_text, time_left)
from ._engine import Engine
from ._errors import RedlockError, Reply, make_error, states_of
from ._forgotten import Forgotten, warn
from ._native import NULL, Handle, lib
from ._once import Record, start_once, to_period_ms
from ._spans import OnSpan
from ._stats import prometheus_text
from ._values import Duration, Key, Options, to_key, to_keys, to_ms, to_slots, to_token

Read = TypeVar("Read")
Called = ParamSpec("Called")
Returned = TypeVar("Returned")


class _ForgottenClient(Forgotten):
    """Its engine keeps it, until the engine has ended."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self.engine = client._engine

    def end(self) -> None:
        if not self.engine.closed:
            self.engine.close(wait=False)
            warn("an AsyncClient was not closed, and nothing refers to it any more: it is closed. "
                 "Close it, or use `async with`")


class AsyncClient(Handle):
    """A client of these nodes for asyncio. One thread, which no lock adds to, does its work.

    `nodes`, `options` and `on_span` as of Client: that is called in the client's thread, in a
    copy of the context of the task. It may be made outside of a loop, and used by several.
    """

    def __init__(self, nodes: Iterable[str] | str | None = None,
                 options: Options | None = None, *, on_span: OnSpan | None = None) -> None:
        self._engine = Engine(nodes, options, on_span)
        self._engine.forgotten = _ForgottenClient(self)
        self._flights: dict[tuple[asyncio.AbstractEventLoop, bytes],
                            tuple[int, asyncio.Future[Any]]] = {}

    @property
    def node_count(self) -> int:
        return self._engine.node_count

    @property
    def quorum(self) -> int:
        return self._engine.quorum

    def lock(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
             redisson: bool = False, timeout: Duration = -1, on_lost: OnLostAsync | None = None,
             options: LockOptions = LockOptions()) -> AsyncLock:
        """The lock on this key; `ttl` in seconds. It is extended until it is released, also
        while the loop is busy. `timeout` as of Client.lock(), for `async with`.
        `on_lost(hold, why)` is called in the loop."""
        return AsyncLock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                         kind=lib.REDLOCK_KIND_REDISSON if redisson
                         else lib.REDLOCK_KIND_EXCLUSIVE)

    def locked(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
               redisson: bool = False, timeout: Duration = -1,
               on_lost: OnLostAsync | None = None, options: LockOptions = LockOptions(),
               ) -> Callable[[Callable[Called, Coroutine[Any, Any, Returned]]],
                             Callable[Called, Coroutine[Any, Any, Returned]]]:
        """Decorates a coroutine function: each call holds the lock, as `async with lock(...)`
        does. One that awaits itself waits for itself."""
        lock = self.lock(key, ttl, fenced=fenced, redisson=redisson, timeout=timeout,
                         on_lost=on_lost, options=options)

        def decorate(function: Callable[Called, Coroutine[Any, Any, Returned]],
                     ) -> Callable[Called, Coroutine[Any, Any, Returned]]:
            check_decorated(function, is_async=True)

            @functools.wraps(function)
            async def call(*args: Called.args, **kwargs: Called.kwargs) -> Returned:
                async with lock:
                    return await function(*args, **kwargs)
            return call
        return decorate

    def shared(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
               timeout: Duration = -1, on_lost: OnLostAsync | None = None,
               options: LockOptions = LockOptions()) -> AsyncLock:
        """The same as a reader: any number of readers, or one writer, which is lock()."""
        return AsyncLock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                         kind=lib.REDLOCK_KIND_SHARED)

    def lock_many(self, keys: Iterable[Key], ttl: Duration = 30, *, fenced: bool = False,
                  timeout: Duration = -1, on_lost: OnLostAsync | None = None,
                  options: LockOptions = LockOptions()) -> AsyncLock:
        """Several keys, all or nothing, in one round."""
        return AsyncLock(self, to_keys(keys), ttl, options, on_lost, timeout, fenced=fenced)

    def slots(self, key: Key, count: int, ttl: Duration = 30, *, fenced: bool = False,
              timeout: Duration = -1, on_lost: OnLostAsync | None = None,
              options: LockOptions = LockOptions()) -> AsyncLock:
        """A semaphore: at most `count` holders at a time; all clients give the same count."""
        return AsyncLock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                         kind=lib.REDLOCK_KIND_SLOT, slots=to_slots(count))

    def election(self, name: Key, ttl: Duration = 30, *, timeout: Duration = -1,
                 on_lost: OnLostAsync | None = None,
                 options: LockOptions = LockOptions()) -> AsyncElection:
        """A candidate of this election, on nodes that were admitted."""
        return AsyncElection(self, [to_key(name)], ttl, options, on_lost, timeout,
                             kind=lib.REDLOCK_KIND_ELECTION)

    async def adopt(self, key: Key, token: str, ttl: Duration = 30, *,
                    valid: Duration | None = None, fence: int | None = None,
                    on_lost: OnLostAsync | None = None,
                    options: LockOptions = LockOptions()) -> AsyncHold:
        """Takes over the lock that has this token, and extends it; see redlock_adopt()."""
        key_bytes, token_bytes = to_key(key), to_token(token)
        lock = AsyncLock(self, [key_bytes], ttl, options, on_lost,
                         fence=fence or lib.REDLOCK_NO_FENCE)
        native = lock._native(0)
        valid_ms = lib.REDLOCK_UNKNOWN if valid is None else to_ms(valid, "valid")
        lease = AsyncLease(self._engine, asyncio.get_running_loop())
        lease.capture(native)
        lease.extension = result = Result(lease.loop)
        self._engine.post(lease.job(
            result, lambda: lease.begin_adopt(key_bytes, token_bytes, valid_ms, native)))
        try:
            await result.wait()
        except RedlockError:
            raise
        except BaseException:  # the token is still the caller's
            with contextlib.suppress(RedlockError):
                self._engine.post(lease.begin_disown)
            raise
        return AsyncHold(self, lease, [key_bytes], on_lost)

    async def release(self, key: Key, token: str) -> None:
        """Releases the lock that has this token, which disown() returned. Raises Lost if the
        nodes do not have it, and Unconfirmed if too few nodes replied."""
        key_bytes, token_bytes = to_key(key), to_token(token)
        native = AsyncLock(self, [key_bytes], 1, LockOptions())._native(0)
        lease = AsyncLease(self._engine, asyncio.get_running_loop())
        lease.result = result = Result(lease.loop)
        self._engine.post(lease.job(
            result, lambda: lease.begin_release_of(key_bytes, token_bytes, native)))
        await result.wait()

    async def single_flight(self, key: Key,
                            function: Callable[[AsyncHold], Awaitable[Returned]],
                            ttl: Duration = 30, *, fenced: bool = False, timeout: Duration = -1,
                            on_lost: OnLostAsync | None = None,
                            options: LockOptions = LockOptions()) -> Returned:
        """Of all tasks of a loop that want `key` at the same time, one holds the lock and awaits
        `function(hold)`; all get what it returns or raises. Who calls later begins a new flight.

        Between processes it is a lock: `function` checks first whether another process has done
        the work meanwhile. If the task that leads does not get the lock, or is cancelled
        before `function` returns, another one leads, and its call begins the work again.
        """
        lock = self.lock(key, ttl, fenced=fenced, on_lost=on_lost, timeout=timeout,
                         options=options)
        loop = asyncio.get_running_loop()
        name = loop, lock._keys[0]
        # Not the task: one whose loop is closed would never be freed.
        me, left = id(asyncio.current_task()), time_left(lock._wait_ms)
        while True:
            mine: asyncio.Future[Returned] = loop.create_future()
            values: list[Returned] = []
            try:
                leader, flight = self._flights.setdefault(name, (me, mine))
                if flight is mine:
                    lock._wait_ms = left()
                    async with lock as hold:
                        try:
                            values.append(await function(hold))
                        except StopIteration as why:  # a future refuses it
                            raise RuntimeError("the function raised StopIteration") from why
                        finally:  # who calls from now on is too late for it
                            self._flights.pop(name, None)
                    mine.set_result(values[0])
                    return values[0]
            except BaseException as why:
                end_flight(self._flights, name, mine, values, why)
                raise
            finally:
                end_flight(self._flights, name, mine, values)  # if that was interrupted
            if leader == me:
                raise make_error(lib.REDLOCK_BUSY, "this task leads a single flight of this key "
                                 "already, and would wait for itself")
            wait_ms = left()
            done, _ = await asyncio.wait([flight], timeout=None if wait_ms < 0 else wait_ms / 1000)
            if not done:
                raise make_error(lib.REDLOCK_TIMEOUT)
            if not isinstance(flight.exception(), LeaderLeft):
                shared: Returned = flight.result()
                return shared

    async def once_per(self, key: Key, period: Duration) -> bool:
        """As Client.once_per(). If the task is cancelled when the nodes have the record, or are
        about to, the period is used up."""
        name, ms = to_key(key), to_period_ms(period)
        records: list[Record] = []
        try:
            async for found in self._told(lambda tell: records.append(
                    start_once(self._engine, name, ms, tell))):
                return found is True
        finally:
            for record in records:
                record.is_unwanted = True
        raise make_error(lib.REDLOCK_CLOSED)

    def observe(self, name: Key) -> AsyncIterator[Leader]:
        """Who leads the election, and each change, until the iteration is ended."""
        return observe(self._engine, to_key(name))

    async def explain(self) -> tuple[Reply, ...]:
        """The state of the connection to each node."""
        return await self._read(states_of, ())

    async def record(self) -> str:
        """The flight recorder: the last 256 events, for example when a lock was lost."""
        return await self._read(lambda client: record_text(
            lambda text, room: int(lib.redlock_client_record(client, text, room))), "")

    async def prometheus(self, **labels: str) -> str:
        """What this client has counted, as text for Prometheus, with these labels.

        docs/telemetry.md lists the metrics.
        """
        return await self._read(lambda client: prometheus_text(
            lambda stats: int(lib.redlock_client_stats(client, stats)), labels), "")

    async def _read(self, read: Callable[[Any], Read], closed: Read) -> Read:
        """What `read` returns in the client's thread, or `closed`."""
        found: list[Read] = [closed]
        result = Result(asyncio.get_running_loop())

        def job() -> None:
            why: Exception | None = None
            try:
                if self._engine.client != NULL:
                    found[0] = read(self._engine.client)
            except Exception as error:  # also of a label that is no text
                why = error
            result.set(why)
        self._engine.post(job)
        await result.wait()
        return found[0]

    async def inspect(self, key: Key) -> Inspection:
        """Who holds the key on which node. Changes nothing."""
        return await self._inspect(to_key(key))

    async def break_lock(self, key: Key) -> Inspection:
        """Removes the key from all nodes, whoever holds it, and returns what was there. Its
        holder learns of it at its next extension, and until then believes that it holds it."""
        return await self._inspect(to_key(key), breaks=True)

    async def _inspect(self, key: bytes, *, breaks: bool = False) -> Inspection:
        async for found in self._told(
                lambda tell: start_inspect(self._engine, key, tell, breaks=breaks)):
            assert isinstance(found, Inspection)
            return found
        raise make_error(lib.REDLOCK_CLOSED)

    async def list(self, prefix: Key = "") -> AsyncIterator[Inspection]:
        """All locks whose keys begin so, as they are found. Takes the right to SCAN."""
        prefix_bytes = to_key(prefix)
        async for found in self._told(
                lambda tell: start_list(self._engine, prefix_bytes, tell)):
            assert isinstance(found, Inspection)
            yield found

    async def check(self, *, strict: bool = False, fenced: bool = False) -> Report:
        """Whether these nodes are fit to hold locks, with each finding; writes nothing."""
        async for found in self._told(lambda tell: start_check(
                self._engine, tell, strict=strict, fenced=fenced)):
            assert isinstance(found, Report)
            return found
        raise make_error(lib.REDLOCK_CLOSED)

    @staticmethod
    async def _told(start: Callable[[Callable[[Any], object]], None]) -> AsyncIterator[
            Inspection | Report | bool]:
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Any] = asyncio.Queue()
        start(lambda value: call_in(loop, told.put_nowait, value))
        while (value := await told.get()) is not None:
            if isinstance(value, RedlockError):
                raise value
            yield value

    async def aclose(self) -> None:
        """Ends all operations and the thread. What is held is lost to its owner, and stays on
        the nodes until its TTL ends, because the owner may still be at work."""
        loop = asyncio.get_running_loop()
        # One thread, for the time of one node timeout at most.
        await loop.run_in_executor(None, self._engine.close)

    def close(self) -> None:
        """The same, for a program whose loop has ended: it blocks, unless a signal handler
        calls it that interrupted a call of this client."""
        self._engine.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

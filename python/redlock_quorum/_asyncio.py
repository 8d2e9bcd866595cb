"""Locks for asyncio: thousands of them, on one thread of C (see _engine.py)."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar, overload

from ._admin import Inspection, Report, start_check, start_inspect, start_list
from ._common import (
    HoldBase, Leader, LeaderLeft, LockBase, LockOptions, check_decorated, end_flight, leader_of,
    report_unknown_exit, time_left, time_over, ttl_to_ms, unsigned)
from ._engine import ON_ACQUIRED, ON_EXTENDED, ON_RELEASED, Engine, Lease
from ._errors import (
    Busy, Closed, Lost, RedlockError, Reply, make_error, make_lost, of_last_call, released,
    states_of)
from ._forgotten import Forgotten, warn, warn_of_hold
from ._native import NULL, Arguments, Handle, ffi, lib
from ._once import Record, start_once, to_period_ms
from ._registry import Registry, argument, callback
from ._spans import Caller, OnSpan
from ._stats import prometheus_text
from ._values import Duration, Key, Options, to_key, to_keys, to_ms, to_token, to_wait_ms

Read = TypeVar("Read")
Called = ParamSpec("Called")
Returned = TypeVar("Returned")
# Its task, or None. A task that has failed has its frames, and these have their locks.
Owner = Callable[[], "asyncio.Task[Any] | None"]
Held = list[tuple[Owner, "AsyncHold"]]
OnLostAsync = Callable[["AsyncHold", Lost], object]


class _Result:
    """A future of a loop, which the engine's thread sets. A loop that has ended gets nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = loop.create_future()
        # Its exception is of use only to who waits: a cancelled task does not.
        self._future.add_done_callback(lambda it: it.cancelled() or it.exception())

    async def wait(self) -> None:
        """Once. The traceback of an exception has the frames that wait, and these have this
        object: it must not have the exception, or the garbage collector has to find all."""
        assert self._future
        try:
            await self._future
        finally:
            self._future = None

    def set(self, error: Exception | None) -> bool:
        """False: the loop is closed, and nobody waits any more."""
        return _call_in(self._loop, self._set, error)

    def _set(self, error: Exception | None) -> None:
        future = self._future
        if not future or future.done():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(None)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object],
             *arguments: object) -> bool:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # the loop is closed
        return False
    return True


class _AsyncLease(Lease):
    """Jobs and callbacks of an AsyncHold, all in the engine's thread, but for __init__."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(engine)
        self.loop = loop
        self.result: _Result | None = None  # of the acquire, the release or the disown
        self.extension: _Result | None = None  # also of a downgrade, and of an adoption
        # Set when it is acquired, until the hold is given up.
        self.forgotten: _ForgottenHold | None = None
        self.over: bool = False  # released or abandoned: nothing more is reported

    def job(self, result: _Result, begin: Callable[[], None]) -> Callable[[], None]:
        """`begin` as a job of the engine. An exception in it ends the wait for the result."""
        def run() -> None:
            try:
                begin()
            except Exception as error:
                if self.extension is result:
                    self.extension = None
                result.set(error)
        return run

    def capture(self, options: Any) -> None:
        """The context of the task, for the spans of this lease."""
        if self.engine.spans:
            self.caller: Caller | None = self.engine.spans.capture()
            options.user = self.caller.argument

    def begin_acquire(self, keys: list[bytes], options: Any) -> None:
        if self.over:
            return  # cancelled before it began
        if self.engine.closed:
            self._finish(make_error(lib.REDLOCK_CLOSED))
            return
        self._free_lost(keys)
        self.keys, self.margin_ms = keys, int(options.margin_ms)
        arguments = Arguments(keys)
        made = ffi.new("redlock_lease **")
        code = lib.redlock_acquire_many(
            self.engine.client, arguments.keys(keys), len(keys), options, ON_ACQUIRED,
            self.engine.argument, made)
        if code == lib.REDLOCK_OK:
            self.acquiring = True
            self.keep(made[0])
        else:
            self._finish(of_last_call())

    def _free_lost(self, keys: list[bytes]) -> None:
        """An extension that came late may have stored a lost lock again, for its whole TTL."""
        for lease in self.engine.lost.copy():
            if isinstance(lease, _AsyncLease) and lease.is_over() and not set(
                    keys).isdisjoint(lease.keys):
                lease.free()
            if lease.pointer is None:
                self.engine.lost.remove(lease)

    def begin_adopt(self, key: bytes, token: bytes, valid_ms: int, options: Any) -> None:
        self._adopt(key, token, valid_ms, options)
        self.begin_extend(lib.REDLOCK_AUTO, adopting=True)

    def begin_release_of(self, key: bytes, token: bytes, options: Any) -> None:
        self._adopt(key, token, lib.REDLOCK_UNKNOWN, options)
        self.begin_release()

    def _adopt(self, key: bytes, token: bytes, valid_ms: int, options: Any) -> None:
        if self.engine.client == NULL:
            raise make_error(lib.REDLOCK_CLOSED)
        self.keys, self.margin_ms = [key], int(options.margin_ms)
        made = ffi.new("redlock_lease **")
        if lib.redlock_adopt(self.engine.client, key, len(key), token, valid_ms, options,
                             made) != lib.REDLOCK_OK:
            raise of_last_call()
        self.keep(made[0])

    def begin_extend(self, ttl_ms: int, adopting: bool = False) -> None:
        self.adopting = adopting
        if self.pointer is None:
            self._finish_extension(self.closed())
        elif lib.redlock_extend(self.pointer, ttl_ms, ON_EXTENDED,
                                self.engine.argument) != lib.REDLOCK_OK:
            self._finish_extension(self._refused())
        else:
            self.note_validity()  # a shorter TTL counts at once

    def begin_downgrade(self) -> None:
        self.adopting = False
        if self.pointer is None:
            self._finish_extension(self.closed())
        elif lib.redlock_downgrade(self.pointer, ON_EXTENDED,
                                   self.engine.argument) != lib.REDLOCK_OK:
            self._finish_extension(self._refused())

    def _refused(self) -> RedlockError:
        """C refused to extend a lock that was not released: NOT_HELD means that it is lost."""
        error = of_last_call(held=True)
        if error.code != "NOT_HELD":
            return error
        return self.why or make_lost(lib.REDLOCK_EXPIRED, nodes=self.replies())

    def begin_release(self) -> None:
        """The lease is freed when the release has ended, whoever still waits for it."""
        self.over = True
        if self.pointer is None:
            self._finish(self.closed())
        elif lib.redlock_release(self.pointer, ON_RELEASED,
                                 self.engine.argument) != lib.REDLOCK_OK:
            error = of_last_call(held=True)  # it was lost: freeing it releases what is left
            self.free()
            self._finish(error)

    def begin_disown(self) -> None:
        self.over = True
        if self.pointer is None:
            self._finish(self.closed())
            return
        lib.redlock_disown(self.pointer)
        self.free()
        self._finish(None)

    def abandon(self) -> None:
        """Cancels the acquire; releases what was granted, also if it has just ended well."""
        self.over = True
        self.free()

    def free(self) -> None:
        """C no longer reports a running extension: this does."""
        super().free()
        if self.extension:
            self._finish_extension(make_error(lib.REDLOCK_CANCELLED))

    def _finish(self, error: RedlockError | None) -> bool:
        result, self.result = self.result, None
        return not result or result.set(error)

    def _finish_extension(self, error: RedlockError | None) -> None:
        result, self.extension = self.extension, None
        if result:
            result.set(error)

    # --- callbacks ---

    def on_acquired(self, result: Any) -> None:
        self.acquiring = False
        if result.code == lib.REDLOCK_OK:
            self.note_acquired()
            if not self._finish(None):
                self.abandon()
        else:
            error = self.failed(result, acquiring=True)
            self.free()
            self._finish(error)

    def on_extended(self, result: Any) -> None:
        self.note_validity()
        self.token: str = ffi.string(lib.redlock_token(self.pointer)).decode()
        if result.code == lib.REDLOCK_OK:
            self.fence: int = int(lib.redlock_fence(self.pointer))
            self._finish_extension(None)
            return
        self._finish_extension(self.failed(result, acquiring=self.adopting))
        if self.adopting:  # the token is still the caller's
            self.over = True
            lib.redlock_disown(self.pointer)
            self.free()

    def on_released(self, result: Any) -> None:
        error = None if result.code == lib.REDLOCK_OK else self.failed(result)
        if error and error.code == "CANCELLED":
            error = make_error(lib.REDLOCK_UNCONFIRMED,
                               reason=lib.REDLOCK_REASON_CLIENT_FREED, nodes=error.nodes)
        self.free()
        self._finish(error)

    def on_lost(self, result: Any) -> None:
        self.note_validity()
        self._report_loss(make_lost(result.code, reason=result.reason, nodes=self.replies()))

    def on_closing(self) -> None:
        if self.acquiring:  # otherwise a release could still let it have a lock that it loses
            self.abandon()
            self._finish(make_error(lib.REDLOCK_CLOSED))

    def on_closed(self) -> None:
        if not self.over:
            self._report_loss(self.closed())
        self.forgotten = None  # there is nothing left to end

    def closed(self) -> Lost:
        """Why a lease that is freed is not held."""
        return self.why or Lost("CLOSED", self.engine.closed)

    def _report_loss(self, why: Lost) -> None:
        self.is_over: Callable[[], bool] = time_over(self.margin_ms)
        self.why = why
        self.engine.lost.append(self)
        hold = self.forgotten and self.forgotten()
        if hold:
            _call_in(self.loop, hold._set_lost, why)

    why: Lost | None = None
    keys: list[bytes]
    margin_ms: int
    adopting: bool = False
    acquiring: bool = False


class _ForgottenHold(Forgotten):
    """Its lease keeps it, until the hold is given up."""

    def __init__(self, hold: AsyncHold) -> None:
        super().__init__(hold)
        self.lease: _AsyncLease = hold._lease
        self.keys: tuple[bytes, ...] = hold.keys

    def end(self) -> None:
        """It is not released: what it was for may still be going on."""
        lease, self.lease.forgotten = self.lease, None
        with contextlib.suppress(RedlockError):  # the client was closed
            lease.engine.post(lease.begin_disown)
            if not lease.why:
                warn_of_hold(self.keys)


class AsyncHold(HoldBase):
    """A lock that is held, from acquire() to release(). Used in the loop that acquired it.

    One that the program forgets is not released, and is no longer extended.
    """

    def __init__(self, client: AsyncClient, lease: _AsyncLease, keys: list[bytes],
                 on_lost: OnLostAsync | None) -> None:
        super().__init__(keys)
        self._client = client
        self._lease = lease
        self._on_lost = on_lost
        self._released = False
        self._lost = asyncio.Event()
        # None: it was adopted. In a cycle a hold that is forgotten would be extended until the
        # garbage collector runs: the lock has its holds.
        self._lock: weakref.ref[AsyncLock] | None = None
        self._is_told = False
        lease.forgotten = _ForgottenHold(self)
        if lease.why:  # between the acquire and now
            self._set_lost(lease.why)

    @property
    def token(self) -> str:
        return self._lease.token

    @property
    def fence(self) -> int | None:
        return self._lease.fence or None

    @property
    def slot(self) -> int | None:
        return self._lease.slot or None

    @property
    def lost(self) -> bool:
        return self._released or self._lease.why is not None or self._is_forked()

    @property
    def why_lost(self) -> Lost | None:
        return self._lease.why

    @property
    def _is_given_up(self) -> bool:
        return self._released

    async def wait_lost(self) -> None:
        """Waits until the lock is lost or released."""
        if not self.lost:
            await self._lost.wait()

    def valid_ms(self) -> int:
        return 0 if self._released else self._lease.valid_ms()

    async def extend(self, ttl: Duration | None = None) -> None:
        """Extends the lock to `ttl` from now; None: to its own TTL.

        Raises InUse while another extension runs, also one whose task was cancelled, and
        Cancelled if the lock is released or disowned meanwhile.
        """
        ms = lib.REDLOCK_AUTO if ttl is None else ttl_to_ms(ttl)
        await self._change(lambda: self._lease.begin_extend(ms))

    async def downgrade(self) -> None:
        """Turns a writer into a reader without a gap. The token changes."""
        await self._change(self._lease.begin_downgrade)

    async def _change(self, begin: Callable[[], None]) -> None:
        if self._released:
            raise released()
        if self._lease.extension:
            raise make_error(lib.REDLOCK_BUSY)
        # Set before the job runs, so that a second call in the meantime is refused.
        self._lease.extension = result = _Result(asyncio.get_running_loop())
        try:
            self._post(result, begin)
        except RedlockError:
            self._lease.extension = None
            raise
        await result.wait()

    def _post(self, result: _Result, begin: Callable[[], None]) -> None:
        try:
            self._lease.engine.post(self._lease.job(result, begin))
        except Closed:
            raise self._lease.closed() from None

    async def release(self) -> None:
        """Releases the lock, and waits until a quorum has confirmed it.

        Raises Lost if it was lost before, and Unconfirmed if too few nodes replied. The lock is
        not held afterwards, either way. If the task is cancelled meanwhile, the release goes on.
        """
        await self._give_up(self._lease.begin_release)

    async def disown(self) -> str:
        """Leaves the lock on the nodes for another holder of its token, which it returns.

        Raises Lost if it was lost before.
        """
        await self._give_up(self._lease.begin_disown)
        return self.token

    async def _give_up(self, begin: Callable[[], None]) -> None:
        if self._released:
            raise released()
        is_posted = False
        try:
            self._end()
            is_late = not self._lease.why and self._lease.valid_ms() == 0
            self._lease.result = result = _Result(asyncio.get_running_loop())
            self._post(result, begin)
            is_posted = True
            await result.wait()
        except RedlockError as error:
            if not is_late or isinstance(error, Lost):
                raise (self._lease.why or error) from None
        except BaseException:
            self._end()
            if not is_posted:  # a signal handler raised
                with contextlib.suppress(RedlockError):
                    self._lease.engine.post(begin)
            raise
        if self._lease.why:  # it may have been lost just before the release
            raise self._lease.why
        if is_late:
            raise Lost("EXPIRED", "the deadline has passed; the lock is not held")

    def _end(self) -> None:
        self._released = True
        self._lease.forgotten = None
        self._lost.set()
        lock = self._lock and self._lock()
        if lock:
            lock._note_release(self)

    def _set_lost(self, why: Lost) -> None:
        if self._released or self._is_told:
            return
        self._is_told = True
        self._lost.set()
        if self._on_lost:
            self._on_lost(self, why)

    def _is_forked(self) -> bool:
        return self._lease.engine.pid != os.getpid()

    async def __aenter__(self) -> AsyncHold:
        """`async with await lock.acquire() as hold:` releases it at the end, unless the body
        has."""
        try:
            self.check()  # the body would run without the lock
            return self
        except BaseException:
            self._abandon()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            await self._leave(error)
        except BaseException:
            self._abandon()
            raise

    async def _leave(self, error: BaseException | None) -> None:
        if self._released:
            return  # in the body
        try:
            await self.release()
        except RedlockError as why:
            self._note_end(why, error)

    def _abandon(self) -> None:
        """After an exception: releases it, unless that was done, without a wait."""
        if not self._released:
            self._end()
            with contextlib.suppress(RedlockError):  # a closed client has ended it
                self._lease.engine.post(self._lease.abandon)


def _owner() -> Owner:
    task = asyncio.current_task()
    if task:
        return weakref.ref(task)
    return _nobody


def _nobody() -> None:
    return None


def _without(held: Held, hold: AsyncHold | None) -> Held:
    """A function, as Python 3.12 may let an exception in an inlined comprehension pass a `try`."""
    return [entry for entry in held if entry[1] is not hold]


class AsyncLock(LockBase):
    """A lock on one key or several keys, for the tasks of asyncio.

    `async with lock:` knows its hold by the task. One that may end in another task than it
    began in, for example around a `yield`, is `async with await lock.acquire() as hold:`.
    """

    def __init__(self, client: AsyncClient, keys: list[bytes], ttl: Duration,
                 options: LockOptions, on_lost: OnLostAsync | None = None,
                 timeout: Duration = -1, **flags: Any) -> None:
        super().__init__(keys, ttl, options, timeout, flags)
        self._client = client
        self._engine = client._engine
        self._on_lost = on_lost
        # By their tasks: not released yet, and by an `async with` that has not ended.
        self._held: Held = []
        self._entered: Held = []

    @overload
    async def acquire(self) -> AsyncHold: ...

    @overload
    async def acquire(self, blocking: bool = True,
                      timeout: Duration = -1) -> AsyncHold | None: ...

    async def acquire(self, blocking: bool = True, timeout: Duration = -1) -> AsyncHold | None:
        """Waits for the lock, at most `timeout`; -1: without a limit. As Lock.acquire().

        None: another owner has the lock, and `blocking` is false or the time is over. Raises
        NoQuorum, Denied ... If the task is cancelled, the acquire ends, and what the nodes
        granted is released.
        """
        try:
            return await self._acquire(to_wait_ms(blocking, timeout))
        except Busy:
            return None

    async def _acquire(self, wait_ms: int) -> AsyncHold:
        native = self._native(wait_ms)
        loop = asyncio.get_running_loop()
        lease = _AsyncLease(self._engine, loop)
        lease.capture(native)
        lease.result = result = _Result(loop)
        hold: AsyncHold | None = None
        try:
            self._engine.post(lease.job(
                result, lambda: lease.begin_acquire(self._keys, native)))
            await result.wait()
            hold = AsyncHold(self._client, lease, self._keys, self._on_lost)
            hold._lock = weakref.ref(self)
            self._held.append((_owner(), hold))
            return hold
        except RedlockError:
            raise
        except BaseException:  # cancelled: also if the lock has come at the same time
            if hold:
                hold._end()
            lease.forgotten = None
            with contextlib.suppress(RedlockError):  # a closed client has ended it
                self._engine.post(lease.abandon)
            raise

    async def locked(self) -> bool:
        """Whether any owner has the lock on the nodes now; of slots(): whether none is free.
        It may change at any time, and changes nothing."""
        every, keys = self._is_held_if()
        for key in keys:
            if (await self._client.inspect(key)).locked != every:
                return not every
        return every

    async def release(self) -> None:
        """Releases what this task acquired last by this object.

        If this task has no lock by this object, that of a task that has ended, as wait_for()
        has one in Python 3.11. Raises NotHeld if there is none: AsyncHold.release() releases a
        lock of another task.
        """
        hold = self._last(self._held)
        if not hold:
            raise make_error(lib.REDLOCK_NOT_HELD,
                             "this task acquired no lock by this object that it has not "
                             "released")
        await hold.release()

    async def __aenter__(self) -> AsyncHold:
        hold: AsyncHold | None = None
        try:
            hold = await self._acquire(self._wait_ms)
            self._entered.append((_owner(), hold))
            return hold
        except BaseException:
            self._abandon(hold)
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        hold: AsyncHold | None = None
        try:
            hold = self._ending()
            if not hold:
                report_unknown_exit("task", error)
                return
            self._entered = _without(self._entered, hold)
            await hold._leave(error)
        except BaseException:
            self._abandon(hold or self._ending())
            raise

    def _ending(self) -> AsyncHold | None:
        """Which `async with` ends now. It may end in another task than it began in."""
        hold = self._last(self._entered)
        return self._entered[0][1] if not hold and len(self._entered) == 1 else hold

    def _abandon(self, hold: AsyncHold | None) -> None:
        """After an exception, at the begin or the end of an `async with`."""
        self._entered = _without(self._entered, hold)
        if hold:
            hold._abandon()

    @staticmethod
    def _last(held: Held) -> AsyncHold | None:
        """The last one of this task, or else of a task that has ended."""
        task, latest = asyncio.current_task(), held[::-1]
        owned = [(owner(), hold) for owner, hold in latest]
        return next((hold for owner, hold in owned if owner is task), None) or next(
            (hold for owner, hold in owned if not owner or owner.done()), None)

    def _note_release(self, hold: AsyncHold) -> None:
        self._held = _without(self._held, hold)

    def _native(self, wait_ms: int) -> Any:
        if self._options.release_on_close:
            raise make_error(lib.REDLOCK_BAD_OPTION, "release_on_close is for threads only")
        made = self._engine.lease_options()
        self._set_options(made)
        made.wait_ms = wait_ms
        return made


class AsyncElection(AsyncLock):
    """A candidate of an election: it leads while it holds the lock."""

    campaign: Final = AsyncLock.acquire
    resign: Final = AsyncLock.release


_leaders: Registry[Callable[[Leader], object]] = Registry()


def _report_leader(_observer: Any, leader: Any, arg: Any) -> None:
    tell = _leaders.find(arg)
    if tell:
        tell(leader_of(leader))


_ON_LEADER = callback("void (*)(redlock_observer *, const redlock_leader *, void *)",
                      _report_leader)


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
                         kind=lib.REDLOCK_KIND_SLOT, slots=unsigned("slots", count))

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
        lease = _AsyncLease(self._engine, asyncio.get_running_loop())
        lease.capture(native)
        lease.extension = result = _Result(lease.loop)
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
        lease = _AsyncLease(self._engine, asyncio.get_running_loop())
        lease.result = result = _Result(lease.loop)
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

    async def observe(self, name: Key) -> AsyncIterator[Leader]:
        """Who leads the election, and each change, until the iteration is ended."""
        loop = asyncio.get_running_loop()
        changes: asyncio.Queue[Leader | RedlockError] = asyncio.Queue()
        key, engine = to_key(name), self._engine
        number = _leaders.add(lambda leader: _call_in(loop, changes.put_nowait, leader))
        handle: list[Any] = []

        def closed() -> None:
            _call_in(loop, changes.put_nowait, make_error(lib.REDLOCK_CLOSED))

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
                _call_in(loop, changes.put_nowait, of_last_call())

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

    async def explain(self) -> tuple[Reply, ...]:
        """The state of the connection to each node."""
        return await self._read(states_of, ())

    async def prometheus(self, **labels: str) -> str:
        """What this client has counted, as text for Prometheus, with these labels.

        docs/telemetry.md lists the metrics.
        """
        return await self._read(lambda client: prometheus_text(
            lambda stats: int(lib.redlock_client_stats(client, stats)), labels), "")

    async def _read(self, read: Callable[[Any], Read], closed: Read) -> Read:
        """What `read` returns in the client's thread, or `closed`."""
        found: list[Read] = [closed]
        result = _Result(asyncio.get_running_loop())

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
        start(lambda value: _call_in(loop, told.put_nowait, value))
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

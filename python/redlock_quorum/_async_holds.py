"""Locks of asyncio that are held, and what acquires and releases them."""
from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, overload

from ._async_lease import AsyncLease, ForgottenHold, Result
from ._common import HoldBase, LockBase, LockOptions, report_unknown_exit, ttl_to_ms
from ._errors import Closed, Forked, Lost, RedlockError, Reply, Taken, make_error, released
from ._native import lib
from ._values import Duration, to_wait_ms

if TYPE_CHECKING:
    from ._asyncio import AsyncClient

# Its task, or None. A task that has failed has its frames, and these have their locks.
Owner = Callable[[], "asyncio.Task[Any] | None"]
Held = list[tuple[Owner, "AsyncHold"]]
OnLostAsync = Callable[["AsyncHold", Lost], object]


class AsyncHold(HoldBase):
    """A lock that is held, from acquire() to release(). Used in the loop that acquired it.

    One that the program forgets is not released, and is no longer extended.
    """

    def __init__(self, client: AsyncClient, lease: AsyncLease, keys: list[bytes],
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
        lease.forgotten = ForgottenHold(self)
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
        self._lease.extension = result = Result(asyncio.get_running_loop())
        try:
            self._post(result, begin)
        except RedlockError:
            self._lease.extension = None
            raise
        await result.wait()

    async def explain(self) -> tuple[Reply, ...]:
        """The nodes' replies to the last acquire or extension."""
        if self._lease.why:
            return self._lease.why.nodes
        with contextlib.suppress(Closed, Forked):
            return await self._client._read(lambda _: self._lease.replies(), ())
        return ()

    def _post(self, result: Result, begin: Callable[[], None]) -> None:
        try:
            self._lease.engine.post(self._lease.job(result, begin))
        except Closed:
            raise self._lease.closed() from None

    async def release(self, *, confirm: bool = True) -> None:
        """Releases the lock, and waits until a quorum has confirmed it; without `confirm`, until
        the release was written to the nodes' connections.

        Raises Lost if it was lost before, and Unconfirmed if too few nodes replied. The lock is
        not held afterwards, either way. If the task is cancelled meanwhile, the release goes on.
        """
        await self._give_up(lambda: self._lease.begin_release(confirm=confirm))

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
            self._lease.result = result = Result(asyncio.get_running_loop())
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
        except Taken:
            return None

    async def _acquire(self, wait_ms: int) -> AsyncHold:
        native = self._native(wait_ms)
        loop = asyncio.get_running_loop()
        lease = AsyncLease(self._engine, loop)
        lease.capture(native)
        lease.result = result = Result(loop)
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

    async def release(self, *, confirm: bool = True) -> None:
        """Releases what this task acquired last by this object; see AsyncHold.release().

        If this task has no lock by this object, that of a task that has ended, as wait_for()
        has one in Python 3.11. Raises NotHeld if there is none: AsyncHold.release() releases a
        lock of another task.
        """
        hold = self._last(self._held)
        if not hold:
            raise make_error(lib.REDLOCK_NOT_HELD,
                             "this task acquired no lock by this object that it has not "
                             "released")
        await hold.release(confirm=confirm)

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

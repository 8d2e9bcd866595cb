"""Locks for threads that are held, and what acquires and releases them."""
from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, overload

from ._common import (
    HoldBase, LockBase, LockOptions, report_unknown_exit, time_over, ttl_to_ms)
from ._errors import (
    Lost, RedlockError, Reply, Taken, make_error, make_lost, of_last_call, replies_of)
from ._forgotten import Forgotten, warn_of_hold
from ._later import Latch, log, log_exception_later
from ._native import address, at_once, ffi, lib, text_of
from ._registry import Registry, callback
from ._spans import Caller
from ._values import UINT_MAX, Duration, in_range, to_timeout, to_wait_ms

if TYPE_CHECKING:
    from ._threads import Client

Keys = list[bytes]
Uses = list["Use"]
Held = dict["Use", "Hold"]
OnLost = Callable[["Hold", Lost], object]


class Loss:
    """Where the client's thread reports that a lock is lost, maybe before its hold exists."""

    def __init__(self, margin_ms: int) -> None:
        self._margin_ms = margin_ms
        self.is_over: Callable[[], bool] = bool  # the owner had its margin after the loss
        self.event: Latch = Latch()
        self._why: list[Lost] = []
        self._hold: weakref.ref[Hold] | None = None
        self._untold = [True]

    # No guard: in bind() a signal handler may call close(), which waits for report(). Each sets
    # its own part first, so that one of them at least has both.

    @property
    def why(self) -> Lost | None:
        return self._why[0] if self._why else None

    def note(self, why: Lost) -> Lost:
        """Two threads may learn of it at once: all get the first one."""
        self._why.append(why)
        return self._why[0]

    def report(self, code: int, reason: int, nodes: tuple[Reply, ...]) -> None:
        self.is_over = time_over(self._margin_ms)
        self.note(make_lost(code, reason=reason, nodes=nodes))
        hold = self._hold
        self.event.set()
        if hold:
            self._tell(hold())

    def bind(self, hold: Hold) -> None:
        self._hold = weakref.ref(hold)
        self._tell(hold)

    def _tell(self, hold: Hold | None) -> None:
        if hold is not None and self.why is not None:
            hold._client._lost.append(weakref.ref(hold))
        if hold is not None and hold._on_lost and self.why is not None:
            try:
                self._untold.pop()
            except IndexError:
                return
            try:
                hold._on_lost(hold, self.why)
            except Exception:  # bind() may be interrupted by ctrl-C, which is not to be lost
                log_exception_later("an exception in on_lost")


losses: Registry[Loss] = Registry()


def _explain(hold: Any) -> tuple[Reply, ...]:
    nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
    count = lib.redlock_hold_explain_sized(hold, nodes, lib.REDLOCK_NODES_MAX,
                                           ffi.sizeof("redlock_node"))
    return replies_of(nodes, count)


def _report_loss(hold: Any, why: int, reason: int, _valid_ms: int, arg: Any) -> None:
    loss = losses.find(arg)
    if loss:
        loss.report(why, reason, _explain(hold))


ON_LOST = callback("void (*)(redlock_hold *, redlock_code, redlock_reason, int64_t, void *)",
                    _report_loss)


class Level:
    """One lock of a hold: with `recursive` there may be several."""

    def __init__(self) -> None:
        self.owned: list[Any] = []  # the pointer, with its finalizer


class Kept(Forgotten):
    """What the client keeps of a hold that is not released, also if the program forgets it."""

    def __init__(self, hold: Hold, number: int) -> None:
        super().__init__(hold)
        self.number = number  # of its loss
        self.levels = hold._levels
        self.pointer = hold._pointer
        self.keys = hold.keys
        self.holds = hold._client._holds

    def drop(self) -> bool:
        """False: it was released, or ended, before."""
        losses.remove(self.number)
        at = address(self.pointer)
        return self.holds.get(at) is self and self.holds.pop(at, None) is self

    def end(self) -> None:
        """It is not released: what it was for may still be going on."""
        if not self.drop():
            return
        is_lost = lib.redlock_hold_lost(self.pointer)
        for _ in self.levels[1:]:
            lib.redlock_unlock(self.pointer, 0)
        lib.redlock_unlock(self.pointer, lib.REDLOCK_DISOWN)
        if not is_lost:
            warn_of_hold(self.keys)


class Hold(HoldBase):
    """A lock that is held, from acquire() to release(). Any thread may use it.

    One that the program forgets is not released, and is no longer extended.
    """

    def __init__(self, client: Client, level: Level, loss: Loss, keys: Keys,
                 on_lost: OnLost | None) -> None:
        super().__init__(keys)
        self._any_thread = False
        self._pointer = level.owned[0]
        self._client = client
        self._loss = loss
        self._on_lost = on_lost
        self._levels = [level]  # not released yet
        self._uses: dict[Level, Use] = {}  # none if it was adopted
        self._next: Hold | None = None  # after Condition.wait(): what its `with` releases
        self._entered: list[tuple[Level, Use | None]] = []  # by a `with` that has not ended
        self._caller: Caller | None = None  # kept for its spans

    @property
    def token(self) -> str:
        return text_of(lib.redlock_hold_token(self._pointer))

    @property
    def fence(self) -> int | None:
        return int(lib.redlock_hold_fence(self._pointer)) or None

    @property
    def slot(self) -> int | None:
        return int(lib.redlock_hold_slot(self._pointer)) or None

    @property
    def lost(self) -> bool:
        return bool(lib.redlock_hold_lost(self._pointer))

    @property
    def why_lost(self) -> Lost | None:
        return self._loss.why

    @property
    def _is_given_up(self) -> bool:
        return not self._levels

    def wait_lost(self, timeout: Duration | None = None) -> bool:
        """Waits until the lock is lost or released, at most so long; False: it is not."""
        if self.lost:
            return True
        self._loss.event.wait(to_timeout(timeout))
        return self.lost

    def valid_ms(self) -> int:
        return int(lib.redlock_hold_valid_ms(self._pointer))

    def extend(self, ttl: Duration | None = None) -> None:
        """Extends the lock to `ttl` from now; None: to its own TTL. Waits for the result."""
        ms = lib.REDLOCK_AUTO if ttl is None else ttl_to_ms(ttl)
        if lib.redlock_hold_extend(self._pointer, ms) != lib.REDLOCK_OK:
            raise self._failed()

    def downgrade(self) -> None:
        """Turns a writer into a reader without a gap. The token changes."""
        if lib.redlock_hold_downgrade(self._pointer) != lib.REDLOCK_OK:
            raise self._failed()

    def _failed(self) -> RedlockError:
        error = of_last_call(held=True)
        if error.code == "CLOSED":
            return Lost(error.code, self._client._closed)
        if self.why_lost and (isinstance(error, Lost) or
                              error.code == "NOT_HELD" and self._levels):  # _release_lost()
            return self.why_lost
        error = self._client._with_nodes(error, self)
        # The client's thread may report it later.
        return self._loss.note(error) if isinstance(error, Lost) else error

    def explain(self) -> tuple[Reply, ...]:
        """The nodes' replies to the last acquire or extension."""
        return _explain(self._pointer)

    def release(self, *, confirm: bool = True) -> None:
        """Releases the lock, by default until a quorum has confirmed it.

        Raises Lost if it was lost before, and Unconfirmed if too few nodes replied. The lock is
        not held afterwards, either way.
        """
        self._unlock(lib.REDLOCK_CONFIRM if confirm else 0)

    def _release_lost(self) -> bool:
        """What was lost, from the nodes, for who wants the lock now; its owner still has to
        release it. False: it cannot be yet."""
        if self._any_thread and self._loss.is_over() and not self._is_given_up:
            lib.redlock_unlock(self._pointer, 0)
        return self._is_given_up or self._loss.is_over()

    def disown(self) -> str:
        """Leaves the lock on the nodes for another holder of its token, which it returns.

        Raises Lost if it was lost before.
        """
        token = self.token
        self._unlock(lib.REDLOCK_DISOWN)
        return token

    def _unlock(self, how: int) -> None:
        level = self._levels[-1] if self._levels else None
        codes: list[int] = []
        is_told = False
        try:
            at_once(codes, lib.redlock_unlock, self._pointer, how)
            error = self._failed() if codes[0] != lib.REDLOCK_OK else self._lost_before(level)
            self._note_unlock(level, codes)
            is_told = True
            self._tell_unlock()
        except BaseException:  # of a signal handler
            self._note_unlock(level, codes)
            if not is_told:
                self._tell_unlock()
            raise
        try:
            if error:
                raise error
        finally:
            del error  # its traceback has this frame: a cycle, which would keep the hold

    def _note_unlock(self, level: Level | None, codes: list[int]) -> None:
        """It may be called again, if a signal handler raised in it."""
        if not codes or codes[0] in _STILL_HELD:
            return
        if level:
            use = self._uses.get(level)
            if use:
                use.end()
            self._uses.pop(level, None)
            with contextlib.suppress(ValueError):
                self._levels.remove(level)
        if not self._levels:
            self._client._forget(self)

    def _lost_before(self, level: Level | None) -> Lost | None:
        use = self._uses.get(level) if level else None
        return use.why_lost if use else None

    def _tell_unlock(self) -> None:
        if not self._levels:
            self._loss.event.set()  # wait_lost() in another thread ends

    def _abandon(self) -> None:
        """After an exception: releases it without a wait."""
        with contextlib.suppress(RedlockError):
            self._unlock(0)

    def __enter__(self) -> Hold:
        """`with lock.acquire() as hold:` releases it at the end, unless the body has."""
        entry: tuple[Level, Use | None] | None = None
        try:
            self.check()  # the body would run without the lock
            level = self._levels[-1]
            entry = level, self._uses.get(level)
            self._entered.append(entry)
            return self
        except BaseException:
            if entry and entry in self._entered:
                self._entered.remove(entry)
            self._abandon()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            hold = self._ending()
            if hold:
                hold._leave(error)
        except BaseException:
            hold = self._ending()
            if hold:
                hold._abandon()
            raise
        finally:
            self._entered.pop()

    def _ending(self) -> Hold | None:
        """What the `with` that ends has to release; None: its body has released it."""
        level, use = self._entered[-1]
        if use:
            return None if use.is_over else use.hold()  # another one after Condition.wait()
        return self if level in self._levels else None

    def _leave(self, error: BaseException | None) -> None:
        try:
            self.release()
        except RedlockError as why:
            self._note_end(why, error)


_STILL_HELD = (lib.REDLOCK_WOULD_DEADLOCK, lib.REDLOCK_BUSY, lib.REDLOCK_BAD_OPTION)


def _no_hold() -> Hold | None:
    return None


class Use:
    """One acquire by a Lock, until it is released.

    The Lock keeps the Hold, and both keep the Use, which keeps neither: in a cycle a hold that
    the program forgets would be extended until the garbage collector runs.
    """

    def __init__(self, lock: Lock) -> None:
        self.lock = weakref.ref(lock)
        self.hold: Callable[[], Hold | None] = _no_hold
        self.first: Callable[[], Hold | None] = _no_hold  # before any Condition.wait()
        self.thread = threading.current_thread()  # not its number, which may be used again
        self.is_over = True
        self.why_lost: Lost | None = None  # before a Condition.wait(), which cannot raise it

    def begin(self, hold: Hold, level: Level) -> None:
        first, lock = self.first(), self.lock()
        if first:
            first._next = hold
        if self.first is _no_hold:
            self.first = weakref.ref(hold)
        self.hold = weakref.ref(hold)
        hold._uses[level] = self
        if lock:
            lock._uses[self] = hold
        self.is_over = False  # last: before, the level is undone by who has the exception

    def end(self) -> None:
        self.is_over = True
        lock = self.lock()
        if lock:
            lock._uses.pop(self, None)

    def abandon(self) -> None:
        """After an exception, at the begin or the end of a `with`."""
        lock, hold = self.lock(), self.hold()
        if lock:
            with contextlib.suppress(ValueError):
                lock._entered.remove(self)
        if hold and not self.is_over:
            hold._abandon()


class Lock(LockBase):
    """A lock on one key or several keys. The nodes know of it only while it is held.

    It may be used again and by many threads. Only the key counts: two Lock objects of one key
    exclude each other. `with lock:` knows its hold by the thread. A `with` that may end in
    another thread than it began in is `with lock.acquire() as hold:`, which needs no thread.
    """

    def __init__(self, client: Client, keys: Keys, ttl: Duration, options: LockOptions,
                 on_lost: OnLost | None = None, timeout: Duration = -1, **flags: Any) -> None:
        super().__init__(keys, ttl, options, timeout, flags)
        self._client = client
        self._on_lost = on_lost
        self._uses: Held = {}    # not released yet
        self._entered: Uses = []  # by a `with` that has not ended

    @overload
    def acquire(self) -> Hold: ...

    @overload
    def acquire(self, blocking: bool = True, timeout: Duration = -1) -> Hold | None: ...

    def acquire(self, blocking: bool = True, timeout: Duration = -1) -> Hold | None:
        """Waits for the lock, at most `timeout`; -1: without a limit. As threading.Lock's.

        None: another owner has the lock, and `blocking` is false or the time is over. Raises
        NoQuorum, Denied ... Without a limit it waits also for nodes that are down.
        """
        try:
            return self._acquire(to_wait_ms(blocking, timeout), Use(self))
        except Taken:
            return None

    def locked(self) -> bool:
        """Whether any owner has the lock on the nodes now; of slots(): whether none is free.
        It may change at any time, and changes nothing."""
        every, keys = self._is_held_if()
        for key in keys:
            if self._client.inspect(key).locked != every:
                return not every
        return every

    def release(self, *, confirm: bool = True) -> None:
        """Releases what this thread acquired last by this object; see Hold.release().

        If this thread has no lock by this object, that of a thread that has ended. Raises
        NotHeld if there is none: Hold.release() releases a lock of another thread.
        """
        use = self._last(self._uses)
        hold = self._uses.get(use) if use else None
        if not hold:
            raise make_error(lib.REDLOCK_NOT_HELD,
                             "this thread acquired no lock by this object that it has not "
                             "released")
        hold.release(confirm=confirm)

    def __enter__(self) -> Hold:
        use = Use(self)
        try:
            hold = self._acquire(self._wait_ms, use)
            self._entered.append(use)
            return hold
        except BaseException:
            use.abandon()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        use: Use | None = None
        try:
            while use := self._ending():
                with contextlib.suppress(ValueError):  # another thread has taken it
                    self._entered.remove(use)
                    break
            hold = use and not use.is_over and use.hold()
            if hold:  # otherwise the body has released it
                hold._leave(error)
        except BaseException:
            use = use or self._ending()
            if use:
                use.abandon()
            raise
        if not use:
            report_unknown_exit("thread", error)

    def _ending(self) -> Use | None:
        """Which `with` ends now. It may end in another thread than it began in: then the only
        one, or the last one of a thread that has ended; None: several threads are in one."""
        use = self._last(self._entered)
        if not use and len(entered := self._entered.copy()) == 1:
            use = entered[0]
        return use

    def _acquire(self, wait_ms: int, use: Use) -> Hold:
        return self._client._acquire(self._keys, wait_ms, self._native, self._on_lost, use)

    @staticmethod
    def _mine(uses: Iterable[Use]) -> Use | None:
        """The last one of the calling thread."""
        here = threading.current_thread()
        return next((use for use in list(uses)[::-1] if use.thread is here), None)

    @staticmethod
    def _last(uses: Iterable[Use]) -> Use | None:
        """The last one of the calling thread, or else of a thread that has ended."""
        return Lock._mine(uses) or next(
            (use for use in list(uses)[::-1] if not use.thread.is_alive()), None)

    # --- what threading.Condition calls, without the network where it only looks ---

    def _is_owned(self) -> bool:
        use = self._mine(self._uses)
        if use:  # wait() and notify() raise Lost
            if use.why_lost:
                raise use.why_lost
            self._uses[use].check()
        return use is not None

    def _release_save(self) -> Uses:
        """It must not raise: the Condition has queued the thread as one that waits."""
        mine = self._mine(self._uses)
        hold = self._uses.get(mine) if mine else None
        if not hold:
            return []
        uses = list(hold._uses.values())  # several: `recursive`
        for use in uses:
            try:
                hold.release()
            except Lost as why:
                use.why_lost = why
            except RedlockError as why:
                log.warning("%s", why)  # nobody else had the lock meanwhile
        return uses

    def _acquire_restore(self, uses: Uses) -> None:
        """It is another hold. A `with` that has not ended knows it by the same Use."""
        for use in uses:
            (use.lock() or self)._acquire(lib.REDLOCK_FOREVER, use)

    def _native(self) -> Any:
        made = ffi.new("redlock_lock_options *")
        lib.redlock_lock_options_init_sized(made, ffi.sizeof("redlock_lock_options"))
        self._set_options(made)
        made.handoffs = in_range("handoffs", self._options.handoffs, 0, UINT_MAX)
        made.release_on_free = self._options.release_on_close
        made.any_thread = not self._flags.get("recursive", False)
        return made


class Election(Lock):
    """A candidate of an election: it leads while it holds the lock. `hold.term` is the number
    of its term, for every request that it makes as the leader."""

    campaign: Final = Lock.acquire
    resign: Final = Lock.release

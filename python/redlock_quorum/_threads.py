"""Locks for threads, on redlock/sync.h."""
from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar, overload

from . import _events, _greenlets
from ._admin import Admin, Inspection, Report
from ._common import (
    HoldBase, Leader, LeaderLeft, LockBase, LockOptions, check_decorated, end_flight, finished,
    leader_of, report_unknown_exit, time_left, ttl_to_ms, unsigned)
from ._errors import (
    Busy, Closed, Denied, Failure, Lost, NoQuorum, NotAcquired, RedlockError, Reply, Unconfirmed,
    make_error, make_lost, of_last_call, released, replies_of)
from ._forgotten import AT_EXIT, Forgotten, warn, warn_of_hold
from ._later import log, log_exception_later
from ._native import NULL, Arguments, Handle, address, at_once, ffi, gc, lib, text_of
from ._once import start_once, to_period_ms
from ._registry import Registry, argument, callback, in_callback
from ._spans import Caller, OnSpan, Spans
from ._stats import prometheus_text
from ._values import (
    Duration, Key, Options, settle, to_key, to_keys, to_ms, to_native, to_timeout,
    to_token, to_wait_ms)

Keys = list[bytes]
Stops = list[Any]
Admins = list[Admin]
Callers = dict[object, int]
Uses = list["_Use"]
Found = list["Hold | BaseException"]
OnLost = Callable[["Hold", Lost], object]
Called = ParamSpec("Called")
Returned = TypeVar("Returned")


class _Loss:
    """Where the client's thread reports that a lock is lost, maybe before its hold exists."""

    def __init__(self) -> None:
        self.event: threading.Event = threading.Event()
        self.why: Lost | None = None
        self._hold: weakref.ref[Hold] | None = None
        self._untold = [True]

    # No guard: in bind() a signal handler may call close(), which waits for report(). Each sets
    # its own part first, so that one of them at least has both.

    def report(self, code: int, reason: int, nodes: tuple[Reply, ...]) -> None:
        self.why = make_lost(code, reason=reason, nodes=nodes)
        hold = self._hold
        self.event.set()
        if hold:
            self._tell(hold())

    def bind(self, hold: Hold) -> None:
        self._hold = weakref.ref(hold)
        self._tell(hold)

    def _tell(self, hold: Hold | None) -> None:
        if hold is not None and hold._on_lost and self.why is not None:
            try:
                self._untold.pop()
            except IndexError:
                return
            try:
                hold._on_lost(hold, self.why)
            except Exception:  # bind() may be interrupted by ctrl-C, which is not to be lost
                log_exception_later("an exception in on_lost")


_losses: Registry[_Loss] = Registry()


def _explain(hold: Any) -> tuple[Reply, ...]:
    nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
    count = lib.redlock_hold_explain_sized(hold, nodes, lib.REDLOCK_NODES_MAX,
                                           ffi.sizeof("redlock_node"))
    return replies_of(nodes, count)


def _report_loss(hold: Any, why: int, reason: int, _valid_ms: int, arg: Any) -> None:
    loss = _losses.find(arg)
    if loss:
        loss.report(why, reason, _explain(hold))


_on_lost = callback("void (*)(redlock_hold *, redlock_code, redlock_reason, int64_t, void *)",
                    _report_loss)


class _Level:
    """One lock of a hold: with `recursive` there may be several."""

    def __init__(self) -> None:
        self.owned: list[Any] = []  # the pointer, with its finalizer


class _Kept(Forgotten):
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
        _losses.remove(self.number)
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

    def __init__(self, client: Client, level: _Level, loss: _Loss, keys: Keys,
                 on_lost: OnLost | None) -> None:
        super().__init__(keys)
        self._pointer = level.owned[0]
        self._client = client
        self._loss = loss
        self._on_lost = on_lost
        self._levels = [level]  # not released yet
        self._uses: dict[_Level, _Use] = {}  # none if it was adopted
        self._entered: list[tuple[_Level, _Use | None]] = []  # by a `with` that has not ended
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
        if isinstance(error, Lost) and self.why_lost:
            return self.why_lost
        return self._client._with_nodes(error, self)

    def explain(self) -> tuple[Reply, ...]:
        """The nodes' replies to the last acquire or extension."""
        return _explain(self._pointer)

    def release(self, *, confirm: bool = True) -> None:
        """Releases the lock, by default until a quorum has confirmed it.

        Raises Lost if it was lost before, and Unconfirmed if too few nodes replied. The lock is
        not held afterwards, either way.
        """
        self._unlock(lib.REDLOCK_CONFIRM if confirm else 0)

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
        if error:
            raise error

    def _note_unlock(self, level: _Level | None, codes: list[int]) -> None:
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

    def _lost_before(self, level: _Level | None) -> Lost | None:
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
        entry: tuple[_Level, _Use | None] | None = None
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
            return None if use.is_over else use.hold  # another one after Condition.wait()
        return self if level in self._levels else None

    def _leave(self, error: BaseException | None) -> None:
        try:
            self.release()
        except RedlockError as why:
            self._note_end(why, error)


_STILL_HELD = (lib.REDLOCK_WOULD_DEADLOCK, lib.REDLOCK_BUSY, lib.REDLOCK_BAD_OPTION)


class _Use:
    """One acquire by a Lock, until it is released."""

    hold: Hold

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.thread = threading.current_thread()  # not its number, which may be used again
        self.is_over = True
        self.why_lost: Lost | None = None  # before a Condition.wait(), which cannot raise it

    def begin(self, hold: Hold, level: _Level) -> None:
        self.hold = hold
        hold._uses[level] = self
        self.lock._uses.append(self)
        self.is_over = False  # last: before, the level is undone by who has the exception

    def end(self) -> None:
        self.is_over = True
        with contextlib.suppress(ValueError):
            self.lock._uses.remove(self)

    def abandon(self) -> None:
        """After an exception, at the begin or the end of a `with`."""
        with contextlib.suppress(ValueError):
            self.lock._entered.remove(self)
        if not self.is_over:
            self.hold._abandon()


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
        self._uses: list[_Use] = []     # not released yet
        self._entered: list[_Use] = []  # by a `with` that has not ended

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
            return self._acquire(to_wait_ms(blocking, timeout), _Use(self))
        except Busy:
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
        if not use:
            raise make_error(lib.REDLOCK_NOT_HELD,
                             "this thread acquired no lock by this object that it has not "
                             "released")
        use.hold.release(confirm=confirm)

    def __enter__(self) -> Hold:
        use = _Use(self)
        try:
            hold = self._acquire(self._wait_ms, use)
            self._entered.append(use)
            return hold
        except BaseException:
            use.abandon()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        use: _Use | None = None
        try:
            while use := self._ending():
                with contextlib.suppress(ValueError):  # another thread has taken it
                    self._entered.remove(use)
                    break
            if use and not use.is_over:  # otherwise the body has released it
                use.hold._leave(error)
        except BaseException:
            use = use or self._ending()
            if use:
                use.abandon()
            raise
        if not use:
            report_unknown_exit("thread", error)

    def _ending(self) -> _Use | None:
        """Which `with` ends now. It may end in another thread than it began in: then the only
        one, or the last one of a thread that has ended; None: several threads are in one."""
        use = self._last(self._entered)
        if not use and len(entered := self._entered.copy()) == 1:
            use = entered[0]
        return use

    def _acquire(self, wait_ms: int, use: _Use) -> Hold:
        return self._client._acquire(self._keys, wait_ms, self._native, self._on_lost, use)

    @staticmethod
    def _mine(uses: Uses) -> _Use | None:
        """The last one of the calling thread."""
        here = threading.current_thread()
        return next((use for use in uses[::-1] if use.thread is here), None)

    @staticmethod
    def _last(uses: Uses) -> _Use | None:
        """The last one of the calling thread, or else of a thread that has ended."""
        return Lock._mine(uses) or next(
            (use for use in uses[::-1] if not use.thread.is_alive()), None)

    # --- what threading.Condition calls, without the network where it only looks ---

    def _is_owned(self) -> bool:
        use = self._mine(self._uses)
        if use:  # wait() and notify() raise Lost
            if use.why_lost:
                raise use.why_lost
            use.hold.check()
        return use is not None

    def _release_save(self) -> Uses:
        """It must not raise: the Condition has queued the thread as one that waits."""
        mine = self._mine(self._uses)
        uses = list(mine.hold._uses.values()) if mine else []  # several: `recursive`
        for use in uses:
            try:
                use.hold.release()
            except Lost as why:
                use.why_lost = why
            except RedlockError as why:
                log.warning("%s", why)  # nobody else had the lock meanwhile
        return uses

    def _acquire_restore(self, uses: Uses) -> None:
        """It is another hold. A `with` that has not ended knows it by the same _Use."""
        for use in uses:
            use.lock._acquire(lib.REDLOCK_FOREVER, use)

    def _native(self) -> Any:
        made = ffi.new("redlock_lock_options *")
        lib.redlock_lock_options_init_sized(made, ffi.sizeof("redlock_lock_options"))
        self._set_options(made)
        made.handoffs = unsigned("handoffs", self._options.handoffs)
        made.release_on_free = self._options.release_on_close
        made.any_thread = not self._flags.get("recursive", False)
        return made


class Election(Lock):
    """A candidate of an election: it leads while it holds the lock. `hold.term` is the number
    of its term, for every request that it makes as the leader."""

    campaign: Final = Lock.acquire
    resign: Final = Lock.release


class Observer(Handle):
    """Knows who leads an election, and each change, until it is closed."""

    def __init__(self, changed: Callable[[Leader], object] | None) -> None:
        self.leader: Leader | None = None  # None: nothing is known yet
        self._changed = changed
        self._changes: queue.SimpleQueue[Leader | None] = queue.SimpleQueue()
        self._client: Client | None = None
        self._number = 0

    def next(self, timeout: Duration | None = None) -> Leader | None:
        """Waits for the next change, at most so long; None: none came, or it is closed."""
        try:
            change = self._changes.get(timeout=to_timeout(timeout))
        except queue.Empty:
            return None
        if change is None:  # closed, also for all others that wait, and from now on
            self._changes.put(None)
        return change

    def __iter__(self) -> Iterator[Leader]:
        """Each change, until the observer is closed."""
        return iter(self.next, None)

    def close(self) -> None:
        """Ends the iteration, and the wait of next()."""
        observed = self._client._observed.get(self._number) if self._client else None
        if observed:
            observed.close()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _report(self, leader: Leader) -> None:
        self.leader = leader
        self._changes.put(leader)
        if self._changed:
            self._changed(leader)


_observers: Registry[weakref.ref[Observer]] = Registry()


def _report_leader(_observer: Any, leader: Any, arg: Any) -> None:
    found = _observers.find(arg)
    observer = found() if found else None
    if observer:
        observer._report(leader_of(leader))


class _Observed(Forgotten):
    """What the client keeps of an observer that is not closed."""

    def __init__(self, observer: Observer, number: int, observed: dict[int, _Observed]) -> None:
        super().__init__(observer)
        self.number = number
        self.observed = observed
        self.changes = observer._changes
        # One that calls back is kept, as nobody needs the object.
        self.kept = observer if observer._changed else None
        self.handle: Any = NULL

    def close(self) -> bool:
        """False: it was closed before."""
        if self.observed.pop(self.number, None) is not self:
            return False
        _observers.remove(self.number)
        lib.redlock_sync_observer_free(self.handle)
        self.kept = None
        self.changes.put(None)
        return True

    def end(self) -> None:
        if self.close():
            warn("an Observer was not closed, and nothing refers to it any more: it is closed")


_on_leader = callback(
    "void (*)(redlock_sync_observer *, const redlock_leader *, void *)", _report_leader)


class _OpenClient(Forgotten):
    """What has to be freed of a client. Nothing refers to a client whose holds, locks or
    observers are in use: these refer to it."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.pointer = client._pointer
        self.holds = client._holds
        self.observed = client._observed
        self.admins = client._admins
        self.spans = client._spans
        self.number = _open_clients.add(self)

    def free(self) -> bool:
        """False: it was freed before."""
        if not _open_clients.remove(self.number):
            return False
        for observed in list(self.observed.values()):
            observed.close()
        for admin in self.admins:
            admin.close()
        lib.redlock_sync_free(self.pointer)
        if self.spans:
            self.spans.close()
        for kept in list(self.holds.values()):
            kept.drop()
        return True

    def end(self) -> None:
        for kept in list(self.holds.values()):
            kept.end()
        if self.free():
            warn("a Client was not closed, and nothing refers to it any more: it is closed. "
                 "Close it, or use `with`")


_open_clients: Registry[_OpenClient] = Registry()


class Client(Handle):
    """A client of these nodes, with one thread of its own, for all threads of the process.

    `nodes`: URIs, or one text of URIs with commas between them; None: as the command `redlock`
    finds them (REDLOCK_NODES, redlock.conf(5)), with the options that are set there; those that
    differ from their defaults in `options` win. It connects in the background.

    `on_span(span)` is called in the client's thread at the begin and at the end of each
    operation and hold, in a copy of the context (contextvars) of the caller that acquired the
    lock. It must return soon, and must not wait for nodes.
    """

    def __init__(self, nodes: Iterable[str] | str | None = None,
                 options: Options | None = None, *, on_span: OnSpan | None = None) -> None:
        _greenlets.refuse()
        # Settled once: a second client of the same nodes is made later.
        self._nodes, self._options = settle(nodes, options)
        uris, native = to_native(self._nodes, self._options)
        _events.set_options(native.struct)
        self._spans = Spans(on_span) if on_span else None
        if self._spans:
            self._spans.set_options(native.struct)
        made = ffi.new("redlock_sync **")
        if lib.redlock_sync_new(uris.strings(), uris.count, native.struct, made,
                                NULL) != lib.REDLOCK_OK:
            if self._spans:
                self._spans.close()
            raise of_last_call()
        self._pointer = made[0]
        self._pid = os.getpid()
        self._holds: dict[int, _Kept] = {}  # not released yet, by their address
        self._observed: dict[int, _Observed] = {}
        self._admins: Admins = []  # one at most
        self._flights: dict[bytes, tuple[threading.Thread, Future[Any]]] = {}
        self._stops: set[Any] = set()
        self._callers: Callers = {}  # the threads that are in _using()
        self._closed = ""  # why calls are refused
        self._frees_later = False  # close() left it to the last one in _using()
        # No Condition: a signal handler that raises in its __enter__() would leave it locked.
        self._guard = threading.RLock()
        self._left = threading.Condition(self._guard)
        self._number = _OpenClient(self).number

    # --- locks ---

    def lock(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
             recursive: bool = False, redisson: bool = False, timeout: Duration = -1,
             on_lost: OnLost | None = None, options: LockOptions = LockOptions()) -> Lock:
        """The lock on this key; `ttl` in seconds. It is extended until it is released.

        `timeout`: `with` waits at most so long, and then raises WaitTimeout; 0: one attempt,
        and Busy; -1: it waits without a limit.
        `recursive`: its thread may lock it again; then only that thread may release it.
        `on_lost(hold, why)` is called in the client's thread if the lock is lost: it must
        return soon, and must not wait for nodes.
        """
        return Lock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                    recursive=recursive, kind=lib.REDLOCK_KIND_REDISSON if redisson
                    else lib.REDLOCK_KIND_EXCLUSIVE)

    def locked(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
               recursive: bool = False, redisson: bool = False, timeout: Duration = -1,
               on_lost: OnLost | None = None, options: LockOptions = LockOptions(),
               ) -> Callable[[Callable[Called, Returned]], Callable[Called, Returned]]:
        """Decorates a function: each call holds the lock, as `with lock(...)` does. A function
        that calls itself waits for itself, unless it is `recursive`."""
        lock = self.lock(key, ttl, fenced=fenced, recursive=recursive, redisson=redisson,
                         timeout=timeout, on_lost=on_lost, options=options)

        def decorate(function: Callable[Called, Returned]) -> Callable[Called, Returned]:
            check_decorated(function, is_async=False)

            @functools.wraps(function)
            def call(*args: Called.args, **kwargs: Called.kwargs) -> Returned:
                with lock:
                    return finished(function(*args, **kwargs))
            return call
        return decorate

    def shared(self, key: Key, ttl: Duration = 30, *, fenced: bool = False,
               recursive: bool = False, timeout: Duration = -1, on_lost: OnLost | None = None,
               options: LockOptions = LockOptions()) -> Lock:
        """The same as a reader: any number of readers, or one writer, which is lock()."""
        return Lock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                    recursive=recursive, kind=lib.REDLOCK_KIND_SHARED)

    def lock_many(self, keys: Iterable[Key], ttl: Duration = 30, *, fenced: bool = False,
                  recursive: bool = False, timeout: Duration = -1, on_lost: OnLost | None = None,
                  options: LockOptions = LockOptions()) -> Lock:
        """Several keys, all or nothing, in one round."""
        return Lock(self, to_keys(keys), ttl, options, on_lost, timeout, fenced=fenced,
                    recursive=recursive)

    def slots(self, key: Key, count: int, ttl: Duration = 30, *, fenced: bool = False,
              timeout: Duration = -1, on_lost: OnLost | None = None,
              options: LockOptions = LockOptions()) -> Lock:
        """A semaphore: at most `count` holders at a time; all clients give the same count."""
        return Lock(self, [to_key(key)], ttl, options, on_lost, timeout, fenced=fenced,
                    kind=lib.REDLOCK_KIND_SLOT, slots=unsigned("slots", count))

    def election(self, name: Key, ttl: Duration = 30, *, timeout: Duration = -1,
                 on_lost: OnLost | None = None,
                 options: LockOptions = LockOptions()) -> Election:
        """A candidate of this election, on nodes that were admitted."""
        return Election(self, [to_key(name)], ttl, options, on_lost, timeout,
                        kind=lib.REDLOCK_KIND_ELECTION)

    def adopt(self, key: Key, token: str, ttl: Duration = 30, *,
              valid: Duration | None = None, fence: int | None = None,
              on_lost: OnLost | None = None, options: LockOptions = LockOptions()) -> Hold:
        """Takes over the lock that has this token, and extends it; see redlock_lock_adopt().

        `valid`: what is left of its validity, as the former holder knew it; None: not known.
        """
        key_bytes = to_key(key)
        lock = Lock(self, [key_bytes], ttl, options, on_lost,
                    fence=fence or lib.REDLOCK_NO_FENCE)
        valid_ms = lib.REDLOCK_UNKNOWN if valid is None else to_ms(valid, "valid")
        text = to_token(token)

        def adopt(pointer: Any, options: Any, made: Any) -> int:
            return int(lib.redlock_lock_adopt(pointer, key_bytes, len(key_bytes), text, valid_ms,
                                              options, made))
        return self._make_hold([key_bytes], lock._native(), on_lost, adopt,
                               self._spans.capture() if self._spans else None)

    def release(self, key: Key, token: str) -> None:
        """Releases the lock that has this token, which disown() returned. Raises Lost if the
        nodes do not have it, and Unconfirmed if too few nodes replied."""
        key_bytes, text = to_key(key), to_token(token)
        with self._using() as pointer:
            code = lib.redlock_lock_release(pointer, key_bytes, len(key_bytes), text)
        if code != lib.REDLOCK_OK:
            raise self._with_nodes(of_last_call(held=True))

    def single_flight(self, key: Key, function: Callable[[Hold], Returned], ttl: Duration = 30, *,
                      fenced: bool = False, timeout: Duration = -1,
                      on_lost: OnLost | None = None,
                      options: LockOptions = LockOptions()) -> Returned:
        """Of all threads that want `key` at the same time, one holds the lock and calls
        `function(hold)`; all get what it returns or raises. Who calls later begins a new flight.

        Between processes it is a lock: `function` checks first whether another process has done
        the work meanwhile. If the thread that leads does not get the lock, or is interrupted
        (KeyboardInterrupt ...) before `function` returns, another one leads, and its call begins
        the work again.
        """
        lock = self.lock(key, ttl, fenced=fenced, on_lost=on_lost, timeout=timeout,
                         options=options)
        [name] = lock._keys
        me, left = threading.current_thread(), time_left(lock._wait_ms)
        while True:
            mine: Future[Returned] = Future()
            values: list[Returned] = []
            try:
                leader, flight = self._flights.setdefault(name, (me, mine))
                if flight is mine:
                    lock._wait_ms = left()
                    with lock as hold:
                        try:
                            values.append(finished(function(hold)))
                        finally:  # who calls from now on is too late for it
                            self._flights.pop(name, None)
                    mine.set_result(values[0])
                    return values[0]
            except BaseException as why:
                end_flight(self._flights, name, mine, values, why)
                raise
            finally:
                end_flight(self._flights, name, mine, values)  # if that was interrupted
            if leader is me:
                raise make_error(lib.REDLOCK_BUSY, "this thread leads a single flight of this key "
                                 "already, and would wait for itself")
            wait_ms = left()
            if not wait([flight], None if wait_ms < 0 else to_timeout(wait_ms / 1000)).done:
                raise make_error(lib.REDLOCK_TIMEOUT)
            if not isinstance(flight.exception(), LeaderLeft):
                shared: Returned = flight.result()
                return shared

    def once_per(self, key: Key, period: Duration) -> bool:
        """True: the caller does what `key` names, now. Of all calls in a period, which is
        counted in UTC by the nodes' clocks, one gets True, on all hosts: also beside `redlock
        run --once-per` with the same key and period.

        At most once: if the caller fails, or this call, the period may be used up. Give the
        nodes a memory that lasts; docs/kinds.md says what the record does not promise.
        """
        admin, name, ms = self._administration(), to_key(key), to_period_ms(period)
        return admin.one(lambda tell: start_once(admin.engine, name, ms, tell)) is True

    def observe(self, name: Key, changed: Callable[[Leader], object] | None = None) -> Observer:
        """Observes an election. `changed` is called in the client's thread."""
        key = to_key(name)
        observer = Observer(changed)
        number = _observers.add(weakref.ref(observer))
        made = ffi.new("redlock_sync_observer **")
        with self._using() as pointer:  # the end of it may free the client
            code = lib.redlock_sync_observe(pointer, key, len(key), _on_leader,
                                            argument(number), made)
            if code != lib.REDLOCK_OK:
                _observers.remove(number)
                raise of_last_call()
            observed = _Observed(observer, number, self._observed)
            observed.handle = made[0]
            self._observed[number] = observed
        observer._client = self
        observer._number = number
        return observer

    # --- the nodes ---

    @property
    def node_count(self) -> int:
        with self._using() as pointer:
            return int(lib.redlock_sync_nodes(pointer))

    @property
    def quorum(self) -> int:
        with self._using() as pointer:
            return int(lib.redlock_sync_quorum(pointer))

    def _with_nodes(self, error: RedlockError, hold: Hold | None = None) -> RedlockError:
        """C does not keep the replies to a release: then the states of the nodes."""
        if isinstance(error, (Lost, NoQuorum, Denied, Unconfirmed)):
            with contextlib.suppress(Closed):
                error.nodes = (hold.explain() if hold else ()) or self.explain()
        return error

    def explain(self) -> tuple[Reply, ...]:
        """The state of the connection to each node."""
        nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
        with self._using() as pointer:
            count = lib.redlock_sync_explain_sized(
                pointer, nodes, lib.REDLOCK_NODES_MAX, ffi.sizeof("redlock_node"))
        return replies_of(nodes, count)

    def record(self) -> str:
        """The flight recorder: the last 256 events, for example when a lock was lost."""
        room = 1 << 16
        with self._using() as pointer:
            text = ffi.new("char[]", room)
            needed = lib.redlock_sync_record(pointer, text, room)
        return text_of(text) if needed else ""

    def prometheus(self, **labels: str) -> str:
        """What this client has counted, as text for Prometheus, with these labels.

        docs/telemetry.md lists the metrics.
        """
        with self._using() as pointer:
            return prometheus_text(lambda stats: int(lib.redlock_sync_stats(pointer, stats)),
                                   labels)

    def inspect(self, key: Key) -> Inspection:
        """Who holds the key on which node. Changes nothing."""
        return self._administration().inspect(to_key(key))

    def break_lock(self, key: Key) -> Inspection:
        """Removes the key from all nodes, whoever holds it, and returns what was there. Its
        holder learns of it at its next extension, and until then believes that it holds it."""
        return self._administration().inspect(to_key(key), breaks=True)

    def list(self, prefix: Key = "") -> Iterator[Inspection]:
        """All locks whose keys begin so, as they are found. Takes the right to SCAN."""
        return self._administration().list(to_key(prefix))

    def check(self, *, strict: bool = False, fenced: bool = False) -> Report:
        """Whether these nodes are fit to hold locks, with each finding; writes nothing."""
        return self._administration().check(strict=strict, fenced=fenced)

    def _administration(self) -> Admin:
        """A second client, on a loop of its own: redlock/sync.h has no such calls."""
        with self._using():
            with self._guard:
                if not self._admins:
                    self._admins.append(Admin(self._nodes, self._options))
                return self._admins[0]

    # --- the end ---

    def close(self) -> None:
        """Ends all waits (Cancelled) and the client's thread.

        What is held is lost to its owner, and stays on the nodes until its TTL ends, because
        the owner may still be at work; with `release_on_close` it is released. In a signal
        handler that interrupts a call of this client, the client ends with that call.
        """
        if self._pid != os.getpid():
            return
        if in_callback():
            raise make_error(lib.REDLOCK_WOULD_DEADLOCK)
        self._close("the client was closed")

    def _close(self, why: str) -> None:
        with self._guard:
            if self._closed:
                return
            self._closed = why
            for stop in self._stops:
                lib.redlock_stop_all(stop)
            if threading.get_ident() in self._callers.values():
                self._frees_later = True  # this signal handler would wait for itself
                return
            while self._callers:
                self._left.wait(0.1)  # a signal handler may have raised before the notify
        self._free()

    def _free(self) -> None:
        found = _open_clients.find(argument(self._number))
        if found:
            found.free()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[Any]:
        """The pointer, which close() does not free meanwhile."""
        if self._pid != os.getpid():
            raise make_error(lib.REDLOCK_FORKED)
        call = object()
        try:
            try:
                with self._guard:
                    self._callers[call] = threading.get_ident()  # first: a handler may close()
                    if self._closed:
                        raise make_error(lib.REDLOCK_CLOSED, self._closed)
                yield self._pointer
            finally:
                with self._guard:
                    self._callers.pop(call, None)
                    self._left.notify_all()
        finally:
            self._callers.pop(call, None)  # if a signal handler raised, close() goes on
            if self._frees_later and not self._callers:
                self._free()

    # --- acquiring ---

    def _acquire(self, keys: Keys, wait_ms: int, native: Callable[[], Any],
                 on_lost: OnLost | None, use: _Use) -> Hold:
        caller = self._spans.capture() if self._spans else None

        def attempt(wait: int) -> Hold:
            arguments = Arguments(keys)
            array = arguments.keys(keys)

            def lock(pointer: Any, options: Any, made: Any) -> int:
                return int(lib.redlock_lock_many(pointer, array, len(keys), wait, options, made))
            return self._make_hold(keys, native(), on_lost, lock, caller, use)
        _greenlets.refuse()
        options = native()
        if wait_ms == 0 or options.recursive or not _signals_come_here():
            return attempt(wait_ms)
        # The C library goes on waiting after a signal, and Python runs its handlers only in
        # this thread. So another thread waits, if there is a wait.
        left = time_left(wait_ms)
        try:
            return attempt(0)
        except NotAcquired:
            return self._wait_elsewhere(lambda: attempt(left()))

    def _wait_elsewhere(self, attempt: Callable[[], Hold]) -> Hold:
        found: Found = []
        stops: Stops = []
        guard, done = threading.Lock(), threading.Event()
        is_unwanted = False

        def wait() -> None:
            _own_stops.list = stops
            try:
                result: Hold | BaseException = attempt()
            except BaseException as why:
                result = why
            with guard:
                if not is_unwanted:
                    found.append(result)
                elif isinstance(result, Hold):
                    with contextlib.suppress(RedlockError):
                        result.release(confirm=False)
            done.set()
        thread = threading.Thread(target=wait, name="redlock-wait", daemon=True)
        try:
            thread.start()
            done.wait()  # not join(): after an exception in it, the thread counts as ended
            if isinstance(found[0], Hold):
                return found[0]
        except BaseException:  # KeyboardInterrupt, or what a signal handler raises
            with guard:
                is_unwanted = True
                if found and isinstance(found[0], Hold):
                    with contextlib.suppress(RedlockError):
                        found[0].release(confirm=False)
            while thread.ident is not None and not done.is_set():
                with contextlib.suppress(BaseException):
                    self._end_waits(stops)
                    done.wait(0.05)
            raise
        raise found[0]

    def _end_waits(self, stops: Stops) -> None:
        with self._guard:  # under it a stop is removed before it is freed
            for stop in list(stops):
                if stop in self._stops:
                    lib.redlock_stop_all(stop)

    def _make_hold(self, keys: Keys, options: Any, on_lost: OnLost | None,
                   lock: Callable[[Any, Any, Any], int], caller: Caller | None,
                   use: _Use | None = None) -> Hold:
        failure = Failure()
        loss = _Loss()
        number = _losses.add(loss)
        made = ffi.new("redlock_hold **")
        options.failure = failure.struct
        options.on_lost = _on_lost
        options.lost_arg = argument(number)
        if caller:
            options.user = caller.argument
        level = _Level()
        try:
            with self._using() as pointer, self._stop_of(pointer) as stop:
                options.stop = stop
                code = lock(pointer, options, made)
            if code == lib.REDLOCK_OK:
                hold = self._keep(made[0], level, number, loss, keys, on_lost)
                hold._caller = hold._caller or caller
                if use:
                    use.begin(hold, level)
                loss.bind(hold)
                return hold
            error = failure.error()
            if error.code == "CANCELLED" and self._closed:
                raise make_error(lib.REDLOCK_CLOSED, self._closed)
            raise error
        except BaseException:  # also of a signal handler, at any place
            if made[0] != NULL:
                self._undo(made[0], level)
            _losses.remove(number)
            raise

    def _keep(self, pointer: Any, level: _Level, number: int, loss: _Loss, keys: Keys,
              on_lost: OnLost | None) -> Hold:
        at = address(pointer)
        # Freed by a function in C: see _forgotten.py. Then no thread can use the hold.
        at_once(level.owned, gc, pointer, lib.redlock_hold_free)
        with self._guard:
            kept = self._holds.get(at)
            known: Hold | None = kept() if kept else None
            if known:  # `recursive`: the same hold once more
                _losses.remove(number)
                known._levels.append(level)
                return known
            hold = Hold(self, level, loss, keys, on_lost)
            if kept:  # forgotten, and locked again by its thread
                hold._levels += kept.levels[1:]
            self._holds[at] = _Kept(hold, number)
            if kept:
                kept.drop()
            return hold

    def _undo(self, pointer: Any, level: _Level) -> None:
        """An exception came before the caller has the hold."""
        lib.redlock_unlock(pointer, 0)
        kept = self._holds.get(address(pointer))
        hold: Hold | None = kept() if kept else None
        if hold and level in hold._levels:
            hold._note_unlock(level, [lib.REDLOCK_OK])
        elif not level.owned:
            lib.redlock_hold_free(pointer)

    def _forget(self, hold: Hold) -> None:
        kept = self._holds.get(address(hold._pointer))
        if kept:
            kept.drop()

    @contextlib.contextmanager
    def _stop_of(self, pointer: Any) -> Iterator[Any]:
        """Ends the wait of one call: when the client is closed, or on a signal."""
        made = ffi.new("redlock_stop **")
        mine: Stops = getattr(_own_stops, "list", [])
        try:
            if lib.redlock_stop_new(pointer, made) != lib.REDLOCK_OK:
                raise of_last_call()
            stop = made[0]
            with self._guard:
                self._stops.add(stop)
                if self._closed:
                    lib.redlock_stop_all(stop)
            mine.append(stop)
            yield stop
        finally:
            stop = made[0]  # NULL if there is none
            with contextlib.suppress(ValueError):
                mine.remove(stop)
            with self._guard:
                self._stops.discard(stop)
            lib.redlock_stop_free(stop)


_own_stops = threading.local()


def _signals_come_here() -> bool:
    return threading.current_thread() is threading.main_thread()


# --- fork, and the end of the process ---

def _after_fork() -> None:
    """In the child: a thread that does not exist there may have held these."""
    here = threading.get_ident()
    for each in _open_clients.all():
        _of_the_parent.append(each)
        _open_clients.remove(each.number)
        for kept in each.holds.values():
            hold = kept()
            if hold:
                hold._loss.event = threading.Event()
        client = each()
        if not client:
            continue
        client._guard = threading.RLock()
        client._left = threading.Condition(client._guard)
        client._callers = {call: caller for call, caller in client._callers.items()
                           if caller == here}
        client._frees_later = False  # the client belongs to the parent
        client._stops = set()
        client._flights = {}


# Inert, and kept: freeing what the parent's threads were using is not safe in Python.
_of_the_parent: list[_OpenClient] = []
os.register_at_fork(after_in_child=_after_fork)


def _at_exit() -> None:
    for each in _open_clients.all():
        client = each()
        if client:
            client._close(AT_EXIT)
        else:
            each.end()


atexit.register(_at_exit)

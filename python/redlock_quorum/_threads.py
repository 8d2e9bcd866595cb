"""The client for threads, on redlock/sync.h."""
from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

from . import _events, _greenlets
from ._admin import Admin, Inspection, Report
from ._common import (
    Leader, LeaderLeft, LockOptions, check_decorated, end_flight, finished, record_text,
    time_left)
from ._errors import (
    Closed, Denied, Failure, Lost, NoQuorum, NotAcquired, RedlockError, Reply, Unconfirmed,
    make_error, of_last_call, replies_of)
from ._forgotten import AT_EXIT, Forgotten, warn
from ._holds import (
    ON_LOST, Election, Hold, Kept, Keys, Level, Lock, Loss, OnLost, Use, losses)
from ._later import Latch, begin_use, end_use
from ._native import NULL, Arguments, Handle, address, at_once, ffi, gc, lib, text_of
from ._observer import ON_LEADER, Observed, Observer, observers
from ._once import start_once, to_period_ms
from ._registry import Registry, argument, in_callback
from ._spans import Caller, OnSpan, Spans
from ._stats import prometheus_text
from ._values import (
    Duration, Key, Options, settle, to_key, to_keys, to_ms, to_native, to_slots, to_timeout,
    to_token)

# Found now: the first time, cffi runs code in Python, in which a signal may be handled.
_unlock: Any = lib.redlock_unlock
_stop_all: Any = lib.redlock_stop_all
Admins = list[Admin]
Callers = dict[object, int]
Called = ParamSpec("Called")
Returned = TypeVar("Returned")


class _Flight(Generic[Returned]):
    """Of single_flight(). No Future: a signal handler that raises could leave it locked."""

    def __init__(self) -> None:
        self.end = Latch()
        self._results: list[Returned] = []
        self._why: BaseException | None = None

    def done(self) -> bool:
        if self.end.is_set():
            self.end.set()  # again: a signal handler may have raised in it
        return self.end.is_set()

    def set_result(self, result: Returned) -> None:
        self._results.append(result)
        self.end.set()

    def set_exception(self, why: BaseException) -> None:
        self._why = why
        self.end.set()

    def exception(self) -> BaseException | None:
        return self._why

    def result(self) -> Returned:
        if self._why:
            raise self._why
        return self._results[0]


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
        begin_use(self)

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
            end_use(self)


_open_clients: Registry[_OpenClient] = Registry()


class Client(Handle):
    """A client of these nodes, with one thread of its own, for all threads of the process.

    `nodes`: URIs, or one text of URIs with commas between them; None: as the command `redlock`
    finds them (REDLOCK_NODES, redlock.conf(5)), with the options that are set there; those of
    `options` that are not None win. It connects in the background.

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
        if lib.redlock_sync_new(uris.strings(), uris.count, native.struct, made) != lib.REDLOCK_OK:
            if self._spans:
                self._spans.close()
            raise of_last_call()
        self._pointer = made[0]
        self._pid = os.getpid()
        self._holds: dict[int, Kept] = {}  # not released yet, by their address
        self._lost: list[weakref.ref[Hold]] = []  # maybe not released yet
        self._observed: dict[int, Observed] = {}
        self._admins: Admins = []  # one at most
        self._flights: dict[bytes, tuple[threading.Thread, _Flight[Any]]] = {}
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
        and Taken; -1: it waits without a limit.
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
                    kind=lib.REDLOCK_KIND_SLOT, slots=to_slots(count))

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
            mine: _Flight[Returned] = _Flight()
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
            if not flight.end.wait(None if wait_ms < 0 else to_timeout(wait_ms / 1000)):
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
        number = observers.add(weakref.ref(observer))
        made = ffi.new("redlock_sync_observer **")
        with self._using() as pointer:  # the end of it may free the client
            code = lib.redlock_sync_observe(pointer, key, len(key), ON_LEADER,
                                            argument(number), made)
            if code != lib.REDLOCK_OK:
                observers.remove(number)
                raise of_last_call()
            observed = Observed(observer, number, self._observed)
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
        with self._using() as pointer:
            return record_text(lambda text, room: int(
                lib.redlock_sync_record(pointer, text, room)))

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
            for stop in list(self._stops):
                lib.redlock_stop_all(stop)
            if threading.get_ident() in self._callers.values():
                self._frees_later = True  # this signal handler would wait for itself
                return
            while self._callers:
                self._left.wait(0.1)  # a signal handler may have raised before the notify
        self._free()

    def _free(self) -> None:
        found = _open_clients.find(argument(self._number))
        if found and found.free():
            end_use(found)

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
                 on_lost: OnLost | None, use: Use) -> Hold:
        caller = self._spans.capture() if self._spans else None

        def attempt(wait: int) -> Hold:
            arguments = Arguments(keys)
            array = arguments.keys(keys)

            def lock(pointer: Any, options: Any, made: Any) -> int:
                return int(lib.redlock_lock_many(pointer, array, len(keys), wait, options, made))
            return self._make_hold(keys, native(), on_lost, lock, caller, use)
        _greenlets.refuse()
        self._release_lost(keys)
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

    def _release_lost(self, keys: Keys) -> None:
        """An extension that came late may have stored a lost lock again, for its whole TTL."""
        for kept in self._lost.copy():
            hold = kept()
            if not hold or hold._is_given_up or (
                    not set(keys).isdisjoint(hold.keys) and hold._release_lost()):
                with contextlib.suppress(ValueError):
                    self._lost.remove(kept)

    def _wait_elsewhere(self, attempt: Callable[[], Hold]) -> Hold:
        wait = _Wait()

        def run() -> None:
            _here.wait = wait
            try:
                wait.found.append(attempt())
            except BaseException as why:
                wait.failed.append(why)
            if wait.is_unwanted:
                wait.give_up()
            wait.over.set()
        started: list[int] = []
        try:
            # Thread.start() may be interrupted when it is unknown whether the thread exists.
            at_once(started, _thread.start_new_thread, run, ())
            wait.over.wait()
            if wait.found:
                return wait.found[0]
        except BaseException:  # KeyboardInterrupt, or what a signal handler raises
            # No further signal is handled before the first call here returns, and that is in C.
            wait.is_unwanted = True
            if wait.found:
                _unlock(wait.found[0]._pointer, 0)
            elif wait.stop is not None:
                _stop_all(wait.stop)
            is_given_up = False
            while not is_given_up:
                try:
                    wait.give_up()
                    is_given_up = True
                except BaseException:  # the first one is raised
                    pass
            if started:
                wait.over.wait()  # another one ends that, but not the end of the thread
            raise
        raise wait.failed.pop()

    def _make_hold(self, keys: Keys, options: Any, on_lost: OnLost | None,
                   lock: Callable[[Any, Any, Any], int], caller: Caller | None,
                   use: Use | None = None) -> Hold:
        failure = Failure()
        loss = Loss(options.margin_ms)
        number = losses.add(loss)
        made = ffi.new("redlock_hold **")
        options.failure = failure.struct
        options.on_lost = ON_LOST
        options.lost_arg = argument(number)
        if caller:
            options.user = caller.argument
        level = Level()
        try:
            with self._using() as pointer, self._stop_of(pointer) as stop:
                options.stop = stop
                code = lock(pointer, options, made)
            if code == lib.REDLOCK_OK:
                hold = self._keep(made[0], level, number, loss, keys, on_lost)
                hold._caller = hold._caller or caller
                hold._any_thread = bool(options.any_thread)
                if use:
                    use.begin(hold, level)
                loss.bind(hold)
                return hold
            raise self._why(failure)
        except BaseException:  # also of a signal handler, at any place
            if made[0] != NULL:
                _unlock(made[0], 0)  # in C: before a further signal is handled
                self._undo(made[0], level)
            losses.remove(number)
            raise

    def _why(self, failure: Failure) -> RedlockError:
        """Not in a variable of who raises it: its traceback would have it, and all that the
        callers have, until the garbage collector runs."""
        error = failure.error()
        if error.code == "CANCELLED" and self._closed:
            return make_error(lib.REDLOCK_CLOSED, self._closed)
        return error

    def _keep(self, pointer: Any, level: Level, number: int, loss: Loss, keys: Keys,
              on_lost: OnLost | None) -> Hold:
        at = address(pointer)
        # Freed by a function in C: see _forgotten.py. Then no thread can use the hold.
        at_once(level.owned, gc, pointer, lib.redlock_hold_free)
        with self._guard:
            kept = self._holds.get(at)
            known: Hold | None = kept() if kept else None
            if known:  # `recursive`: the same hold once more
                losses.remove(number)
                known._levels.append(level)
                return known
            hold = Hold(self, level, loss, keys, on_lost)
            if kept:  # forgotten, and locked again by its thread
                hold._levels += kept.levels[1:]
            self._holds[at] = Kept(hold, number)
            if kept:
                kept.drop()
            return hold

    def _undo(self, pointer: Any, level: Level) -> None:
        """An exception came before the caller has the hold, which is unlocked."""
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
        wait: _Wait | None = getattr(_here, "wait", None)
        owned: list[Any] = []
        try:
            try:
                if lib.redlock_stop_new(pointer, made) != lib.REDLOCK_OK:
                    raise of_last_call()
                # Freed when nothing refers to it: whoever is about to stop it may come late.
                at_once(owned, gc, made[0], lib.redlock_stop_free)
                self._stops.update(owned)
                if wait:
                    wait.stop = owned[0]
                if self._closed or (wait and wait.is_unwanted):  # set before _stops is read
                    lib.redlock_stop_all(owned[0])
                yield owned[0]
            finally:
                self._stops.difference_update(owned)
        finally:
            self._stops.difference_update(owned)  # if a signal handler raised


class _Wait:
    """Of a thread that waits for the main thread, which a signal handler may take away."""

    def __init__(self) -> None:
        self.found: list[Hold] = []
        self.failed: list[BaseException] = []
        self.over = Latch()
        self.stop: Any = None
        self.is_unwanted = False  # set before `stop` is used, and read after it is set

    def give_up(self) -> None:
        """Both threads may call it, also more than once."""
        for hold in self.found:
            hold._abandon()


_here = threading.local()


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
                hold._loss.event = Latch()
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

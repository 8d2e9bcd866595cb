"""A client of redlock/redlock.h on an event loop of libevent, in one thread.

The thread is in C while nothing happens: it extends leases without taking the interpreter's
lock. Everything of the client is used in that thread only. Other threads post jobs, and get
results through a function that the job was given, for example call_soon_threadsafe().
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _events, _greenlets
from ._errors import RedlockError, Reply, make_error, of_last_call, replies_of
from ._forgotten import AT_EXIT, Forgotten
from ._later import begin_use, end_use, log_exception_later, log_later
from ._native import NULL, Arguments, Handle, address, ffi, lib
from ._registry import Registry, argument, callback
from ._spans import Caller, OnSpan, Spans
from ._values import Options, settle, to_native

Job = Callable[[], None]


# --- the clocks of a deadline ---

def _clocks_begin() -> tuple[int, int]:
    """CLOCK_BOOTTIME, and the clock that no time daemon slews, in ns: not too late.

    As rl_clocks_begin() in src/base/system_clock.c, which has the reasons.
    """
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return boot, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) + boot - monotonic


def _clocks_end() -> tuple[int, int]:
    """The same, not too early."""
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return boot, raw + boot - monotonic


class Lease(Handle):
    """One lease. Its functions that C calls run in the engine's thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pointer: Any = None  # only the engine's thread uses it
        self.token: str = ""
        self.fence: int = 0
        self.slot: int = 0
        self.caller: Caller | None = None  # kept for its spans
        self._until = (0, 0)

    # --- any thread ---

    def valid_ms(self) -> int:
        if self.engine.pid != os.getpid():
            return 0
        boot, unslewed = _clocks_end()
        left = min(self._until[0] - boot, self._until[1] - unslewed)
        return max(0, left // 1_000_000)

    # --- the engine's thread ---

    def note_validity(self) -> None:
        begin = _clocks_begin()  # before redlock_valid_ms() reads a clock
        valid = int(lib.redlock_valid_ms(self.pointer)) * 1_000_000
        self._until = (begin[0] + valid, begin[1] + valid) if valid > 0 else (0, 0)

    def note_acquired(self) -> None:
        self.note_validity()
        self.token = ffi.string(lib.redlock_token(self.pointer)).decode()
        self.fence = int(lib.redlock_fence(self.pointer))
        self.slot = int(lib.redlock_slot(self.pointer))

    def keep(self, pointer: Any) -> None:
        self.pointer = pointer
        self.engine.leases[address(pointer)] = self

    def replies(self) -> tuple[Reply, ...]:
        if self.pointer is None:
            return ()
        nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
        count = lib.redlock_explain_sized(self.pointer, nodes, lib.REDLOCK_NODES_MAX,
                                          ffi.sizeof("redlock_node"))
        return replies_of(nodes, count)

    def free(self) -> None:
        """Also cancels a running acquire, and releases what is held, in the background."""
        if self.pointer is not None:
            self.engine.leases.pop(address(self.pointer), None)
            lib.redlock_lease_free(self.pointer)
            self.pointer = None

    def failed(self, result: Any, *, acquiring: bool = False) -> RedlockError:
        nodes = self.replies()
        holder = next((node.holder for node in nodes if node.verdict == "held"), "")
        left = None if result.remaining_ms < 0 else result.remaining_ms / 1000
        text = ""
        if acquiring and holder and result.code in (lib.REDLOCK_TAKEN, lib.REDLOCK_TIMEOUT):
            text = f"{holder} has the lock" + (
                "" if left is None else f" for another {left:.3f} s")
        return make_error(result.code, text, reason=result.reason, acquiring=acquiring, held=not acquiring,
                          holder=holder, remaining=left, nodes=nodes)

    def on_acquired(self, result: Any) -> None:
        raise NotImplementedError

    def on_extended(self, result: Any) -> None:
        raise NotImplementedError

    def on_released(self, result: Any) -> None:
        raise NotImplementedError

    def on_lost(self, result: Any) -> None:
        raise NotImplementedError

    def on_closing(self) -> None:
        """The engine begins to end: it waits for releases, and acquires nothing more."""
        raise NotImplementedError

    def on_closed(self) -> None:
        """The engine ends; the lease is freed after this."""


_engines: Registry[Engine] = Registry()


def _lease_callback(name: str) -> Any:
    def call(pointer: Any, result: Any, arg: Any) -> None:
        engine = _engines.find(arg)
        lease = engine.leases.get(address(pointer)) if engine else None
        if lease:
            getattr(lease, name)(result)
    return callback("void (*)(redlock_lease *, const redlock_result *, void *)", call)


ON_ACQUIRED = _lease_callback("on_acquired")
ON_EXTENDED = _lease_callback("on_extended")
ON_RELEASED = _lease_callback("on_released")
_ON_LOST = _lease_callback("on_lost")


def _renewed(pointer: Any, _result: Any, arg: Any) -> None:
    engine = _engines.find(arg)
    lease = engine.leases.get(address(pointer)) if engine else None
    if lease:
        lease.note_validity()


def _woken(_fd: int, _what: int, arg: Any) -> None:
    engine = _engines.find(arg)
    if engine:
        engine._run_jobs()


def _drained(_client: Any, _clean: bool, arg: Any) -> None:
    engine = _engines.find(arg)
    if engine:
        lib.event_base_loopbreak(engine._base)


_ON_RENEWED = callback("void (*)(redlock_lease *, const redlock_result *, void *)", _renewed)
_ON_WOKEN = callback("void (*)(int, short, void *)", _woken)
_ON_DRAINED = callback("void (*)(redlock_client *, bool, void *)", _drained)


class Engine(Handle):
    """The thread, its loop and its client."""

    def __init__(self, nodes: Iterable[str] | str | None, options: Options | None,
                 on_span: OnSpan | None = None, *, logs: bool = True) -> None:
        _greenlets.refuse()
        uris, native = to_native(*settle(nodes, options))
        if logs:
            _events.set_options(native.struct)
        self.spans: Spans | None = Spans(on_span) if on_span else None
        if self.spans:
            self.spans.set_options(native.struct)
        self.max_ttl_ms: int = native.struct.max_ttl_ms
        self.pid: int = os.getpid()
        self.leases: dict[int, Lease] = {}
        self.lost: list[Lease] = []  # maybe not freed yet; only the thread uses it
        self.closing: list[Job] = []  # called in the thread when the engine ends
        self._jobs: collections.deque[Job] = collections.deque()
        # No job is posted after the last one has run. A signal handler may enter it again.
        self._guard = threading.RLock()
        self._inside: set[int] = set()  # the threads that are in it, or about to be
        self.closed: str = ""  # why: close() was called, or the loop has failed
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._number = _engines.add(self)
        self._base: Any = NULL
        self._event: Any = NULL
        self.client: Any = NULL
        self._thread: threading.Thread | None = None
        self.forgotten: Forgotten | None = None  # kept: of the client that uses the engine
        begin_use(self)
        try:
            self._open(uris, native.struct)
        except BaseException:
            lib.redlock_client_free(self.client)
            self._put_away()
            raise

    def _open(self, uris: Arguments, options: Any) -> None:
        self._base = lib.event_base_new()
        if self._base == NULL:
            raise make_error(lib.REDLOCK_SYSTEM, "cannot create an event loop")
        self._event = lib.event_new(self._base, self._woken,
                                    lib.EVENT_READ | lib.EVENT_PERSIST, _ON_WOKEN,
                                    argument(self._number))
        if self._event == NULL or lib.event_add(self._event, NULL) != 0:
            raise make_error(lib.REDLOCK_SYSTEM, "cannot create an event")
        made = ffi.new("redlock_client **")
        if lib.redlock_client_new(self._base, uris.strings(), uris.count, options, made) != lib.REDLOCK_OK:
            raise of_last_call()
        self.client = made[0]
        self.quorum: int = int(lib.redlock_client_quorum(self.client))
        self.node_count: int = int(lib.redlock_client_nodes(self.client))
        # A daemon: at the end of the process _at_exit() ends it, after all other threads.
        self._thread = threading.Thread(target=self._run, name="redlock", daemon=True)
        self._thread.start()

    @property
    def argument(self) -> Any:
        return argument(self._number)

    def post(self, job: Job) -> None:
        """Has the thread call job(). Raises Closed or Forked, and then it is not called."""
        if self.pid != os.getpid():
            raise make_error(lib.REDLOCK_FORKED)
        with self._guarded():
            if self.closed:
                raise make_error(lib.REDLOCK_CLOSED, self.closed)
            self._jobs.append(job)
            self._notify()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[bool]:
        """Holds the guard. True: in a signal handler that interrupted another holder."""
        here = threading.get_ident()
        is_inner = here in self._inside
        try:
            self._inside.add(here)  # first, so that no signal comes in between
            with self._guard:
                yield is_inner
        finally:
            if not is_inner:
                self._inside.discard(here)

    def _notify(self) -> None:
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:
            pass  # it is readable already

    def lease_options(self) -> Any:
        made = ffi.new("redlock_lease_options *")
        lib.redlock_lease_options_init_sized(made, ffi.sizeof("redlock_lease_options"))
        made.on_lost = _ON_LOST
        made.on_extended = _ON_RENEWED
        made.lost_arg = made.extended_arg = self.argument
        return made

    def close(self, *, wait: bool = True, why: str = "the client was closed") -> None:
        """Ends acquires with CLOSED, and after the releases that were begun all else with
        CANCELLED. Leases that are held stay on the nodes until their TTL ends.

        In a signal handler that interrupted post() or close() it does not wait: the thread
        needs the guard to end.
        """
        if self.pid != os.getpid():
            return
        with self._guarded() as is_inner:
            if not self.closed:
                self.closed = why
                self._jobs.append(self._begin_end)
                self._notify()
        thread = self._thread
        if wait and not is_inner and thread and threading.current_thread() is not thread:
            thread.join()

    # --- the thread ---

    def _run(self) -> None:
        failed = lib.event_base_loop(self._base, lib.EVENT_NO_EXIT_ON_EMPTY)
        if failed:
            log_later(logging.ERROR, "the event loop of redlock_quorum has failed")
        with self._guarded():
            self.closed = self.closed or "the event loop of the client has failed"
        for lease in list(self.leases.values()):
            self._call(lease.on_closed)
        for job in self.closing:
            self._call(job)
        client, self.client = self.client, NULL
        lib.redlock_client_free(client)  # before the leases: held ones are not released
        self._run_jobs()  # they find no client
        for lease in list(self.leases.values()):
            lease.free()
        self._put_away()

    def _begin_end(self) -> None:
        for lease in list(self.leases.values()):
            self._call(lease.on_closing)
        code = lib.redlock_client_drain(self.client, lib.REDLOCK_NODE_TIMEOUT, _ON_DRAINED,
                                        self.argument)
        if code not in (lib.REDLOCK_OK, lib.REDLOCK_BUSY):  # busy: it has begun already
            lib.event_base_loopbreak(self._base)

    def _run_jobs(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            pass
        for _ in range(len(self._jobs)):  # what these post runs in the next iteration
            self._call(self._jobs.popleft())

    @staticmethod
    def _call(job: Job) -> None:
        try:
            job()
        except BaseException:
            log_exception_later("an exception in the thread of redlock_quorum")

    def _put_away(self) -> None:
        if self._event != NULL:
            lib.event_free(self._event)
        if self._base != NULL:
            lib.event_base_free(self._base)
        self._event = self._base = NULL
        os.close(self._woken)
        os.close(self._wake)
        self.forgotten = None
        if self.spans:
            self.spans.close()
        _engines.remove(self._number)
        end_use(self)


def _at_exit() -> None:
    for engine in _engines.all():
        engine.close(why=AT_EXIT)


atexit.register(_at_exit)

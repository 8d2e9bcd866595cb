"""Threads for what finalizers and the client's thread must not wait for."""
from __future__ import annotations

import _thread
import contextlib
import importlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger("redlock_quorum")
_WAITING_MAX = 1000      # records: a handler that hangs must not fill the memory
_FLUSH_SECONDS = 1.0
_LOOK_SECONDS = 0.2      # a signal that comes just before acquire() does not interrupt it


class Latch:
    """An Event whose wait() leaves nothing locked if a signal handler raises in it: then set()
    would never return, and it is called in the client's thread. What may block is in C."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Any] = []  # a lock for each wait()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True  # first: who waits from now on looks at it after it is in the list
        for each in self._waiting.copy():
            with contextlib.suppress(RuntimeError):  # released by another set()
                each.release()

    def wait(self, timeout: float | None = None) -> bool:
        mine = _thread.allocate_lock()
        mine.acquire()
        self._waiting.append(mine)
        end = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
        try:
            while not self._is_set and (left := end - time.monotonic()) > 0:
                mine.acquire(timeout=min(left, _LOOK_SECONDS))
        finally:
            with contextlib.suppress(ValueError):  # interrupted in the append
                self._waiting.remove(mine)
        return self._is_set


class Job:
    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end


class Later:
    """A thread, and a queue of what has an end(), which the thread calls."""

    def __init__(self, name: str, failed: Callable[[], object]) -> None:
        self._name = name
        self._failed = failed  # called with an exception of end()
        self._clear()
        os.register_at_fork(after_in_child=self._clear)

    def _clear(self) -> None:
        """Also in a child: what was made by the parent belongs to it."""
        # In C; `queue` may be patched.
        self.queue: Any = importlib.import_module("_queue").SimpleQueue()
        self._guard = threading.RLock()  # a signal handler may enter it again
        self._thread: threading.Thread | None = None
        self._ends = False  # the job that ends it waits

    def start(self) -> None:
        if self._thread:
            return
        with self._guard:
            if users and not self._thread:
                made = threading.Thread(target=self._run, args=(self.queue,), name=self._name,
                                        daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: the next call tries
                    made.start()
                    self._thread = made

    def flush(self) -> None:
        """Waits until the jobs so far have ended, but not for one that hangs."""
        reached = Latch()
        with self._guard:
            if not self._thread:
                return
            self.queue.put(Job(reached.set))
        reached.wait(_FLUSH_SECONDS)

    def end_if_unused(self, then: Callable[[], object]) -> None:
        """Has the thread end, and call `then`, when all that waits is done and no client is
        there any more."""
        def end() -> object:
            with self._guard:
                self._ends = False
                if users:
                    return None
                if not self.queue.empty():
                    self.end_if_unused(then)  # behind that
                    return None
                self._thread = None
            then()
            return _THE_LAST
        with self._guard:
            if self._thread and not self._ends:
                self._ends = True
                self.queue.put(Job(end))

    def _run(self, mine: Any) -> None:
        while True:
            try:
                if mine.get().end() is _THE_LAST:
                    return
            except BaseException:
                self._failed()


_THE_LAST = object()
# What the threads are there for: the clients that are not closed.
users: set[object] = set()
os.register_at_fork(after_in_child=users.clear)


def begin_use(client: object) -> None:
    users.add(client)
    records.start()
    forgotten.start()


def end_use(client: object) -> None:
    """The threads end with the last client: first the one that also writes records."""
    users.discard(client)
    if not users:
        forgotten.end_if_unused(lambda: records.end_if_unused(bool))


def log_later(level: int, text: str, *arguments: object, exc_info: Any = None,
              extra: Mapping[str, object] | None = None) -> None:
    """A record of the logger. The caller does not wait for a handler, or for a lock of
    `logging`."""
    def handle() -> None:
        if log.isEnabledFor(level):
            log.handle(record)
    if level >= log.getEffectiveLevel():
        record = log.makeRecord(log.name, level, __file__, 0, text, arguments, exc_info,
                                extra=extra)
        handle_later(handle)


def log_exception_later(text: str) -> None:
    log_later(logging.ERROR, text, exc_info=sys.exc_info())


def handle_later(call: Callable[[], object]) -> None:
    """In the thread of the records. It is dropped if too many of them wait."""
    if records.queue.qsize() < _WAITING_MAX:
        records.queue.put(Job(call))


# Two, so that a handler that hangs keeps nothing alive.
records = Later("redlock-log", traceback.print_exc)
forgotten = Later("redlock-forgotten", lambda: log_exception_later(
    "an exception in the thread redlock-forgotten"))

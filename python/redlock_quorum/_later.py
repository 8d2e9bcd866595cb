"""A thread for what finalizers and the client's thread must not wait for."""
from __future__ import annotations

import contextlib
import importlib
import os
import threading
import traceback
from typing import Any

from ._registry import log


def _new_queue() -> Any:
    """Of what has an end(), which the thread calls."""
    return importlib.import_module("_queue").SimpleQueue()  # in C; `queue` may be patched


queue = _new_queue()
_guard = threading.RLock()  # a signal handler may enter it again
_thread: threading.Thread | None = None


def start() -> None:
    global _thread
    if _thread:
        return
    with _guard:
        if not _thread:
            made = threading.Thread(target=_run, args=(queue,), name="redlock-later", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads: the next one tries again
                made.start()
                _thread = made


def runs() -> bool:
    return _thread is not None


def _run(mine: Any) -> None:
    while True:
        try:
            mine.get().end()
        except BaseException:
            try:
                log.exception("an exception in the thread redlock-later")
            except BaseException:  # a handler of the logger raises
                traceback.print_exc()


def _after_fork() -> None:
    """In the child: what was made by the parent belongs to it."""
    global queue, _guard, _thread
    queue, _guard, _thread = _new_queue(), threading.RLock(), None


os.register_at_fork(after_in_child=_after_fork)

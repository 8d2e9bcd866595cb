"""What a program forgets to close or to release: a thread ends it, and warns.

A finalizer runs in any thread, in the middle of anything. It must not wait for a lock, which its
own thread may have, and a KeyboardInterrupt that is raised in Python code of it is lost. So the
finalizers are functions written in C, and what remains to be done is done in a thread.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import threading
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from ._registry import log


def _new_queue() -> Any:
    return importlib.import_module("_queue").SimpleQueue()  # in C; `queue` may be patched


_gone = _new_queue()
_guard = threading.RLock()  # a signal handler may enter it again
_thread: threading.Thread | None = None


# Handlers that are registered earlier run later than those of this package.
AT_EXIT = ("the interpreter is ending and has closed the client: import redlock_quorum before you "
           "register an atexit handler that uses it")


class Forgotten(weakref.ref[Any]):
    """Calls end() in a thread when nothing refers to `thing` any more. Not if this object goes
    first: so it is kept by what it ends, and dropped when `thing` is closed or released."""

    def __new__(cls, thing: Any, *_: object) -> Forgotten:
        return super().__new__(cls, thing, _gone.put)

    def __init__(self, _thing: Any) -> None:  # what weakref.ref has of it is made by __new__()
        _start()

    def end(self) -> None:
        raise NotImplementedError


def warn(text: str) -> None:
    """A ResourceWarning. It is no error, whatever the filters are: nobody could catch it."""
    try:
        warnings.warn(text, ResourceWarning, stacklevel=2)
    except ResourceWarning:
        log.error("%s", text)


def warn_of_hold(keys: Iterable[bytes]) -> None:
    text = (f"a hold of {b' '.join(keys)!r} was not released, and nothing refers to it any more: "
            "it is no longer extended, and ends with its TTL. Keep it until it is released, or "
            "use `with`")
    log.warning("%s", text)  # by default a ResourceWarning is not shown
    warn(text)


def _start() -> None:
    global _thread
    if _thread:
        return
    with _guard:
        if not _thread:
            made = threading.Thread(target=_run, args=(_gone,), name="redlock-forgotten",
                                    daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads: the next one tries again
                made.start()
                _thread = made


def _run(gone: Any) -> None:
    while True:
        try:
            gone.get().end()
        except BaseException:
            log.exception("an exception at the end of what was forgotten")


def _after_fork() -> None:
    """In the child: what was made by the parent belongs to it."""
    global _gone, _guard, _thread
    _gone, _guard, _thread = _new_queue(), threading.RLock(), None


os.register_at_fork(after_in_child=_after_fork)

"""What a program forgets to close or to release: a thread ends it, and warns.

A finalizer runs in any thread, in the middle of anything. It must not wait for a lock, which its
own thread may have, and a KeyboardInterrupt that is raised in Python code of it is lost. So the
finalizers are functions written in C, and what remains to be done is done in another thread.
"""
from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from ._later import forgotten, handle_later, log, log_later


# Handlers that are registered earlier run later than those of this package.
AT_EXIT = ("the interpreter is ending and has closed the client: import redlock_quorum before you "
           "register an atexit handler that uses it")


class Forgotten(weakref.ref[Any]):
    """Calls end() in a thread when nothing refers to `thing` any more. Not if this object goes
    first: so it is kept by what it ends, and dropped when `thing` is closed or released."""

    def __new__(cls, thing: Any, *_: object) -> Forgotten:
        return super().__new__(cls, thing, forgotten.queue.put)

    def __init__(self, _thing: Any) -> None:  # what weakref.ref has of it is made by __new__()
        forgotten.start()

    def end(self) -> None:
        raise NotImplementedError


def warn(text: str) -> None:
    """A ResourceWarning. It is no error, whatever the filters are: nobody could catch it."""
    def call() -> None:
        try:
            warnings.warn(text, ResourceWarning, stacklevel=2)
        except ResourceWarning:
            log.error("%s", text)
    handle_later(call)  # with logging.captureWarnings() it is a record


def warn_of_hold(keys: Iterable[bytes]) -> None:
    text = (f"a hold of {b' '.join(keys)!r} was not released, and nothing refers to it any more: "
            "it is no longer extended, and ends with its TTL. Keep it until it is released, or "
            "use `with`")
    log_later(logging.WARNING, "%s", text)  # by default a ResourceWarning is not shown
    warn(text)

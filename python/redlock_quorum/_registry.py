"""What C calls back with: numbers, so that a late callback finds nothing instead of memory
that is gone."""
from __future__ import annotations

import itertools
import threading
from typing import Any, Generic, TypeVar

from ._later import log_exception_later
from ._native import ffi

T = TypeVar("T")
_here = threading.local()


class Registry(Generic[T]):
    """Objects by number. A dict's operations are atomic: no lock that a fork could copy."""

    def __init__(self) -> None:
        self._objects: dict[int, T] = {}
        self._numbers = itertools.count(1)

    def add(self, thing: T) -> int:
        number = next(self._numbers)
        self._objects[number] = thing
        return number

    def find(self, arg: Any) -> T | None:
        return self._objects.get(int(ffi.cast("uintptr_t", arg)))

    def all(self) -> list[T]:
        return list(self._objects.values())

    def remove(self, number: int) -> bool:
        """False: it was removed before."""
        try:
            del self._objects[number]
        except KeyError:
            return False
        return True


def argument(number: int) -> Any:
    """A number as the `arg` of a callback."""
    return ffi.cast("void *", number)


def in_callback() -> bool:
    """Whether C has called this thread, and waits for it."""
    return getattr(_here, "in_callback", False)


def callback(kind: str, function: Any) -> Any:
    """A function for C. It is kept by the module that makes it, so it outlives every handle.
    An exception ends here: it is logged."""
    def guarded(*arguments: Any) -> None:
        outer = in_callback()
        _here.in_callback = True
        try:
            function(*arguments)
        except BaseException:
            log_exception_later("an exception in a callback of redlock_quorum")
        finally:
            _here.in_callback = outer
    return ffi.callback(kind, guarded)

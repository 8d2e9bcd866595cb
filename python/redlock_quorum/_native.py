"""The C library: how it is found, and conversions of its values.

Everything of cffi is typed Any: its own types are not known to mypy.
"""
from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any

from ._cdef import CDEF

NAME = "libredlock.so.1"
OURS = pathlib.Path(__file__).with_name(NAME)  # a wheel has one


def _refuse_subinterpreters() -> None:
    """Callbacks of cffi, and threads, would use a subinterpreter that was destroyed."""
    for name in "_interpreters", "_xxsubinterpreters":  # Python 3.13, and before
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        if module.get_current() != module.get_main():
            raise ImportError(
                "redlock_quorum runs in the main interpreter only, and this is a subinterpreter: "
                "its threads would abort the process when it is destroyed (mod_wsgi: set "
                "WSGIApplicationGroup %{GLOBAL})")
        return


def _open() -> tuple[Any, Any]:
    _refuse_subinterpreters()
    made: Any = importlib.import_module("cffi").FFI()
    made.cdef(CDEF)
    name = os.environ.get("REDLOCK_LIBRARY") or (str(OURS) if OURS.exists() else NAME)
    try:
        # RTLD_GLOBAL is not set: the names of libevent are found through libredlock.
        return made, made.dlopen(name, made.RTLD_NOW)
    except OSError as why:
        raise ImportError(
            f"cannot load {name}: {why}. Install the wheel, which has its own, or libredlock "
            "(Debian: libredlock1; else run ldconfig), or set REDLOCK_LIBRARY to the path of "
            f"{NAME}") from why


ffi, lib = _open()
NULL: Any = ffi.NULL


def text_of(chars: Any) -> str:
    """A C string; "" if it is NULL."""
    if chars == NULL:
        return ""
    found: bytes = ffi.string(chars)
    return found.decode("utf-8", "backslashreplace")


def name_of(code: int) -> str:
    return text_of(lib.redlock_code_name(code))


def reason_of(reason: int) -> str:
    return text_of(lib.redlock_reason_name(reason))


def address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


# ffi.gc() is in Python: a signal handler that raises in it would leave it unknown whether the
# pointer has its finalizer.
gc: Any = importlib.import_module("_cffi_backend").gcp


def at_once(results: list[Any], function: Any, *arguments: Any) -> None:
    """Appends function(*arguments), a function in C. No signal handler, which may raise, runs
    between that call and the append."""
    results.extend(map(function, *([each] for each in arguments)))


class Handle:
    """What refers to memory of C. A copy would use that memory when it is freed."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: it is bound to this "
                        "process and its connections")


class Arguments:
    """Keys or URIs as C arrays, with the memory that they are in."""

    def __init__(self, items: list[bytes]) -> None:
        self._kept = [ffi.from_buffer("char[]", item + b"\0") for item in items]
        self.count = len(items)

    def strings(self) -> Any:
        array = ffi.new("char *[]", self._kept)
        self._kept.append(array)
        return ffi.cast("const char *const *", array)

    def keys(self, items: list[bytes]) -> Any:
        array = ffi.new("redlock_key[]", max(self.count, 1))
        for at, item in enumerate(items):
            array[at].bytes = self._kept[at]
            array[at].len = len(item)
        self._kept.append(array)
        return array

"""Spans, for a tracer: C gives back a number, and it stands for the context of a caller."""
from __future__ import annotations

import contextvars
import dataclasses
import itertools
import weakref
from collections.abc import Callable
from typing import Any

from ._native import ffi, lib, text_of
from ._registry import Registry, argument, callback


@dataclasses.dataclass(frozen=True)
class Span:
    """The begin or the end of an operation on the nodes, or of the time in which a lock is held.

    `lease` and `operation` together name the span: a lease has at most one of each at a time.
    """
    operation: str   # "acquire", "extend", "release" or "hold"
    lease: int
    key: bytes       # with its prefix; of several keys one of them
    kind: str        # "exclusive" ...
    fenced: bool
    ended: bool
    code: str        # at the end: "OK", or why it failed or was lost; "CANCELLED": given up
    attempts: int    # at the end: that the acquire took
    duration: float  # at the end: seconds since the begin


OnSpan = Callable[[Span], object]


class Caller:
    """A copy of the context of a caller, and its number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.context: contextvars.Context = contextvars.copy_context()

    @property
    def argument(self) -> Any:
        return argument(self.number)


# How many later acquires may begin before the first span of a caller is reported.
_RECENT = 256


class Spans:
    """The spans of a client. `on_span` is called in the client's thread."""

    def __init__(self, on_span: OnSpan) -> None:
        self._on_span = on_span
        self._numbers = itertools.count(1)
        # A caller is kept by its hold, and by its spans that have not ended: one begins before
        # the last one ends. Until the first begin, or if there is none, it is a recent one.
        self._callers: weakref.WeakValueDictionary[int, Caller] = weakref.WeakValueDictionary()
        self._begun: dict[tuple[int, str], Caller] = {}
        self._recent: dict[int, Caller] = {}
        self.number: int = _all.add(self)

    def capture(self) -> Caller:
        caller = Caller(next(self._numbers))
        self._callers[caller.number] = caller
        self._recent[caller.number] = caller
        self._recent.pop(caller.number - _RECENT, None)
        return caller

    def set_options(self, options: Any) -> None:
        """Of a client."""
        options.trace = _on_span
        options.trace_arg = argument(self.number)

    def close(self) -> None:
        _all.remove(self.number)

    def report(self, span: Span, number: int) -> None:
        name = span.lease, span.operation
        caller = self._callers.get(number)
        if span.ended:
            self._begun.pop(name, None)
        elif caller:
            self._begun[name] = caller
            self._recent.pop(number, None)
        if caller:
            caller.context.run(self._on_span, span)
        else:
            self._on_span(span)


_all: Registry[Spans] = Registry()


def _report(span: Any, arg: Any) -> None:
    spans = _all.find(arg)
    if spans:
        spans.report(
            Span(operation=text_of(span.operation), lease=int(span.lease),
                 key=bytes(ffi.buffer(span.key, span.key_len)),
                 kind=text_of(lib.redlock_kind_name(span.kind)), fenced=bool(span.fenced),
                 ended=bool(span.ended), code=text_of(lib.redlock_code_name(span.code)),
                 attempts=int(span.attempts), duration=span.duration_us / 1e6),
            int(ffi.cast("uintptr_t", span.user)))


_on_span = callback("void (*)(const redlock_span *, void *)", _report)

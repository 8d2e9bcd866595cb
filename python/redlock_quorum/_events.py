"""Events of the clients, as records of the logger `redlock_quorum`: docs/telemetry.md."""
from __future__ import annotations

import atexit
import collections
import logging
import os
import time
from typing import Any

from . import _later
from ._later import log, log_later
from ._native import NULL, ffi, lib, text_of
from ._registry import callback

_LEVELS = {lib.REDLOCK_LEVEL_ERROR: logging.ERROR, lib.REDLOCK_LEVEL_WARNING: logging.WARNING,
           lib.REDLOCK_LEVEL_INFO: logging.INFO}


_ALIKE = 10  # records of as many events in a row that are alike
_QUIET_SECONDS = 1.0
_GATHER_SECONDS = 0.25


class _Burst:
    """Events of locks that are alike: many locks fail at once if the nodes do. The first of them
    are records, the others are gathered, and are one record."""

    def __init__(self) -> None:
        self._count = 0
        self._last = 0.0
        self._keys: collections.deque[int | str] = collections.deque()
        self._is_queued = False

    def takes(self, level: int, name: str, fields: dict[str, int | str]) -> bool:
        now = time.monotonic()
        if now > self._last + _QUIET_SECONDS:
            self._count = 0
        self._last = now
        self._count += 1
        if self._count <= _ALIKE:
            return False
        self._keys.append(fields["key"])
        if not self._is_queued:
            self._is_queued = True
            _later.records.queue.put(_later.Job(lambda: self._tell(level, name, fields)))
        return True

    def _tell(self, level: int, name: str, fields: dict[str, int | str]) -> None:
        """In the thread of the records."""
        time.sleep(_GATHER_SECONDS)
        self._is_queued = False  # first: what comes from now on is in these keys, or is told later
        keys = [self._keys.popleft() for _ in range(len(self._keys))]
        alike = {each: fields[each] for each in ("code", "reason") if each in fields}
        if keys:
            log.log(level, "%s: of %d more locks: %s", name, len(keys), _shown(alike),
                    extra={"redlock_event": name,
                           "redlock_fields": alike | {"count": len(keys), "keys": keys}})


_bursts: dict[tuple[str, object, object], _Burst] = {}
os.register_at_fork(after_in_child=_bursts.clear)


def _is_of_burst(level: int, name: str, fields: dict[str, int | str]) -> bool:
    if level == logging.INFO or "key" not in fields:
        return False
    alike = name, fields.get("code"), fields.get("reason")
    return _bursts.setdefault(alike, _Burst()).takes(level, name, fields)


def _shown(fields: dict[str, Any]) -> str:
    return ", ".join(f"{each}={value!r}" for each, value in fields.items())


def _value(field: Any) -> int | str:
    if field.text == NULL:
        return int(field.number)
    return bytes(ffi.buffer(field.text, field.len)).decode("utf-8", "backslashreplace")


def _report(event: Any, _arg: Any) -> None:
    level = _LEVELS[event.level]
    if level < log.getEffectiveLevel():
        return
    name = text_of(event.name)
    fields = {text_of(event.fields[at].name): _value(event.fields[at])
              for at in range(event.count)}
    if not _is_of_burst(level, name, fields):
        log_later(level, "%s: %s", name, _shown(fields),
                  extra={"redlock_event": name, "redlock_fields": fields})


_on_event = callback("void (*)(const redlock_event *, void *)", _report)


def set_options(options: Any) -> None:
    """Of a client."""
    options.log = _on_event


def flush() -> None:
    """Waits until the records so far are handled, but not for a handler that hangs."""
    for each in _later.forgotten, _later.records:  # in this order: the first one has records
        each.flush()


atexit.register(flush)  # after the end of the clients: their modules are imported later

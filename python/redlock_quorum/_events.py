"""Events of the clients, as records of the logger `redlock_quorum`: docs/telemetry.md."""
from __future__ import annotations

import atexit
import logging
import threading
from typing import Any

from . import _later
from ._native import NULL, ffi, lib, text_of
from ._registry import callback, log

_LEVELS = {lib.REDLOCK_LEVEL_ERROR: logging.ERROR, lib.REDLOCK_LEVEL_WARNING: logging.WARNING,
           lib.REDLOCK_LEVEL_INFO: logging.INFO}
_WAITING_MAX = 1000      # records: a handler that hangs must not fill the memory
_FLUSH_SECONDS = 1.0


class _Record:
    def __init__(self, record: logging.LogRecord) -> None:
        self._record = record

    def end(self) -> None:
        if log.isEnabledFor(self._record.levelno):
            log.handle(self._record)


def _value(field: Any) -> int | str:
    if field.text == NULL:
        return int(field.number)
    return bytes(ffi.buffer(field.text, field.len)).decode("utf-8", "backslashreplace")


def _report(event: Any, _arg: Any) -> None:
    """In the client's thread: it must not wait for a handler, or for a lock of `logging`."""
    level = _LEVELS[event.level]
    if level < log.getEffectiveLevel() or _later.queue.qsize() >= _WAITING_MAX:
        return
    fields = {text_of(event.fields[at].name): _value(event.fields[at])
              for at in range(event.count)}
    record = log.makeRecord(
        log.name, level, __file__, 0, "%s: %s",
        (text_of(event.name), ", ".join(f"{name}={value!r}" for name, value in fields.items())),
        None, extra={"redlock_event": text_of(event.name), "redlock_fields": fields})
    _later.queue.put(_Record(record))


_on_event = callback("void (*)(const redlock_event *, void *)", _report)


def set_options(options: Any) -> None:
    """Of a client."""
    options.log = _on_event
    _later.start()


class _Last:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self.end = self.reached.set


def flush() -> None:
    """Waits until the records so far are handled, but not for a handler that hangs."""
    if _later.runs():
        last = _Last()
        _later.queue.put(last)
        last.reached.wait(_FLUSH_SECONDS)


atexit.register(flush)  # after the end of the clients: their modules are imported later

"""Events of the clients, as records of the logger `redlock_quorum`: docs/telemetry.md."""
from __future__ import annotations

import atexit
import logging
from typing import Any

from . import _later
from ._later import log, log_later
from ._native import NULL, ffi, lib, text_of
from ._registry import callback

_LEVELS = {lib.REDLOCK_LEVEL_ERROR: logging.ERROR, lib.REDLOCK_LEVEL_WARNING: logging.WARNING,
           lib.REDLOCK_LEVEL_INFO: logging.INFO}


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
    log_later(level, "%s: %s", name,
              ", ".join(f"{each}={value!r}" for each, value in fields.items()),
              extra={"redlock_event": name, "redlock_fields": fields})


_on_event = callback("void (*)(const redlock_event *, void *)", _report)


def set_options(options: Any) -> None:
    """Of a client."""
    options.log = _on_event
    _later.records.start()


def flush() -> None:
    """Waits until the records so far are handled, but not for a handler that hangs."""
    for each in _later.forgotten, _later.records:  # in this order: the first one has records
        each.flush()


atexit.register(flush)  # after the end of the clients: their modules are imported later

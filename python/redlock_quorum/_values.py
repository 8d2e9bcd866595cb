"""What callers give: durations, keys, nodes, options of a client, and the configuration."""
from __future__ import annotations

import dataclasses
import datetime
import logging
import math
import os
import threading
from collections.abc import Iterable
from typing import Any, TypeVar, Union

from ._errors import BadInput, of_last_call
from ._native import NULL, Arguments, ffi, lib

# A number is seconds.
Duration = Union[int, float, datetime.timedelta]
Key = Union[str, bytes]
Given = TypeVar("Given")


def _bad(code: str, text: str) -> BadInput:
    return BadInput(code, text)


def to_ms(value: Duration, name: str, *, up: bool = False) -> int:
    """Milliseconds, rounded down; `up`: rounded up, so that no wait is too short."""
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is a number of seconds or a timedelta, not {value!r}")
    if isinstance(seconds, float) and not math.isfinite(seconds):
        raise _bad("BAD_OPTION", f"{name} is {seconds}, and must be finite")
    if abs(seconds) >= 2 ** 53 / 1000:
        raise _bad("BAD_OPTION", f"{name} is too long: it must be below {2 ** 53 / 1000:g} s")
    # 0.07 * 1000 is 70.00000000000001: less than 1 us counts as an error of the float.
    exact = round(seconds * 1000, 3)
    return math.ceil(exact) if up else math.floor(exact)


def to_timeout(value: Duration | None) -> float | None:
    """Seconds, for a wait of Python, which takes 292 years at most. None: without a limit."""
    return None if value is None else min(
        max(0, to_ms(value, "timeout", up=True)) / 1000, threading.TIMEOUT_MAX)


def to_wait_ms(blocking: bool, timeout: Duration) -> int:
    """What threading.Lock.acquire() takes; `timeout`: -1: without a limit."""
    if not isinstance(blocking, bool):
        raise TypeError(f"blocking is a bool, not {blocking!r}: a time is timeout={blocking!r}")
    if isinstance(timeout, (int, float)) and timeout == -1:
        return int(lib.REDLOCK_FOREVER) if blocking else 0
    if not blocking:
        raise _bad("BAD_OPTION", f"timeout is {timeout}, and blocking=False does not wait")
    if to_ms(timeout, "timeout") < 0:
        raise _bad("BAD_OPTION", f"timeout is {timeout}, and must be at least 0, or -1 for no limit")
    return to_ms(timeout, "timeout", up=True)


def in_range(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        side, bound = ("least", least) if value < least else ("most", most)
        raise _bad("BAD_OPTION", f"{name} is {value}, and must be at {side} {bound}")
    return value


def to_slots(count: int) -> int:
    return in_range("slots", count, 1, lib.REDLOCK_SLOTS_MAX)


def to_key(value: Key) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"a key is a str or bytes, not {value!r}")


def to_keys(values: Iterable[Key]) -> list[bytes]:
    if isinstance(values, (str, bytes)):
        raise TypeError("several keys are a list of str or bytes, not one of them")
    return [to_key(value) for value in values]


def to_token(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"a token is a str, not {value!r}")
    return value.encode()


def checked(options: Given, kind: type[Given]) -> Given:
    if not isinstance(options, kind):
        raise TypeError(f"options is a redlock_quorum.{kind.__name__}, not a "
                        f"{type(options).__name__}")
    return options


# --- options of a client ---

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """As redlock_options; see redlock_options_init(3).

    None, the default: what the environment or the configuration file sets, if the client takes
    its nodes from there, or else the library's default. Anything else overrides them, also
    False, 0 (the library's default) and "" (none, or the library's default).
    """
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    password_file: str | None = None
    prefix: str | None = None
    label: str | None = None
    quorum: int | None = None
    node_timeout: Duration | None = None
    connect_timeout: Duration | None = None
    drift_ppm: int | None = None
    max_ttl: Duration | None = None
    durable: bool | None = None
    tls: bool | None = None
    tls_insecure: bool | None = None
    tls_ca_file: str | None = None
    tls_ca_dir: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_name: str | None = None


_TEXTS = ("username", "password", "password_file", "prefix", "tls_ca_file", "tls_ca_dir",
          "tls_cert_file", "tls_key_file", "tls_name", "label")
_DURATIONS = ("node_timeout", "connect_timeout", "max_ttl")
_FLAGS = ("durable", "tls", "tls_insecure")
UINT_MAX = 2 ** 32 - 1


class NativeOptions:
    """A redlock_options, with the memory of its strings."""

    def __init__(self, options: Options) -> None:
        self.struct = ffi.new("redlock_options *")
        lib.redlock_options_init_sized(self.struct, ffi.sizeof("redlock_options"))
        self._kept: list[Any] = []
        for name in _TEXTS:
            text: str | None = getattr(options, name)
            if text is not None:
                if not isinstance(text, str):
                    raise TypeError(f"{name} is a str, not a {type(text).__name__}")
                if "\0" in text:
                    raise _bad("BAD_OPTION", f"{name} has a NUL byte")
            if text:
                self._kept.append(ffi.new("char[]", os.fsencode(text)))
                setattr(self.struct, name, self._kept[-1])
        for name, most in (("quorum", lib.REDLOCK_NODES_MAX), ("drift_ppm", UINT_MAX)):
            if (number := getattr(options, name)) is not None:
                setattr(self.struct, name, in_range(name, number, 0, most))
        for name in _DURATIONS:
            if (duration := getattr(options, name)) is not None:
                setattr(self.struct, name + "_ms", to_ms(duration, name, up=name != "max_ttl"))
        for name in _FLAGS:
            if (flag := getattr(options, name)) is not None:
                setattr(self.struct, name, flag)


# --- nodes, and the configuration of the command `redlock` ---

def from_environment() -> tuple[list[str], Options]:
    """Nodes and options as the command finds them: redlock_settings_read()."""
    made = ffi.new("redlock_settings **")
    if lib.redlock_settings_read(NULL, NULL, made) != lib.REDLOCK_OK:
        raise of_last_call()
    found = ffi.gc(made[0], lib.redlock_settings_free)
    native = ffi.new("redlock_options *")
    if lib.redlock_settings_options_sized(found, native, ffi.sizeof("redlock_options")) != lib.REDLOCK_OK:
        raise of_last_call()
    if found.warning != NULL:
        logging.getLogger("redlock_quorum").warning("%s", os.fsdecode(ffi.string(found.warning)))
    values: dict[str, Any] = {name: getattr(native, name) for name in ("drift_ppm", *_FLAGS)}
    for name in _TEXTS:
        if (text := getattr(native, name)) != NULL:
            values[name] = os.fsdecode(ffi.string(text))
    for name in _DURATIONS:
        values[name] = getattr(native, name + "_ms") / 1000
    return [os.fsdecode(ffi.string(found.uris[at])) for at in range(found.count)], Options(**values)


def _merge(options: Options, found: Options) -> Options:
    """`options`, and what was found where they are None."""
    given = {field.name: value for field in dataclasses.fields(Options)
             if (value := getattr(options, field.name)) is not None}
    if "password" in given or "password_file" in given:  # one of them replaces both
        found = dataclasses.replace(found, password=None, password_file=None)
    return dataclasses.replace(found, **given)


def settle(nodes: Iterable[str] | str | None,
           options: Options | None) -> tuple[list[str], Options]:
    """The nodes and the options of a client. `nodes`: None: those of the environment, and then
    also the options that are set there and not in `options`."""
    options = Options() if options is None else checked(options, Options)
    if nodes is None:
        uris, found = from_environment()
        options = _merge(options, found)
    else:
        uris = [uri.strip() for uri in nodes.split(",")] if isinstance(nodes, str) else list(nodes)
    for uri in uris:
        if not isinstance(uri, str) or "\0" in uri:
            raise _bad("BAD_URI", f"{uri!r} is no URI of a node")
    return uris, options


def to_native(uris: list[str], options: Options) -> tuple[Arguments, NativeOptions]:
    """What redlock_client_new() takes."""
    return Arguments([os.fsencode(uri) for uri in uris]), NativeOptions(options)

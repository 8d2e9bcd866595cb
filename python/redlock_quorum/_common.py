"""What the locks of threads and those of asyncio have in common."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, TypeVar

from ._errors import Lost, RedlockError, Unconfirmed, make_error, released
from ._later import log
from ._native import Handle, ffi, lib, text_of
from ._values import Duration, checked, to_ms, to_wait_ms

Returned = TypeVar("Returned")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LockOptions:
    """What few locks need; see redlock_lock_options in redlock/sync.h."""
    min_validity: Duration = 0  # with less left, the lock is not acquired
    margin: Duration = 0        # the loss is reported this long before the deadline
    watchdog: bool = True       # extend after a third of the TTL
    max_hold: Duration = 0      # the longest time to hold the lock; 0: no limit
    handoffs: int = 16          # from thread to thread, before other processes may acquire
    release_on_close: bool = False  # Client.close() releases the lock, if it is held then


@dataclasses.dataclass(frozen=True)
class Leader:
    """Who leads an election, as far as it is known: a hint, which may be outdated."""
    known: bool       # False: too few nodes reply
    term: int | None  # None: nobody leads, or it is not known
    id: str           # the leader's label
    token: str = dataclasses.field(repr=False)


def leader_of(struct: Any) -> Leader:
    return Leader(known=struct.code == lib.REDLOCK_OK, term=int(struct.term) or None,
                  id=text_of(struct.id), token=text_of(struct.token))


def ttl_to_ms(ttl: Duration) -> int:
    ms = to_ms(ttl, "ttl")
    if ms == 0:  # in C the default
        raise make_error(lib.REDLOCK_BAD_TTL, f"ttl={ttl!r} is too short: it is in seconds, and "
                                              "at least 0.001")
    return ms


def record_text(write: Callable[[Any, int], int]) -> str:
    """The flight recorder of a client, which C writes into a buffer of so many bytes."""
    room = 1 << 16
    text = ffi.new("char[]", room)
    return text_of(text) if write(text, room) else ""


def check_decorated(function: Callable[..., object], *, is_async: bool) -> None:
    """The body of another kind of function would begin when the lock is released."""
    if isinstance(function, (staticmethod, classmethod)):
        name = type(function).__name__
        raise TypeError(f"write @{name} above the decorator locked(), not below it")
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func

    def is_any(*kinds: Callable[[object], bool]) -> bool:
        return any(kind(each) for kind in kinds
                   for each in (inner, getattr(inner, "__call__", None)))
    if is_any(inspect.isgeneratorfunction, inspect.isasyncgenfunction) or (
            is_any(inspect.iscoroutinefunction) != is_async):
        raise TypeError(f"locked() of {'an AsyncClient' if is_async else 'a Client'} decorates "
                        f"a {'coroutine ' if is_async else ''}function, and {function!r} is none: "
                        "its body would run without the lock")


def finished(result: Returned) -> Returned:
    """The result of a function that was called with the lock held. Raises TypeError if its body
    has only begun: what a coroutine or a generator does, it would do without the lock."""
    body: object = result
    if isinstance(body, (contextlib.ContextDecorator, contextlib.AsyncContextDecorator)):
        body = getattr(body, "gen", None)  # of @contextmanager
    if isinstance(body, (Awaitable, Generator, AsyncGenerator)):
        for end in ("close", "cancel"):  # of a coroutine or generator; of a task
            getattr(body, end, bool)()
        raise TypeError(f"the function returned {result!r}, whose body would run without the lock")
    return result


def time_left(wait_ms: int) -> Callable[[], int]:
    """How much of this wait is left; it begins now. Below 0: it has no limit.

    It counts the time that the machine is suspended, as the library's own waits do.
    """
    begun = time.clock_gettime(time.CLOCK_BOOTTIME)

    def left() -> int:
        return wait_ms if wait_ms < 0 else max(
            0, wait_ms - int((time.clock_gettime(time.CLOCK_BOOTTIME) - begun) * 1000))
    return left


def time_over(ms: int) -> Callable[[], bool]:
    """Whether so much time has passed from now on."""
    left = time_left(ms)
    return lambda: left() == 0


class LeaderLeft(Exception):
    """The leader of a single flight did not get the lock, or was interrupted before its function
    returned: another one of those who wait is to lead."""


def end_flight(flights: dict[Any, tuple[Any, Any]], key: object, flight: Any,
               values: list[Any], why: BaseException | None = None) -> None:
    """The leader of a single flight failed. `values`: what its function has returned."""
    if flight.done():
        return
    is_under_way = key in flights and flights[key][1] is flight
    if is_under_way:
        flights.pop(key, None)
    if isinstance(why, Exception) and not is_under_way:
        flight.set_exception(why)
    elif values:  # interrupted while it released the lock
        flight.set_result(values[0])
    else:
        flight.set_exception(LeaderLeft())
    flight.exception()  # it is not reported as one that nobody has seen


class HoldBase(Handle):
    """What a Hold and an AsyncHold have in common: nothing of it waits for the nodes."""

    def __init__(self, keys: list[bytes]) -> None:
        self.keys: tuple[bytes, ...] = tuple(keys)
        # Why the release at the end of a `with` was not confirmed, or that it was lost before.
        self.release_error: RedlockError | None = None

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} of {b' '.join(self.keys)!r}, "
                f"valid for {self.valid():.3f} s>")

    @property
    def token(self) -> str:
        """The token as it is on the nodes."""
        raise NotImplementedError

    @property
    def holder(self) -> str:
        """How other clients see this holder: the label of the client, by default HOST:PID."""
        return self.token.partition("@")[2]

    @property
    def fence(self) -> int | None:
        """The fencing token; None: the lock is not fenced."""
        raise NotImplementedError

    @property
    def term(self) -> int | None:
        """Of an election: the number of the term, which is the fencing token."""
        return self.fence

    @property
    def slot(self) -> int | None:
        """The slot of a semaphore, from 1 on; None: it is none."""
        raise NotImplementedError

    @property
    def lost(self) -> bool:
        """Whether the lock was lost or released, as far as it is known: for inner loops. It
        does not read the clock: valid() does."""
        raise NotImplementedError

    @property
    def why_lost(self) -> Lost | None:
        """None: it is not lost, or was released before that."""
        raise NotImplementedError

    @property
    def _is_given_up(self) -> bool:
        raise NotImplementedError

    def valid_ms(self) -> int:
        """How many ms from now the lock is certainly held; 0: it is not held."""
        raise NotImplementedError

    def valid(self) -> float:
        """How many seconds from now the lock is certainly held; 0: it is not held."""
        return self.valid_ms() / 1000

    def check(self) -> None:
        """Raises Lost if the lock was lost, and NotHeld if it was released or disowned: right
        before what must not be done twice."""
        if self.lost or self.valid_ms() == 0:
            if self._is_given_up and not self.why_lost:
                raise released()
            raise self.why_lost or make_error(lib.REDLOCK_EXPIRED, held=True)

    def _note_end(self, why: RedlockError, error: BaseException | None) -> None:
        """A `with` that ends could not release it. That never hides the body's exception."""
        self.release_error = why
        if error is not None:
            error.add_note(f"redlock: the lock at the end: {why}")
        elif isinstance(why, Unconfirmed):
            log.warning("%s", why)  # nobody else had the lock meanwhile
        else:
            raise why


class LockBase(Handle):
    """A lock on one key or several keys. The nodes know of it only while it is held."""

    def __init__(self, keys: list[bytes], ttl: Duration, options: LockOptions,
                 timeout: Duration, flags: dict[str, Any]) -> None:
        self._keys = keys
        self._ttl_ms = ttl_to_ms(ttl)
        self._options = checked(options, LockOptions)
        self._wait_ms = to_wait_ms(True, timeout)  # of `with`
        self._flags = flags

    def _is_held_if(self) -> tuple[bool, list[bytes]]:
        """What locked() inspects. It is held if one of these keys is, or, of a semaphore (then
        the first value is True), if all of them are: one for each slot."""
        slots: int | None = self._flags.get("slots")
        if slots is None:
            return False, self._keys
        return True, [b"%s!%d" % (self._keys[0], slot + 1) for slot in range(slots)]

    def _set_options(self, made: Any) -> None:
        """What the options of C for threads and those for a loop have in common."""
        options = self._options
        made.ttl_ms = self._ttl_ms
        made.min_validity_ms = to_ms(options.min_validity, "min_validity", up=True)
        made.margin_ms = to_ms(options.margin, "margin", up=True)
        made.watchdog = options.watchdog
        made.max_hold_ms = to_ms(options.max_hold, "max_hold")
        for name, value in self._flags.items():
            setattr(made, name, value)


def report_unknown_exit(owner: str, error: BaseException | None) -> None:
    """A `with` on a lock has ended, and it is not known which hold is its own."""
    unknown = make_error(lib.REDLOCK_NOT_HELD,
                         f"this {owner} did not begin this `with`, so it is not known which "
                         "lock to release; it is still held, and extended: use `with` on the "
                         "hold that acquire() returns")
    if error is None:
        raise unknown
    error.add_note(f"redlock: the lock at the end: {unknown}")
    log.error("%s", unknown)  # what a generator is closed with is shown to nobody

"""Exceptions: one class for each thing that a caller can do about it."""
from __future__ import annotations

import dataclasses
from typing import Any

from ._native import NULL, ffi, lib, name_of, reason_of, text_of


@dataclasses.dataclass(frozen=True)
class Reply:
    """What one node did in the last round, or the state that it is in."""
    uri: str
    verdict: str  # granted, held, silent, down ...: REDLOCK_VERDICTS in redlock.h
    fault: str    # TIMEOUT, NOPERM ...; "" if there is none
    text: str     # of the fault, or the limit that the node exceeded
    holder: str   # who holds the key there; "": nobody, or it is not known
    latency: float | None    # seconds; None: no reply
    remaining: float | None  # seconds until its key or its quarantine ends; None: not known
    key: int      # of several keys: the index of the one that has this value

    def __str__(self) -> str:
        parts = [self.verdict]
        if self.holder:
            parts.append(f"by {self.holder}")
        if self.remaining is not None:
            parts.append(f"for another {self.remaining:.3f} s")
        if self.text:
            parts.append(f"({self.text})")
        return f"{self.uri}: {' '.join(parts)}"


def _seconds(microseconds: int) -> float | None:
    return None if microseconds < 0 else microseconds / 1e6


def reply_of(node: Any) -> Reply:
    fault = text_of(lib.redlock_fault_name(node.fault))
    text = text_of(node.text)
    if fault == "none" and text == text_of(lib.redlock_fault_text(node.fault)):
        text = ""
    return Reply(
        uri=text_of(node.uri), verdict=text_of(lib.redlock_verdict_name(node.verdict)),
        fault="" if fault == "none" else fault, text=text,
        holder=text_of(node.holder), latency=_seconds(node.latency_us),
        remaining=_seconds(node.remaining_us), key=int(node.key))


def replies_of(nodes: Any, count: int) -> tuple[Reply, ...]:
    return tuple(reply_of(nodes[at]) for at in range(count))


def states_of(client: Any) -> tuple[Reply, ...]:
    """The state of the connection to each node. In the client's thread."""
    nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
    return replies_of(nodes, lib.redlock_client_explain_sized(
        client, nodes, lib.REDLOCK_NODES_MAX, ffi.sizeof("redlock_node")))


def _failed(nodes: tuple[Reply, ...]) -> str:
    """The nodes that failed, those with the same fault together, as C's texts have it."""
    groups: dict[str, list[Reply]] = {}
    for node in nodes:
        if node.fault:
            groups.setdefault(node.text, []).append(node)
    count = sum(map(len, groups.values()))
    if not count:
        return ""
    parts = []
    for text, group in groups.items():
        longest = max((node.remaining or 0 for node in group), default=0)
        parts.append(", ".join(node.uri for node in group) + f": {text}"
                     + (f", for another {longest:.3f} s" if longest else ""))
    return f"{count} of {len(nodes)} nodes failed: {'; '.join(parts)}"


class RedlockError(Exception):
    """A call of libredlock failed. str() is one line: what happened, and which nodes failed."""

    def __init__(self, code: str, text: str, *, reason: str = "NONE", holder: str = "",
                 remaining: float | None = None, nodes: tuple[Reply, ...] = ()) -> None:
        Exception.__init__(self, code, text)  # not OSError's: its errno is not a text
        self.code = code            # TAKEN, NO_QUORUM ...: REDLOCK_CODES in redlock.h
        self.text = text
        self.reason = reason        # SILENT, PASSWORD ...: REDLOCK_REASONS in reasons.h
        self.holder = holder        # who has the lock; "": not known
        self.remaining = remaining  # seconds until the lock can be free; None: not known
        self.nodes = nodes

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class NotAcquired(RedlockError):
    """The lock was not acquired: too little of the TTL was left, or see the subclasses."""


class Taken(NotAcquired):
    """Another owner has the lock. It is not held here."""


class WaitTimeout(Taken, TimeoutError):
    """Another owner had the lock until the wait time ended. It is not held here."""


class NoQuorum(NotAcquired):
    """Too few nodes replied or may vote. After a failed extension the lock is held until its
    old deadline."""


class Denied(RedlockError):
    """The nodes refused the user, the password, a permission or this host."""


class Lost(RedlockError):
    """The lock is not held any more, or not for long enough: stop the work."""


class Unconfirmed(RedlockError):
    """Too few nodes confirmed a release. The lock is not held here; what is left expires."""


class Cancelled(RedlockError):
    """The wait was ended, or the client was closed. The lock is not held here."""


class NotHeld(RedlockError):
    """The hold has no lock: it was released before."""


class BadInput(RedlockError, ValueError):
    """An argument or an option is wrong. Nothing was started."""


class Unsupported(RedlockError):
    """This version of the library does not support the requested feature."""


class InUse(RedlockError):
    """Another operation of this kind is running. Nothing was started."""


class WouldDeadlock(RedlockError):
    """The call would wait for itself. Nothing was started."""


class Forked(RedlockError):
    """The client belongs to the parent process. Create a new one."""


class Closed(RedlockError):
    """The client was closed. What this process held ends with its TTL at the latest."""


class SystemFailure(RedlockError):
    """A system call or an allocation failed. The lock is not held by this call."""


_CLASSES: dict[str, type[RedlockError]] = {
    "TAKEN": Taken, "TIMEOUT": WaitTimeout, "NO_QUORUM": NoQuorum, "EXPIRED": Lost,
    "CANCELLED": Cancelled, "DENIED": Denied, "GONE": Lost, "UNCONFIRMED": Unconfirmed,
    "MAX_HOLD": Lost, "BAD_NODES": BadInput, "BAD_URI": BadInput, "DUPLICATE_NODE": BadInput,
    "UNSUPPORTED": Unsupported, "BAD_KEY": BadInput, "BAD_TTL": BadInput,
    "BAD_TOKEN": BadInput, "BAD_OPTION": BadInput, "NO_MEMORY": SystemFailure, "BUSY": InUse,
    "NOT_HELD": NotHeld, "FORKED": Forked, "CLOSED": Closed, "SYSTEM": SystemFailure,
    "WOULD_DEADLOCK": WouldDeadlock,
}
# Their reasons are those of nodes.
_BY_NODES = ("NO_QUORUM", "DENIED", "UNCONFIRMED", "EXPIRED")
# Of an acquire: the lock is not held yet, so it cannot be lost.
_NOT_ACQUIRED: dict[str, type[RedlockError]] = {"EXPIRED": NotAcquired}
# Of a lock that was held: that another owner has it, or that the client was closed, means
# that it is lost.
_OF_A_HOLD: dict[str, type[RedlockError]] = {"TAKEN": Lost, "CLOSED": Lost}


# What this interface calls an argument or option of the C library, if not the same word
# without the unit.
_NAMES = {"wait_ms": "timeout"}


def _text_of_error(error: Any) -> str:
    """The text, with the name of this interface for the field at fault, and in seconds."""
    text = text_of(error.text)
    if error.field == NULL:
        return text
    field = text_of(error.field)
    name = _NAMES.get(field, field.removesuffix("_ms"))
    if error.value == error.bound or not field.endswith("_ms"):
        return name + text.removeprefix(field)
    side = "least" if error.value < error.bound else "most"
    _, colon, why = text.partition(": ")
    return (f"{name} is {error.value / 1000:g} s, and must be at {side} "
            f"{error.bound / 1000:g} s{colon}{why}")


def make_error(code: int, text: str = "", *, reason: int = 0, acquiring: bool = False, held: bool = False,
               holder: str = "", remaining: float | None = None,
               nodes: tuple[Reply, ...] = ()) -> RedlockError:
    name = name_of(code)
    made = _CLASSES.get(name, RedlockError)
    if acquiring:
        made = _NOT_ACQUIRED.get(name, made)
    elif held:
        made = _OF_A_HOLD.get(name, made)
    if not text:
        text = text_of(lib.redlock_code_text(code))
        failed = _failed(nodes) if name in _BY_NODES else ""
        if failed and name in ("NO_QUORUM", "DENIED"):
            text = failed
        elif failed or reason:
            text += f": {failed or text_of(lib.redlock_reason_text(reason))}"
    return made(name, text, reason=reason_of(reason), holder=holder, remaining=remaining, nodes=nodes)


def make_lost(code: int, *, reason: int = 0, nodes: tuple[Reply, ...] = ()) -> Lost:
    if code == lib.REDLOCK_CANCELLED:  # of a lock that is held: by the end of the client
        code = lib.REDLOCK_CLOSED
    why = make_error(code, reason=reason, held=True, nodes=nodes)
    return why if isinstance(why, Lost) else Lost(why.code, why.text, nodes=why.nodes)


def released() -> RedlockError:
    """Of a hold that its owner gave up."""
    return make_error(lib.REDLOCK_NOT_HELD, "the hold has no lock: it was released or "
                      "disowned before", reason=lib.REDLOCK_REASON_RELEASED)


def of_last_call(*, held: bool = False) -> RedlockError:
    """Why the last call of this thread failed."""
    error = lib.redlock_last_error()
    return make_error(error.code, _text_of_error(error), reason=error.reason, held=held)


class Failure:
    """A redlock_failure with room for the replies of all nodes."""

    def __init__(self) -> None:
        self.struct = ffi.new("redlock_failure *")
        lib.redlock_failure_init_sized(self.struct, ffi.sizeof("redlock_failure"),
                                       ffi.sizeof("redlock_node"))
        self._nodes = ffi.new("redlock_node[]", lib.REDLOCK_NODES_MAX)
        self.struct.nodes = self._nodes
        self.struct.room = lib.REDLOCK_NODES_MAX

    def error(self) -> RedlockError:
        it = self.struct
        left = None if it.remaining_ms < 0 else it.remaining_ms / 1000
        return make_error(it.error.code, _text_of_error(it.error), reason=it.error.reason,
                          acquiring=True, holder=text_of(it.holder), remaining=left,
                          nodes=() if it.nodes == NULL else replies_of(it.nodes, it.count))

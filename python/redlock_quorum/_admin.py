"""For operators: who holds what, and whether the nodes are fit; see redlock/admin.h."""
from __future__ import annotations

import dataclasses
import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._engine import Engine
from ._errors import RedlockError, Reply, make_error, of_last_call, reply_of, states_of
from ._native import NULL, Handle, ffi, lib, text_of
from ._registry import Registry, argument, callback
from ._values import Options


@dataclasses.dataclass(frozen=True)
class Inspection:
    """A key on all nodes, as redlock_inspection."""
    key: bytes
    quorum: int
    held: int      # nodes that have, or had, a value
    free: int      # nodes that have none
    agreeing: int  # nodes that have the most frequent value
    remaining: float | None  # seconds until a quorum is free; None: not known
    waiting: int   # how many wait, up to 100
    fence: int | None
    readers: tuple[str, ...] = dataclasses.field(repr=False)  # their tokens
    nodes: tuple[Reply, ...]
    kind: str      # exclusive, shared ...; foreign: of another program; "": nobody has it
    known: bool    # False: in list(), silent nodes decide whether it is held
    since: float | None   # when it was acquired, as time.time() of its holder; None: unknown
    waited: float | None  # how long the first waiter has waited; None: unknown, or nobody

    @property
    def holder(self) -> str:
        """Who has a quorum; "": nobody, or it is shared."""
        if self.agreeing < self.quorum:
            return ""
        names = [node.holder for node in self.nodes if node.verdict == "held"]
        return max(set(names), key=names.count) if names else ""

    @property
    def locked(self) -> bool | None:
        """Whether an owner, or a reader, has a quorum; None: unknown."""
        return self.agreeing >= self.quorum or bool(self.readers) if self.known else None


@dataclasses.dataclass(frozen=True)
class Finding:
    """What check() has to say of a node; redlock-check(1) lists the codes."""
    severity: str  # note, warning, defect
    code: str
    text: str
    detail: str


@dataclasses.dataclass(frozen=True)
class NodeHealth:
    """Whether a node is fit to hold locks, and why not."""
    uri: str
    fit: bool
    version: str
    member_state: str
    findings: tuple[Finding, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """Whether a quorum of the nodes is fit to hold locks."""
    health: str  # fit, fit_with_warnings, unfit, not_checked
    quorum: int
    fit: int     # nodes without a defect
    nodes: tuple[NodeHealth, ...]

    def __bool__(self) -> bool:
        return self.health in ("fit", "fit_with_warnings")


_SEVERITIES = ("note", "warning", "defect")
_HEALTHS = ("fit", "fit_with_warnings", "unfit", "not_checked")


def _inspection(it: Any, key: bytes) -> Inspection:
    values = [ffi.string(it.nodes[at].value) for at in range(it.count)
              if it.nodes[at].value[0] != b"\0"]
    token = max(set(values), key=values.count) if values else NULL
    readers = () if it.reader == NULL else tuple(
        text_of(it.reader[at]) for at in range(it.readers))
    return Inspection(
        key=key, quorum=it.quorum, held=it.held, free=it.free, agreeing=it.agreeing,
        remaining=None if it.remaining_ms < 0 else it.remaining_ms / 1000, waiting=it.waiting,
        fence=int(it.fence) or None, readers=readers,
        nodes=tuple(reply_of(it.nodes[at]) for at in range(it.count)),
        kind=text_of(lib.redlock_kind_name(lib.redlock_token_kind(token, NULL)))
        if values else "", known=it.code == lib.REDLOCK_OK,
        since=None if it.since_ms < 0 else it.since_ms / 1000,
        waited=None if it.waited_ms < 0 else it.waited_ms / 1000)


def _report(it: Any) -> Report:
    nodes = []
    for at in range(it.count):
        node = it.nodes[at]
        findings = [node.findings[number] for number in range(node.count)]
        nodes.append(NodeHealth(
            uri=text_of(node.uri), fit=bool(node.fit), version=text_of(node.version),
            member_state=text_of(lib.redlock_member_state_name(node.member_state)),
            findings=tuple(Finding(_SEVERITIES[finding.severity], text_of(finding.code),
                                   text_of(finding.text), text_of(finding.detail))
                           for finding in findings)))
    return Report(_HEALTHS[it.health], it.quorum, it.fit, tuple(nodes))


# What is told of one request: values, then None or an error.
Tell = Callable[["Inspection | Report | bool | RedlockError | None"], object]


@dataclasses.dataclass
class _Request:
    key: bytes
    tell: Tell


_requests: Registry[_Request] = Registry()


def _end(arg: Any, request: _Request, code: int, reason: int = 0,
         nodes: tuple[Reply, ...] = ()) -> None:
    _requests.remove(int(ffi.cast("uintptr_t", arg)))
    request.tell(None if code == lib.REDLOCK_OK else
                 make_error(code, reason=reason, nodes=nodes))


def _inspected(_client: Any, inspection: Any, arg: Any) -> None:
    request = _requests.find(arg)
    if request:
        found = _inspection(inspection, request.key)
        if inspection.code == lib.REDLOCK_OK:
            request.tell(found)
        _end(arg, request, inspection.code, inspection.reason, found.nodes)


def _listed(client: Any, listed: Any, arg: Any) -> None:
    request = _requests.find(arg)
    if not request:
        return
    if listed.inspection == NULL:
        is_of_nodes = listed.code in (lib.REDLOCK_NO_QUORUM, lib.REDLOCK_DENIED)
        _end(arg, request, listed.code, nodes=states_of(client) if is_of_nodes else ())
    else:
        key: bytes = ffi.buffer(ffi.cast("const char *", listed.key), listed.key_len)[:]
        request.tell(_inspection(listed.inspection, key))


def _checked(_client: Any, report: Any, arg: Any) -> None:
    request = _requests.find(arg)
    if request:
        if report.code == lib.REDLOCK_OK:
            request.tell(_report(report))
        _end(arg, request, report.code)


_ON_INSPECTED = callback(
    "void (*)(redlock_client *, const redlock_inspection *, void *)", _inspected)
_ON_LISTED = callback("void (*)(redlock_client *, const redlock_listed *, void *)", _listed)
_ON_CHECKED = callback(
    "void (*)(redlock_client *, const redlock_health_report *, void *)", _checked)


def _start(engine: Engine, key: bytes, tell: Tell, call: Callable[[Any], int]) -> None:
    """Has the engine's thread call C, which tells of it. Raises Closed or Forked."""
    number = _requests.add(_Request(key, tell))

    def job() -> None:
        if engine.client == NULL or call(argument(number)) != lib.REDLOCK_OK:
            _requests.remove(number)
            tell(make_error(lib.REDLOCK_CLOSED) if engine.client == NULL else of_last_call())
    try:
        engine.post(job)
    except RedlockError:
        _requests.remove(number)
        raise


def start_inspect(engine: Engine, key: bytes, tell: Tell, *, breaks: bool = False) -> None:
    call = lib.redlock_break if breaks else lib.redlock_inspect
    _start(engine, key, tell, lambda arg: int(
        call(engine.client, key, len(key), _ON_INSPECTED, arg)))


def start_list(engine: Engine, prefix: bytes, tell: Tell) -> None:
    _start(engine, prefix, tell, lambda arg: int(
        lib.redlock_list(engine.client, prefix, len(prefix), 0, _ON_LISTED, arg)))


def start_check(engine: Engine, tell: Tell, *, strict: bool, fenced: bool) -> None:
    how = (lib.REDLOCK_CHECK_STRICT if strict else 0) | (
        lib.REDLOCK_CHECK_FENCED if fenced else 0)
    _start(engine, b"", tell, lambda arg: int(
        lib.redlock_check(engine.client, how, _ON_CHECKED, arg)))


class Admin(Handle):
    """The same for threads that wait."""

    def __init__(self, nodes: Iterable[str] | str | None, options: Options | None) -> None:
        self.engine = Engine(nodes, options, logs=False)  # the first client does

    def close(self) -> None:
        self.engine.close()

    def inspect(self, key: bytes, *, breaks: bool = False) -> Inspection:
        found = self.one(lambda tell: start_inspect(self.engine, key, tell, breaks=breaks))
        assert isinstance(found, Inspection)
        return found

    def check(self, *, strict: bool, fenced: bool) -> Report:
        found = self.one(
            lambda tell: start_check(self.engine, tell, strict=strict, fenced=fenced))
        assert isinstance(found, Report)
        return found

    @staticmethod
    def one(start: Callable[[Tell], object]) -> Inspection | Report | bool:
        # In C: a Future that a signal handler leaves locked would stop the engine's thread.
        told: queue.SimpleQueue[Inspection | Report | bool | RedlockError | None] = (
            queue.SimpleQueue())
        start(told.put)
        value = told.get()
        if isinstance(value, RedlockError):
            try:
                raise value
            finally:
                del value
        assert value is not None
        return value

    def list(self, prefix: bytes) -> Iterator[Inspection]:
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        start_list(self.engine, prefix, told.put)
        while (value := told.get()) is not None:
            if isinstance(value, RedlockError):
                raise value
            yield value

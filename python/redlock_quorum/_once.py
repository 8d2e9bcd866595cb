"""Once per period: a record on the nodes, as that of `redlock run --once-per`."""
from __future__ import annotations

from typing import Any

from ._admin import Tell, start_inspect
from ._engine import ON_ACQUIRED, ON_EXTENDED, Engine, Lease
from ._errors import RedlockError, make_error, of_last_call, states_of
from ._native import ffi, lib
from ._values import Duration, to_ms

_TTL_MS = 30_000  # until the record is stored


class Record(Lease):
    """The lock of a period, which becomes its record. All in the engine's thread, but for
    is_unwanted."""

    def __init__(self, engine: Engine, key: bytes, period_ms: int, tell: Tell) -> None:
        super().__init__(engine)
        self.key = key
        self.period_ms = period_ms
        self.tell = tell
        self.left_ms = 0
        self.is_unwanted = False  # nobody waits any more: nothing is to be recorded

    def begin(self) -> None:
        now_us = lib.redlock_client_nodes_time(self.engine.client)
        if now_us == lib.REDLOCK_UNKNOWN:
            self.tell(make_error(lib.REDLOCK_NO_QUORUM, "too few nodes have told the time",
                                 nodes=states_of(self.engine.client)))
            return
        number, passed_ms = divmod(int(now_us) // 1000, self.period_ms)
        self.left_ms = 2 * self.period_ms - passed_ms
        key = b"%s@%d" % (self.key, number)
        options = self.engine.lease_options()
        options.kind = lib.REDLOCK_KIND_RECORD
        options.ttl_ms = min(_TTL_MS, self.engine.max_ttl_ms or _TTL_MS, self.period_ms // 3)
        options.wait_ms = 0
        made = ffi.new("redlock_lease **")
        if lib.redlock_acquire(self.engine.client, key, len(key), options, ON_ACQUIRED,
                               self.engine.argument, made) != lib.REDLOCK_OK:
            self.tell(of_last_call())
            return
        self.keep(made[0])

    def _end(self, outcome: bool | RedlockError) -> None:
        self.free()  # which releases what is not disowned
        self.tell(outcome)

    def on_acquired(self, result: Any) -> None:
        if result.code == lib.REDLOCK_TAKEN:
            self._end(False)
        elif result.code != lib.REDLOCK_OK:
            self._end(self.failed(result, acquiring=True))
        elif self.is_unwanted:
            self._end(False)
        elif lib.redlock_extend(self.pointer, self.left_ms, ON_EXTENDED,
                                self.engine.argument) != lib.REDLOCK_OK:
            self._end(of_last_call(held=True))

    def on_extended(self, result: Any) -> None:
        if result.code != lib.REDLOCK_OK:
            self._end(self.failed(result))
            return
        lib.redlock_disown(self.pointer)
        self._end(True)

    def on_lost(self, result: Any) -> None:
        self._end(self.failed(result))

    def on_closing(self) -> None:
        self._end(make_error(lib.REDLOCK_CLOSED))


def to_period_ms(period: Duration) -> int:
    ms, most = to_ms(period, "period"), lib.REDLOCK_RECORD_MAX_MS // 2
    if not 1000 <= ms <= most:
        raise make_error(lib.REDLOCK_BAD_OPTION, f"period is {ms / 1000:g} s, and must be from 1 s "
                                                 f"to {most // 86_400_000} days")
    return ms


def start_once(engine: Engine, key: bytes, period_ms: int, tell: Tell) -> Record:
    """Tells whether the period was free. The period is that of the nodes' clocks, which each
    node has told when it replies: so the clock of this host does not matter."""
    record = Record(engine, key, period_ms, tell)

    def inspected(value: object) -> None:
        if isinstance(value, RedlockError):
            tell(value)
        elif value is None and not record.is_unwanted:
            record.begin()
    start_inspect(engine, key, inspected)
    return record

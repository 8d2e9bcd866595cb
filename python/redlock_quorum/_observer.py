"""Who leads an election, for threads."""
from __future__ import annotations

import queue
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._common import Leader, leader_of
from ._forgotten import Forgotten, warn
from ._native import NULL, Handle, lib
from ._registry import Registry, callback
from ._values import Duration, to_timeout

if TYPE_CHECKING:
    from ._threads import Client


class Observer(Handle):
    """Knows who leads an election, and each change, until it is closed."""

    def __init__(self, changed: Callable[[Leader], object] | None) -> None:
        self.leader: Leader | None = None  # None: nothing is known yet
        self._changed = changed
        self._changes: queue.SimpleQueue[Leader | None] = queue.SimpleQueue()
        self._client: Client | None = None
        self._number = 0

    def next(self, timeout: Duration | None = None) -> Leader | None:
        """Waits for the next change, at most so long; None: none came, or it is closed."""
        try:
            change = self._changes.get(timeout=to_timeout(timeout))
        except queue.Empty:
            return None
        if change is None:  # closed, also for all others that wait, and from now on
            self._changes.put(None)
        return change

    def __iter__(self) -> Iterator[Leader]:
        """Each change, until the observer is closed."""
        return iter(self.next, None)

    def close(self) -> None:
        """Ends the iteration, and the wait of next()."""
        observed = self._client._observed.get(self._number) if self._client else None
        if observed:
            observed.close()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _report(self, leader: Leader) -> None:
        self.leader = leader
        self._changes.put(leader)
        if self._changed:
            self._changed(leader)


observers: Registry[weakref.ref[Observer]] = Registry()


def _report_leader(_observer: Any, leader: Any, arg: Any) -> None:
    found = observers.find(arg)
    observer = found() if found else None
    if observer:
        observer._report(leader_of(leader))


class Observed(Forgotten):
    """What the client keeps of an observer that is not closed."""

    def __init__(self, observer: Observer, number: int, observed: dict[int, Observed]) -> None:
        super().__init__(observer)
        self.number = number
        self.observed = observed
        self.changes = observer._changes
        # One that calls back is kept, as nobody needs the object.
        self.kept = observer if observer._changed else None
        self.handle: Any = NULL

    def close(self) -> bool:
        """False: it was closed before."""
        if self.observed.pop(self.number, None) is not self:
            return False
        observers.remove(self.number)
        lib.redlock_sync_observer_free(self.handle)
        self.kept = None
        self.changes.put(None)
        return True

    def end(self) -> None:
        if self.close():
            warn("an Observer was not closed, and nothing refers to it any more: it is closed")


ON_LEADER = callback(
    "void (*)(redlock_sync_observer *, const redlock_leader *, void *)", _report_leader)

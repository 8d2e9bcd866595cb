"""A lock on a majority of independent Redis masters: libredlock for Python.

    client = redlock_quorum.Client(["redis://a", "redis://b", "redis://c"])
    with client.lock("backup", ttl=30) as hold:
        ...

Times are seconds (int or float) or a timedelta. While a lock is held and its deadline has not
passed, no other client of the same nodes holds it. `hold.lost` and `hold.valid()` tell whether
that is still so; only a resource that compares fencing tokens (`hold.fence`) is safe against a
holder that was paused. In asyncio use AsyncClient.
"""
from importlib import metadata as _metadata

from ._admin import Finding, Inspection, NodeHealth, Report
from ._async_holds import AsyncElection, AsyncHold, AsyncLock
from ._asyncio import AsyncClient
from ._common import HoldBase, Leader, LockOptions
from ._errors import (
    BadInput, Cancelled, Closed, Denied, Forked, InUse, Lost, NoQuorum, NotAcquired, NotHeld,
    RedlockError, Reply, SystemFailure, Taken, Unconfirmed, Unsupported, WaitTimeout,
    WouldDeadlock)
from ._holds import Election, Hold, Lock
from ._native import lib as _lib
from ._native import text_of as _text_of
from ._observer import Observer
from ._spans import Span
from ._threads import Client
from ._values import Options

__all__ = [
    "AsyncClient", "AsyncElection", "AsyncHold", "AsyncLock", "BadInput", "Cancelled",
    "Client", "Closed", "Denied", "Election", "Finding", "Forked", "Hold", "HoldBase", "InUse",
    "Inspection", "Leader", "Lock", "LockOptions", "Lost", "NoQuorum", "NodeHealth",
    "NotAcquired", "NotHeld", "Observer", "Options", "RedlockError", "Reply", "Report", "Span",
    "SystemFailure", "Taken", "Unconfirmed", "Unsupported", "WaitTimeout", "WouldDeadlock",
    "library_version",
]


def library_version() -> str:
    """The version of libredlock.so.1 that runs."""
    return _text_of(_lib.redlock_version())


try:
    __version__ = _metadata.version("redlock_quorum")
except _metadata.PackageNotFoundError:  # not installed: a tree, which has its library's version
    __version__ = library_version().replace("-dev", ".dev0")

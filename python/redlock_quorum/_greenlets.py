"""gevent and eventlet: greenlets share one thread, and a wait in C would stop all of them."""
from __future__ import annotations

import sys

from ._errors import make_error
from ._native import lib


def refuse() -> None:
    """Raises Unsupported where gevent or eventlet has patched the standard library."""
    for module, patched in (("gevent.monkey", "saved"), ("eventlet.patcher", "already_patched")):
        if getattr(sys.modules.get(module), patched, None):
            name = module.partition(".")[0]
            raise make_error(
                lib.REDLOCK_UNSUPPORTED,
                f"{name} has patched this process: a greenlet that waits for a lock would stop all "
                f"others, and the one that has the lock, too. Use a process without {name}'s "
                "monkey patch: worker threads, asyncio, or the command `redlock run`")

"""A lease of asyncio's locks: what the engine's thread does for an AsyncHold."""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._common import time_over
from ._engine import ON_ACQUIRED, ON_EXTENDED, ON_RELEASED, Engine, Lease
from ._errors import Lost, RedlockError, make_error, make_lost, of_last_call
from ._forgotten import Forgotten, warn_of_hold
from ._native import NULL, Arguments, ffi, lib
from ._spans import Caller

if TYPE_CHECKING:
    from ._async_holds import AsyncHold


class Result:
    """A future of a loop, which the engine's thread sets. A loop that has ended gets nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = loop.create_future()
        # Its exception is of use only to who waits: a cancelled task does not.
        self._future.add_done_callback(lambda it: it.cancelled() or it.exception())

    async def wait(self) -> None:
        """Once. The traceback of an exception has the frames that wait, and these have this
        object: it must not have the exception, or the garbage collector has to find all."""
        assert self._future
        try:
            await self._future
        finally:
            self._future = None

    def set(self, error: Exception | None) -> bool:
        """False: the loop is closed, and nobody waits any more."""
        return call_in(self._loop, self._set, error)

    def _set(self, error: Exception | None) -> None:
        future = self._future
        if not future or future.done():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(None)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object],
            *arguments: object) -> bool:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # the loop is closed
        return False
    return True


class AsyncLease(Lease):
    """Jobs and callbacks of an AsyncHold, all in the engine's thread, but for __init__."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(engine)
        self.loop = loop
        self.result: Result | None = None  # of the acquire, the release or the disown
        self.extension: Result | None = None  # also of a downgrade, and of an adoption
        # Set when it is acquired, until the hold is given up.
        self.forgotten: ForgottenHold | None = None
        self.over: bool = False  # released or abandoned: nothing more is reported

    def job(self, result: Result, begin: Callable[[], None]) -> Callable[[], None]:
        """`begin` as a job of the engine. An exception in it ends the wait for the result."""
        def run() -> None:
            try:
                begin()
            except Exception as error:
                if self.extension is result:
                    self.extension = None
                result.set(error)
        return run

    def capture(self, options: Any) -> None:
        """The context of the task, for the spans of this lease."""
        if self.engine.spans:
            self.caller: Caller | None = self.engine.spans.capture()
            options.user = self.caller.argument

    def begin_acquire(self, keys: list[bytes], options: Any) -> None:
        if self.over:
            return  # cancelled before it began
        if self.engine.closed:
            self._finish(make_error(lib.REDLOCK_CLOSED))
            return
        self._free_lost(keys)
        self.keys, self.margin_ms = keys, int(options.margin_ms)
        arguments = Arguments(keys)
        made = ffi.new("redlock_lease **")
        code = lib.redlock_acquire_many(
            self.engine.client, arguments.keys(keys), len(keys), options, ON_ACQUIRED,
            self.engine.argument, made)
        if code == lib.REDLOCK_OK:
            self.acquiring = True
            self.keep(made[0])
        else:
            self._finish(of_last_call())

    def _free_lost(self, keys: list[bytes]) -> None:
        """An extension that came late may have stored a lost lock again, for its whole TTL."""
        for lease in self.engine.lost.copy():
            if isinstance(lease, AsyncLease) and lease.is_over() and not set(
                    keys).isdisjoint(lease.keys):
                lease.free()
            if lease.pointer is None:
                self.engine.lost.remove(lease)

    def begin_adopt(self, key: bytes, token: bytes, valid_ms: int, options: Any) -> None:
        self._adopt(key, token, valid_ms, options)
        self.begin_extend(lib.REDLOCK_AUTO, adopting=True)

    def begin_release_of(self, key: bytes, token: bytes, options: Any) -> None:
        self._adopt(key, token, lib.REDLOCK_UNKNOWN, options)
        self.begin_release()

    def _adopt(self, key: bytes, token: bytes, valid_ms: int, options: Any) -> None:
        if self.engine.client == NULL:
            raise make_error(lib.REDLOCK_CLOSED)
        self.keys, self.margin_ms = [key], int(options.margin_ms)
        made = ffi.new("redlock_lease **")
        if lib.redlock_adopt(self.engine.client, key, len(key), token, valid_ms, options,
                             made) != lib.REDLOCK_OK:
            raise of_last_call()
        self.keep(made[0])

    def begin_extend(self, ttl_ms: int, adopting: bool = False) -> None:
        self.adopting = adopting
        if self.pointer is None:
            self._finish_extension(self.closed())
        elif lib.redlock_extend(self.pointer, ttl_ms, ON_EXTENDED,
                                self.engine.argument) != lib.REDLOCK_OK:
            self._finish_extension(self._refused())
        else:
            self.note_validity()  # a shorter TTL counts at once

    def begin_downgrade(self) -> None:
        self.adopting = False
        if self.pointer is None:
            self._finish_extension(self.closed())
        elif lib.redlock_downgrade(self.pointer, ON_EXTENDED,
                                   self.engine.argument) != lib.REDLOCK_OK:
            self._finish_extension(self._refused())

    def _refused(self) -> RedlockError:
        """C refused to extend a lock that was not released: NOT_HELD means that it is lost."""
        error = of_last_call(held=True)
        if error.code != "NOT_HELD":
            return error
        return self.why or make_lost(lib.REDLOCK_EXPIRED, nodes=self.replies())

    def begin_release(self, *, confirm: bool = True) -> None:
        """The lease is freed when the release has ended, whoever still waits for it."""
        self.over = True
        if self.pointer is None:
            self._finish(self.closed())
        elif lib.redlock_release(self.pointer, ON_RELEASED,
                                 self.engine.argument) != lib.REDLOCK_OK:
            error = of_last_call(held=True)  # it was lost: freeing it releases what is left
            self.free()
            self._finish(error)
        elif not confirm:
            self._finish_when_written()

    def _finish_when_written(self) -> None:
        """C writes the release at the end of this iteration of the loop."""
        result, self.result = self.result, None

        def written() -> None:
            if result:
                result.set(None)
        try:
            self.engine.post(written)
        except RedlockError:  # the engine ends, which writes it
            written()

    def begin_disown(self) -> None:
        self.over = True
        if self.pointer is None:
            self._finish(self.closed())
            return
        lib.redlock_disown(self.pointer)
        self.free()
        self._finish(None)

    def abandon(self) -> None:
        """Cancels the acquire; releases what was granted, also if it has just ended well."""
        self.over = True
        self.free()

    def free(self) -> None:
        """C no longer reports a running extension: this does."""
        super().free()
        if self.extension:
            self._finish_extension(make_error(lib.REDLOCK_CANCELLED))

    def _finish(self, error: RedlockError | None) -> bool:
        result, self.result = self.result, None
        return not result or result.set(error)

    def _finish_extension(self, error: RedlockError | None) -> None:
        result, self.extension = self.extension, None
        if result:
            result.set(error)

    # --- callbacks ---

    def on_acquired(self, result: Any) -> None:
        self.acquiring = False
        if result.code == lib.REDLOCK_OK:
            self.note_acquired()
            if not self._finish(None):
                self.abandon()
        else:
            error = self.failed(result, acquiring=True)
            self.free()
            self._finish(error)

    def on_extended(self, result: Any) -> None:
        self.note_validity()
        self.token: str = ffi.string(lib.redlock_token(self.pointer)).decode()
        if result.code == lib.REDLOCK_OK:
            self.fence: int = int(lib.redlock_fence(self.pointer))
            self._finish_extension(None)
            return
        self._finish_extension(self.failed(result, acquiring=self.adopting))
        if self.adopting:  # the token is still the caller's
            self.over = True
            lib.redlock_disown(self.pointer)
            self.free()

    def on_released(self, result: Any) -> None:
        error = None if result.code == lib.REDLOCK_OK else self.failed(result)
        if error and error.code == "CANCELLED":
            error = make_error(lib.REDLOCK_UNCONFIRMED,
                               reason=lib.REDLOCK_REASON_CLIENT_FREED, nodes=error.nodes)
        self.free()
        self._finish(error)

    def on_lost(self, result: Any) -> None:
        self.note_validity()
        self._report_loss(make_lost(result.code, reason=result.reason, nodes=self.replies()))

    def on_closing(self) -> None:
        if self.acquiring:  # otherwise a release could still let it have a lock that it loses
            self.abandon()
            self._finish(make_error(lib.REDLOCK_CLOSED))

    def on_closed(self) -> None:
        if not self.over:
            self._report_loss(self.closed())
        self.forgotten = None  # there is nothing left to end

    def closed(self) -> Lost:
        """Why a lease that is freed is not held."""
        return self.why or Lost("CLOSED", self.engine.closed)

    def _report_loss(self, why: Lost) -> None:
        self.is_over: Callable[[], bool] = time_over(self.margin_ms)
        self.why = why
        self.engine.lost.append(self)
        hold = self.forgotten and self.forgotten()
        if hold:
            call_in(self.loop, hold._set_lost, why)

    why: Lost | None = None
    keys: list[bytes]
    margin_ms: int
    adopting: bool = False
    acquiring: bool = False


class ForgottenHold(Forgotten):
    """Its lease keeps it, until the hold is given up."""

    def __init__(self, hold: AsyncHold) -> None:
        super().__init__(hold)
        self.lease: AsyncLease = hold._lease
        self.keys: tuple[bytes, ...] = hold.keys

    def end(self) -> None:
        """It is not released: what it was for may still be going on."""
        lease, self.lease.forgotten = self.lease, None
        with contextlib.suppress(RedlockError):  # the client was closed
            lease.engine.post(lease.begin_disown)
            if not lease.why:
                warn_of_hold(self.keys)

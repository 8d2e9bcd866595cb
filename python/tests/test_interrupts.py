"""A signal handler that raises, at each line of the package, leaves no lock held."""
import asyncio
import linecache
import os
import signal
import sys
import threading

import lab
import pytest
from conftest import PATIENT

import redlock_quorum as rq

PACKAGE = os.path.dirname(rq.__file__)
# At the begin of one of these, Python calls the handler before any code of it runs. The Lock
# knows of what is still held.
NOT_GUARDED = {"Lock.__exit__", "Hold.__enter__", "Hold.__exit__", "AsyncLock.__aexit__",
               "AsyncHold.__aenter__", "AsyncHold.__aexit__"}


def interrupt(number, call, opcodes_of=""):
    """Calls it, and raises KeyboardInterrupt at the line of this number that it runs, or, in
    the file `opcodes_of`, at the opcode: it may take a lock between two of them.
    Where that was, and whether before the `try` of one that is NOT_GUARDED; None: it ended."""
    place, count, last = None, 0, None

    entered = []

    def is_end_of_guard(frame):
        """The second look at a `with` of a lock, of which no signal comes before its end."""
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if text != "with self._guard:":
            return False
        if (frame, frame.f_lineno) in entered:
            return True
        entered.append((frame, frame.f_lineno))
        return False

    def trace(frame, event, _):
        nonlocal place, count, last
        by_opcodes = frame.f_code.co_filename == opcodes_of
        if not by_opcodes and not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if by_opcodes:
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "call":
            last = frame
        if event == "line" and is_end_of_guard(frame):
            return trace
        if event in ("line", "opcode"):
            count += 1
            if count == number:
                name = frame.f_code.co_qualname
                place = name, frame.f_lineno, last is frame and name in NOT_GUARDED
                raise KeyboardInterrupt
            if linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() == "try:":
                last = None
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return place


def interrupt_each_line(call, check, opcodes_of=""):
    """check(place) after each one."""
    number = 0
    while place := interrupt(number := number + 1, call, opcodes_of):
        check(place)
    assert number > 50


def use(lock):
    with lock:
        pass


def use_with_an_exception(lock):
    try:
        with lock:
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass


def use_twice(lock):
    with lock, lock:
        pass


def acquire(lock):
    lock.acquire()
    lock.release()


def use_hold(lock):
    with lock.acquire():
        pass


def wait(lock):
    condition = threading.Condition(lock)
    with condition:
        condition.wait(0.001)


@pytest.mark.parametrize("call, recursive", [
    (use, False), (use_with_an_exception, False), (use_twice, True), (acquire, False),
    (use_hold, False), (wait, False), (wait, True)])
def test_threads(client, other, call, recursive):
    lock = client.lock("k", recursive=recursive, timeout=60)

    def check(place):
        while lock._uses and (place[2] or call is acquire):
            lock.release()
        assert not lock._uses and not client._holds and not client._callers, place
        assert other.lock("k").acquire(timeout=60).release() is None
        lock._entered.clear()
    interrupt_each_line(lambda: call(lock), check)


def test_a_wait(client, other, monkeypatch):
    """Also at the moment when the lock comes: the thread that waits has it."""
    make = client._make_hold

    def make_hold(*arguments, **more):
        if threading.get_ident() == threading.main_thread().ident:
            raise rq.Busy("TAKEN", "another owner")
        return make(*arguments, **more)
    monkeypatch.setattr(client, "_make_hold", make_hold)
    lock, places = client.lock("k", ttl=3600, timeout=60), set()
    threads = threading.active_count()

    def check(place):
        places.add(place[0])
        lab.wait_for(lambda: not client._callers and not lock._uses, "its end")
        assert not client._holds and not client._stops, place
        assert other.lock("k").acquire(timeout=60).release() is None
    interrupt_each_line(lock.acquire, check)
    lock.release()
    assert {"Client._wait_elsewhere", "Latch.wait"} <= places
    assert threading.active_count() <= threads


def test_a_wait_for_another_owner(client, other):
    """It leaves no thread that waits, and no lock that nobody opens."""
    lock = client.lock("k", ttl=3600)
    places = set()

    def check(place):
        places.add(place[0])
        lab.wait_for(lambda: not client._callers and not client._stops,
                     f"no call: {place}, {len(client._callers)}, {len(client._stops)}")
    # Ends the process if all is stuck: no exception ended that.
    assert signal.signal(signal.SIGALRM, signal.SIG_DFL) == signal.SIG_DFL
    signal.alarm(4 * lab.STATE_SECONDS)
    with other.lock("k"):
        interrupt_each_line(lambda: lock.acquire(timeout=0.05), check, threading.__file__)
        assert not other.inspect("k").waiting
    signal.alarm(0)
    assert "Client._wait_elsewhere" in places


def test_an_outer_level(client):
    lock = client.lock("k", recursive=True)
    with lock as hold:
        def check(place):
            while len(lock._uses) > 1 and place[2]:
                lock.release()
            assert not hold.lost and len(hold._levels) == len(lock._uses) == 1, place
            del lock._entered[1:]
        interrupt_each_line(lambda: use(lock), check)
        hold.check()


async def async_use(lock):
    async with lock:
        pass


async def async_acquire(lock):
    await lock.acquire()
    await lock.release()


async def async_use_hold(lock):
    async with await lock.acquire():
        pass


@pytest.mark.parametrize("call", [async_use, async_acquire, async_use_hold])
def test_asyncio(quorum, other, call):
    client = rq.AsyncClient(quorum.uris, PATIENT)
    lock = client.lock("k", timeout=60)

    def check(place):
        while lock._held and (place[2] or call is async_acquire):
            asyncio.run(lock.release())
        assert not lock._held, place
        lab.wait_for(lambda: not client._engine.leases, "no lease")
        assert other.lock("k").acquire(timeout=60).release() is None
        lock._entered.clear()
    interrupt_each_line(lambda: asyncio.run(call(lock)), check)
    client.close()

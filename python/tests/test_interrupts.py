"""A signal handler that raises, at each line of the package, leaves no lock held."""
import asyncio
import contextlib
import faulthandler
import functools
import linecache
import os
import random
import signal
import sys
import threading
import time

import lab
import pytest
from conftest import PATIENT, threads_of_python

import redlock_quorum as rq

ROUNDS = int(os.environ.get("INTERRUPTS", "300"))  # of signals at random moments
PACKAGE = os.path.dirname(rq.__file__)
# At the begin of one of these, Python calls the handler before any code of it runs. The Lock
# knows of what is still held.
NOT_GUARDED = {"Lock.__exit__", "Hold.__enter__", "Hold.__exit__", "AsyncLock.__aexit__",
               "AsyncHold.__aenter__", "AsyncHold.__aexit__"}


def apart(call):
    """A generator has its own exceptions that are being handled: Python does not always end one
    whose handler is interrupted, and what that keeps alive would be ours."""
    yield call()


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
        next(apart(call))
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
            raise rq.Taken("TAKEN", "another owner")
        return make(*arguments, **more)
    monkeypatch.setattr(client, "_make_hold", make_hold)
    lock, places = client.lock("k", ttl=3600, timeout=60), set()
    threads = threads_of_python()

    def check(place):
        places.add(place[0])
        lab.wait_for(lambda: not client._callers and not lock._uses, "its end")
        assert not client._holds and not client._stops, place
        assert other.lock("k").acquire(timeout=60).release() is None
    interrupt_each_line(lock.acquire, check)
    lock.release()
    assert {"Client._wait_elsewhere", "Latch.wait"} <= places
    assert threads_of_python() <= threads


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


class Signals:
    """Up to three of them while a call runs, at random moments: their handler raises."""

    def __init__(self, draw):
        self._draw = draw
        self._left = 0
        self.rounds = 0  # that were interrupted

    def __enter__(self):
        self._before = signal.signal(signal.SIGALRM, self._handle)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGALRM, self._before)

    def _handle(self, _, frame):
        while frame and frame.f_code is not apart.__code__:
            frame = frame.f_back
        if frame and self._left:
            self._left -= 1
            if not self._left:
                signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    def during(self, call, seconds):
        self._left = wanted = self._draw.choice((1, 1, 1, 2, 3))
        signal.setitimer(signal.ITIMER_REAL, self._draw.uniform(1e-6, seconds),
                         seconds / 4)
        try:
            next(apart(call))
        except (KeyboardInterrupt, rq.NotAcquired):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.rounds += self._left < wanted


def test_signals_at_random_moments(client, other):
    """One to three in a call: no call is stuck, and no lock and no thread is left."""
    draw, ends = random.Random(ROUNDS), threading.Event()
    locks = {key: client.lock(key, ttl=3600) for key in ("own", "taken")}

    def take():
        while not ends.is_set():
            with other.lock("taken"):
                time.sleep(draw.uniform(0, 0.01))
    ways = [(use, "own", 0.001), (acquire, "own", 0.001), (use_hold, "own", 0.001),
            (use, "taken", 0.005), (lambda lock: lock.acquire(timeout=0.02), "taken", 0.02)]
    taker = threading.Thread(target=take)
    taker.start()
    threads = len(os.listdir("/proc/self/task"))
    try:
        with Signals(draw) as signals:
            while signals.rounds < ROUNDS:
                faulthandler.dump_traceback_later(2 * lab.STATE_SECONDS, exit=True)  # stuck
                call, key, seconds = draw.choice(ways)
                signals.during(functools.partial(call, locks[key]), seconds)
                while locks[key]._uses:  # no code of the lock has run (NOT_GUARDED)
                    with contextlib.suppress(rq.NotHeld):  # a second one came in release()
                        locks[key].release()
                lab.wait_for(lambda: not client._callers and not client._stops and
                             not client._holds, "no call and no hold")
                locks[key]._entered.clear()
                free = other.lock(key).acquire(timeout=60)
                assert free, "it is still held"
                free.release()
    finally:
        faulthandler.cancel_dump_traceback_later()
        ends.set()
        taker.join()
    lab.wait_for(lambda: len(os.listdir("/proc/self/task")) < threads, "no thread more")


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

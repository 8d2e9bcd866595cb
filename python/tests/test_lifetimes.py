"""Copies of what belongs to C, and what a program forgets to release or to close."""
import asyncio
import contextlib
import copy
import dataclasses
import gc
import inspect
import os
import pickle
import sys
import threading
import warnings
import weakref

import lab
import pytest
from conftest import PATIENT, threads_of_python

import redlock_quorum as rq
from redlock_quorum import _native


# --- copies ---

def check_that_it_is_no_value(thing):
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(thing)


def test_no_copies(client):
    with client.lock("k") as hold, client.observe("e") as observer:
        client.inspect("k")
        for thing in (client, client.lock("k"), client.election("e"), hold, observer,
                      client._administration(), client._administration().engine):
            check_that_it_is_no_value(thing)


def test_no_copies_of_asyncio(quorum):
    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT) as client:
            async with client.lock("k") as hold:
                for thing in (client, client.lock("k"), client.election("e"), hold,
                              client._engine, hold._lease):
                    check_that_it_is_no_value(thing)
    asyncio.run(main())


def test_each_public_class_is_a_value_or_cannot_be_copied():
    for name in rq.__all__:
        kind = getattr(rq, name)
        if inspect.isclass(kind) and not dataclasses.is_dataclass(kind):
            assert issubclass(kind, (Exception, _native.Handle)), name


# --- what is forgotten ---

@contextlib.contextmanager
def no_collector():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def a_warning(text):
    """The body forgets something, and a ResourceWarning with this text comes, also in a process
    that is idle: the garbage collector does not run."""
    with warnings.catch_warnings(record=True) as seen, no_collector():
        warnings.simplefilter("always")
        yield
        lab.wait_for(lambda: [each for each in list(seen) if text in str(each.message)],
                     "a warning")
    assert {each.category for each in seen} == {ResourceWarning}
    assert len(seen) == 1


def used():
    """The threads and descriptors of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def ours():
    return [each for each in threading.enumerate() if each.name.startswith("redlock")]


@pytest.fixture
def before(quorum):
    """What is used without a client."""
    lab.wait_for(lambda: used()[0] == threads_of_python() and not ours(), "no thread")
    return used()


@pytest.mark.parametrize("recursive", [False, True])
def test_a_hold_that_is_forgotten(client, other, caplog, recursive):
    with a_warning("a hold of b'k' was not released"):
        lock = client.lock("k", ttl=3, recursive=recursive)
        token = [lock.acquire() for _ in range(1 + recursive)][0].token
        del lock
    assert "b'k' was not released" in caplog.text
    assert client._holds == {}
    assert other.inspect("k").nodes[0].holder == token.partition("@")[2]  # it is not released
    other.lock("k").acquire(timeout=60).release()  # and not extended any more


def refused(client, other, lock):
    with other.lock("k"):
        assert lock.acquire(blocking=False) is None and lock.acquire(timeout=0.05) is None
        with pytest.raises(rq.WaitTimeout), client.lock("k", timeout=0.05):
            pytest.fail("the body runs without the lock")


def changed(client, other, lock):
    with client.lock("k", recursive=True) as hold, client.lock("k", recursive=True):
        with pytest.raises(rq.RedlockError):
            hold.disown()  # it is still held
    with lock as hold:
        with pytest.raises(rq.RedlockError):
            hold.extend(10 ** 9)


def conditioned(client, other, lock):
    condition = threading.Condition(lock)
    with lock.acquire():
        condition.wait(0.001)
    with condition:
        condition.wait(0.001)


def failed(client, other, lock):
    def fail():
        with lock:
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        fail()


@pytest.mark.parametrize("use", [refused, changed, conditioned, failed])
def test_a_hold_that_is_forgotten_by_a_lock_that_was_used(client, other, use):
    """Nothing that was raised before keeps it."""
    with a_warning("a hold of b'k' was not released"):
        lock = client.lock("k", ttl=3)
        use(client, other, lock)
        lock.acquire(timeout=60)
        del lock


def test_a_hold_that_waited_is_forgotten(client, other):
    held = other.lock("k").acquire()
    with a_warning("a hold of b'k' was not released"):
        with in_time(lambda: client.inspect("k").waiting, held.release):
            client.lock("k", ttl=3).acquire(timeout=60)


@contextlib.contextmanager
def in_time(condition, call):
    """Calls it, in another thread, as soon as the condition holds; the body waits for that."""
    def run():
        lab.wait_for(condition, "the body")
        call()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(lab.STATE_SECONDS)


def test_a_hold_without_its_lock_in_a_condition(client, other):
    """A level that only the hold has, and the `with` of it, know the hold that comes after."""
    lock = client.lock("k", recursive=True)
    condition = threading.Condition(lock)
    with no_collector(), lock:
        with client.lock("k", recursive=True).acquire() as inner:
            condition.wait(0.001)
            assert inner.lost and len(client._holds) == 1
        lock.acquire().release()
    lab.wait_for(lambda: not client._holds, "the end")
    other.lock("k").acquire(timeout=60).release()


@pytest.mark.parametrize("begin", [lambda lock: lock, lambda lock: lock.acquire()])
def test_each_hold_of_a_loop_of_waits_ends_with_the_next_one(client, begin):
    lock = client.lock("k")
    condition, holds = threading.Condition(lock), []
    with no_collector(), begin(lock) as hold:
        for _ in range(5):
            condition.wait(0.001)
            holds.append(weakref.ref(*lock._uses.values()))
        assert [each() is not None for each in holds] == [False] * 4 + [True]
        assert hold.lost


def test_async_holds_that_are_forgotten_after_errors(quorum):
    from test_asyncio import stopped

    async def fail(lock):
        await lock.acquire(timeout=60)
        raise ZeroDivisionError

    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT) as client:
            async with rq.AsyncClient(quorum.uris, PATIENT) as other:
                with a_warning("a hold of b'k' was not released"):
                    lock = client.lock("k", ttl=3)
                    async with other.lock("k"):
                        with pytest.raises(rq.Taken):
                            await lock._acquire(0)
                    hold = await lock.acquire(timeout=60)
                    with stopped(client):
                        first = asyncio.ensure_future(hold.extend(3))
                        await asyncio.sleep(0)
                        with pytest.raises(rq.InUse):
                            await hold.extend(3)
                    await first
                    del lock, hold, first
                await (await other.lock("k").acquire(timeout=60)).release()
                with a_warning("a hold of b'k' was not released"):
                    failing = asyncio.ensure_future(fail(client.lock("k", ttl=3)))
                    await asyncio.wait([failing])
                    assert isinstance(failing.exception(), ZeroDivisionError)
                    del failing
    asyncio.run(main())


def test_an_async_hold_that_is_forgotten(quorum, caplog):
    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT) as client:
            with a_warning("a hold of b'k' was not released"):
                await client.lock("k", ttl=3).acquire()
            async with rq.AsyncClient(quorum.uris, PATIENT) as other:
                await (await other.lock("k").acquire(timeout=60)).release()
            assert client._engine.leases == {}
            with a_warning("a hold of b'a' was not released"):
                token = await (await client.lock("a", ttl=30).acquire()).disown()
                await client.adopt("a", token, 30)
    asyncio.run(main())
    assert "b'k' was not released" in caplog.text


def test_what_is_kept_is_not_forgotten(client, quorum):
    """A lock keeps its hold, and a hold, a lock or an observer its client."""
    lock = rq.Client(quorum.uris, PATIENT).lock("k")
    lock.acquire()
    hold = rq.Client(quorum.uris, PATIENT).lock("l").acquire()
    changes = []
    client.observe("e", lambda leader: changes.append(leader))
    gc.collect()
    observer = rq.Client(quorum.uris, PATIENT).observe("e")
    assert observer.next(60).term is None
    lab.wait_for(lambda: changes, "a call of an observer")
    lock.release()
    hold.release()
    for each in (lock, hold, observer):
        each._client.close()


def test_a_client_that_is_forgotten(quorum, before):
    with a_warning("a Client was not closed"):
        made = rq.Client(quorum.uris, PATIENT)
        made.lock("k").acquire().release()
        made.inspect("k")
        assert used()[0] > before[0] and used()[1] > before[1]
        del made
    lab.wait_for(lambda: used() == before, "the end of its threads and descriptors")


def test_a_client_and_its_hold_that_are_forgotten(quorum, before):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        hold = rq.Client(quorum.uris, PATIENT).lock(
            "k", ttl=3, on_lost=lambda *_: hold.release()).acquire()  # a cycle
        del hold
        gc.collect()
        lab.wait_for(lambda: len(seen) == 2, "two warnings")
    lab.wait_for(lambda: used() == before, "the end of its threads and descriptors")
    with rq.Client(quorum.uris, PATIENT) as client:
        client.lock("k").acquire(timeout=60).release()


def test_an_async_client_that_is_forgotten(quorum, before):
    async def use():
        made = rq.AsyncClient(quorum.uris, PATIENT)
        async with made.lock("k"):
            pass
    with a_warning("an AsyncClient was not closed"):
        asyncio.run(use())
    lab.wait_for(lambda: used() == before, "the end of its thread and descriptors")


def test_no_more_threads(quorum, before, monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", fail)
        with pytest.raises(RuntimeError):
            rq.AsyncClient(quorum.uris, PATIENT)
        patched.setattr("redlock_quorum._later.forgotten._thread", None)
        rq.Client(quorum.uris, PATIENT).close()
    assert used() == before


def test_the_threads_end_with_the_last_client(quorum, before):
    rq.Client(quorum.uris, PATIENT).close()
    lab.wait_for(lambda: used() == before, "their end")
    with rq.Client(quorum.uris, PATIENT) as client:
        with a_warning("a hold of b'k'"):
            client.lock("k", ttl=3).acquire()
        asyncio.run(rq.AsyncClient(quorum.uris, PATIENT).aclose())
        with a_warning("a hold of b'l'"):
            client.lock("l", ttl=3).acquire()
        names = {each.name for each in ours()}
        assert names == {"redlock-log", "redlock-forgotten"}, names
    lab.wait_for(lambda: used() == before, "their end")


IMPORTED = """
import importlib, sys
try:
    subs = importlib.import_module("_interpreters")
except ImportError:
    subs = importlib.import_module("_xxsubinterpreters")
made = subs.create()
failed = subs.run_string(made, f'''
import sys
sys.path[:] = {sys.path!r}
try:
    import redlock_quorum
except ImportError as why:
    print(why, flush=True)
''')
assert not failed, failed
subs.destroy(made)
"""


def test_a_subinterpreter(quorum):
    """Its end would abort the process."""
    from test_threads import run_program
    assert "main interpreter only" in run_program(IMPORTED, quorum)


def test_an_observer_that_is_forgotten(client):
    with a_warning("an Observer was not closed"):
        client.observe("e")
    lab.wait_for(lambda: client._observed == {}, "the end of the observer")


def test_a_warning_that_is_an_error_ends_nothing_else(client, other, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.lock("k", ttl=3).acquire()
        gc.collect()
        other.lock("k").acquire(timeout=60).release()
    assert "was not released" in caplog.text
    with a_warning("a hold of b'l' was not released"):  # the thread is still there
        client.lock("l").acquire()


def test_a_child_forgets_nothing_of_its_parent(client, quorum):
    from test_threads import child
    held = {"hold": client.lock("k").acquire()}
    made = [rq.Client(quorum.uris, PATIENT)]

    def check():
        held.clear()
        made.clear()
        gc.collect()
        with rq.Client(quorum.uris, PATIENT) as mine:
            with a_warning("a hold of b'mine'"):
                mine.lock("mine").acquire()
            assert mine.lock("k").acquire(blocking=False) is None
    assert child(check) == 0
    held["hold"].release()
    made[0].close()


def test_no_python_code_in_finalizers(client, quorum):
    """In which a KeyboardInterrupt of a ctrl-C would be lost, and a lock of cffi be waited for."""
    def run(thing):
        del thing[:]
        gc.collect()

    def note(frame, event, _argument):
        if event == "call" and frame.f_code is not run.__code__:
            calls.append(frame.f_code)
    calls = []
    hold = client.lock("k").acquire()
    hold.release()
    closed = rq.Client(quorum.uris, PATIENT)
    closed.observe("e").close()
    closed.close()
    engine = rq.AsyncClient(quorum.uris, PATIENT)
    asyncio.run(engine.explain())
    things = [hold, client.lock("forgotten").acquire(), closed, client.observe("e"), engine,
              rq.Client(quorum.uris, PATIENT)]
    del hold, closed, engine
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(note)
        try:
            run(things)
        finally:
            sys.setprofile(None)
        assert calls == []
        lab.wait_for(lambda: not client._holds and not client._observed, "their ends")


# --- the end of the interpreter ---

LATE = """
import atexit, sys
def late():
    for call in (client.lock("k").acquire, client.explain, hold.release):
        try:
            call()
        except (rq.Closed, rq.Lost) as why:
            print(why)
atexit.register(late)
import redlock_quorum as rq
client = rq.Client(sys.argv[1:], rq.Options(node_timeout=5))
hold = client.lock("h").acquire()
"""


def test_a_handler_that_was_registered_first(quorum):
    from test_threads import run_program
    assert run_program(LATE, quorum).count("import redlock_quorum before you register") == 3

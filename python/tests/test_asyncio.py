"""AsyncClient: locks for the tasks of asyncio."""
import asyncio
import gc
import contextlib
import functools
import os
import threading
import time
import types

import lab
import pytest
from conftest import PATIENT, threads_of_python

import redlock_quorum as rq
from redlock_quorum import _admin, _engine as engine, _once


def runs(test):
    """A coroutine as a test: with a client of the servers, on a loop of its own."""
    @functools.wraps(test)
    def run(quorum):
        async def main():
            async with rq.AsyncClient(quorum.uris, PATIENT) as client:
                await asyncio.wait_for(test(client, quorum), 4 * lab.STATE_SECONDS)
        asyncio.run(main())
    del run.__wrapped__  # whose arguments pytest would take for fixtures
    return run


async def until(condition, what):
    give_up = time.monotonic() + lab.STATE_SECONDS
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < give_up, f"waited in vain for: {what}"
        await asyncio.sleep(0.005)


async def a_waiter(client, key):
    async def waits():
        return (await client.inspect(key)).waiting > 0
    await until(waits, "a waiter")


@contextlib.contextmanager
def stopped(client):
    """The client's thread does nothing meanwhile; afterwards it does all that was posted."""
    go_on = threading.Event()
    client._engine.post(lambda: go_on.wait(lab.STATE_SECONDS))
    try:
        yield
    finally:
        go_on.set()


async def ends(awaitable):
    """Its result, or the exception that it raises."""
    return (await asyncio.wait_for(
        asyncio.gather(awaitable, return_exceptions=True), lab.STATE_SECONDS))[0]


@runs
async def test_a_lock_is_held_and_released(client, quorum):
    async with client.lock("k") as hold:
        assert not hold.lost
        assert 0 < hold.valid_ms() <= 30000
        await until(lambda: set(quorum.values("k")) == {hold.token}, "its token on all nodes")
        await hold.extend(60)
        assert hold.valid() > 30
        assert await client.lock("k").acquire(blocking=False) is None
        with pytest.raises(rq.WaitTimeout) as late:
            await client.lock("k", timeout=0.05).__aenter__()
        assert await client.lock("k").acquire(timeout=0.05) is None
        assert late.value.holder == hold.holder
        assert f"{hold.holder} has the lock" in str(late.value)
    assert hold.lost and hold.valid_ms() == 0
    await until(lambda: quorum.keys() == 0, "no key")
    with pytest.raises(rq.NotHeld):
        await hold.release()


@runs
async def test_a_hold_in_a_with(client, quorum):
    async with await client.lock("k").acquire(timeout=5) as hold:
        assert await client.lock("k").acquire(blocking=False) is None
    assert hold.lost and hold.release_error is None
    async with await client.lock("k").acquire(timeout=5) as hold:
        await hold.release()
    with pytest.raises(ZeroDivisionError):
        async with await client.lock("k").acquire(timeout=5) as hold:
            raise ZeroDivisionError
    assert hold.lost


@runs
async def test_released_in_the_body(client, quorum):
    lock = client.slots("s", 2)
    async with lock as outer:
        async with lock as inner:
            await inner.release()
        assert not outer.lost
    assert outer.lost
    await until(lambda: quorum.keys() == 0, "no key")


@runs
async def test_a_with_ends_in_another_task(client, quorum):
    async def numbers(lock):
        async with lock:
            yield 1
            yield 2
    async for _ in numbers(client.lock("k")):
        break  # the loop closes the generator in another task
    await until(lambda: quorum.keys() == 0, "no key")
    lock = client.slots("s", 3)
    others = [numbers(lock), numbers(lock)]
    tasks = [asyncio.create_task(_first_and_wait(each)) for each in others]
    await until(lambda: len(lock._entered) == 2, "two holds")
    with pytest.raises(rq.NotHeld):
        await lock.__aexit__(None, None, None)
    body = ZeroDivisionError()
    await lock.__aexit__(type(body), body, None)
    assert "NOT_HELD" in body.__notes__[0]
    async with lock as mine:
        pass
    assert mine.lost
    assert not any(hold.lost for _, hold in lock._entered)
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    for each in others:
        await each.aclose()
    await until(lambda: quorum.keys() == 0, "no key")


async def _first_and_wait(numbers):
    await anext(numbers)
    await asyncio.Event().wait()


@runs
async def test_release_by_the_lock_in_another_task(client, quorum):
    lock = client.lock("k")
    await asyncio.create_task(lock.acquire())
    await lock.release()  # its task has ended
    await lock.acquire()
    with pytest.raises(rq.NotHeld):
        await asyncio.create_task(lock.release())
    await lock.release()


@runs
async def test_tasks_take_turns(client, quorum):
    count = 0

    async def work():
        nonlocal count
        for _ in range(5):
            async with client.lock("k"):
                before = count
                await asyncio.sleep(0)
                count = before + 1
    await asyncio.gather(*(work() for _ in range(8)))
    assert count == 40


@runs
async def test_a_thousand_locks_take_no_threads(client, quorum):
    before = threads_of_python()
    locks = [client.lock(f"k{number}") for number in range(1000)]
    holds = await asyncio.gather(*(lock.acquire() for lock in locks))
    assert threads_of_python() == before
    assert all(hold.valid() > 0 for hold in holds)
    await asyncio.gather(*(hold.release() for hold in holds))
    assert client._engine.leases == {}
    await until(lambda: quorum.keys() == 0, "no key")


@runs
async def test_the_other_kinds(client, quorum):
    async with client.shared("s"), client.shared("s"):
        assert await client.lock("s").acquire(blocking=False) is None
    async with client.lock("s") as writer:
        await writer.downgrade()
        async with client.shared("s"):
            pass
    async with client.lock_many(["a", "b"]):
        assert await client.lock("b").acquire(blocking=False) is None
    async with client.slots("n", 2) as one, client.slots("n", 2) as two:
        assert {one.slot, two.slot} == {1, 2}
    async with client.lock("r", redisson=True):
        await until(lambda: quorum[0].call("TYPE", "r") == "hash", "a hash")
    token = await (await client.lock("k").acquire()).disown()
    hold = await client.adopt("k", token, valid=10)
    assert hold.token == token
    await hold.release()


@runs
async def test_an_election(client, quorum):
    lab.redlock("admit", "--new", "--at-once", *lab.PATIENT, env=lab.on(quorum)).expect(0)
    async with contextlib.aclosing(client.observe("e")) as changes:
        assert (await anext(changes)).term is None
        async with client.election("e") as lead:
            assert (await anext(changes)).term == lead.term > 0
        assert (await anext(changes)).term is None


@runs
async def test_a_waiting_acquire_is_cancelled(client, quorum):
    async with client.lock("k"):
        task = asyncio.create_task(client.lock("k").acquire())
        await a_waiter(client, "k")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: len(client._engine.leases) == 1, "one lease")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.lock("k").acquire(), 0.05)
    await (await client.lock("k").acquire(timeout=60)).release()


@runs
async def test_an_acquire_is_cancelled_at_any_time(client, quorum):
    for turn in range(60):
        task = asyncio.create_task(client.lock("k").acquire())
        for _ in range(turn % 6):
            await asyncio.sleep(0.0005 * (turn % 7))
        task.cancel()
        try:
            hold = await task
        except asyncio.CancelledError:
            continue
        await hold.release()
    await (await client.lock("k").acquire(timeout=60)).release()
    await until(lambda: not client._engine.leases, "no lease")
    await until(lambda: quorum.keys() == 0, "no key")


@runs
async def test_a_release_is_cancelled(client, quorum):
    for turn in range(20):
        hold = await client.lock("k").acquire(timeout=60)
        task = asyncio.create_task(hold.release())
        if turn % 2:
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if not hold.lost:  # it was cancelled before it began
            await hold.release()
    await until(lambda: not client._engine.leases, "no lease")
    await until(lambda: quorum.keys() == 0, "no key")


@runs
async def test_a_release_during_an_extension(client, quorum):
    hold = await client.lock("k").acquire()
    with stopped(client):
        extension = asyncio.create_task(hold.extend())
        await asyncio.sleep(0)
        release = asyncio.create_task(hold.release())
        await asyncio.sleep(0)
    assert await ends(release) is None
    assert isinstance(await ends(extension), rq.Cancelled)
    async with client.lock("k") as hold:
        with stopped(client):
            extension = asyncio.create_task(hold.extend())
            await asyncio.sleep(0)
            extension.cancel()
            assert isinstance(await ends(hold.extend()), rq.InUse)  # it goes on
    await until(lambda: not client._engine.leases, "no lease")


@runs
async def test_two_extensions_at_a_time(client, quorum):
    async with client.lock("k") as hold:
        with stopped(client):
            one, two = asyncio.create_task(hold.extend()), asyncio.create_task(hold.extend())
            assert isinstance(await ends(two), rq.InUse)
        assert await ends(one) is None
        await hold.extend()


@runs
async def test_a_disown_during_an_extension(client, quorum):
    hold = await client.lock("k").acquire()
    with stopped(client):
        extension = asyncio.create_task(hold.extend())
        await asyncio.sleep(0)
        disown = asyncio.create_task(hold.disown())
        await asyncio.sleep(0)
    assert await ends(disown) == hold.token
    assert isinstance(await ends(extension), rq.Cancelled)


@runs
async def test_a_body_is_cancelled(client, quorum):
    entered = asyncio.Event()

    async def work():
        async with client.lock("k"):
            entered.set()
            await asyncio.Event().wait()
    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: quorum.keys() == 0, "no key")


@runs
async def test_nodes_that_die(client, quorum):
    seen = []
    hold = await client.lock("k", ttl=3,
                             on_lost=lambda hold, why: seen.append((hold, why))).acquire()
    quorum.kill(0, 1)
    await hold.extend()
    quorum.kill(2)
    await asyncio.wait_for(hold.wait_lost(), lab.STATE_SECONDS)
    assert hold.why_lost.code == "EXPIRED"
    assert seen == [(hold, hold.why_lost)]
    assert hold.valid_ms() == 0
    with pytest.raises(rq.Lost):
        await hold.release()
    with pytest.raises(rq.NoQuorum) as refused:
        await client.lock("k").acquire(timeout=0)
    assert len(refused.value.nodes) == 5


@runs
async def test_a_loss_in_a_with(client, quorum):
    once = rq.LockOptions(watchdog=False)
    with pytest.raises(rq.Lost):
        async with client.lock("k", ttl=1, options=once) as hold:
            await hold.wait_lost()
    with pytest.raises(ZeroDivisionError) as shown:
        async with client.lock("k", ttl=1, options=once) as hold:
            await hold.wait_lost()
            raise ZeroDivisionError
    assert "EXPIRED" in shown.value.__notes__[0]


@runs
async def test_a_lock_is_extended_while_the_loop_is_busy(client, quorum):
    hold = await client.lock("k", ttl=6).acquire()
    before = hold.valid_ms()

    def is_extended():  # it falls until then
        nonlocal before
        latest, before = before, hold.valid_ms()
        return before > latest
    lab.wait_for(is_extended, "an extension")  # blocks the loop
    assert not hold.lost
    await hold.release()


@runs
async def test_a_loop_that_is_blocked_sees_the_deadline(client, quorum):
    hold = await client.lock("k", ttl=1, options=rq.LockOptions(watchdog=False)).acquire()
    time.sleep(1.1)
    assert hold.valid_ms() == 0
    with pytest.raises(rq.Lost):
        await hold.release()


@runs
async def test_bad_input(client, quorum):
    for lock, code in ((client.lock(""), "BAD_KEY"), (client.lock("k", ttl=-1), "BAD_TTL"),
                       (client.lock_many(["a", "a"]), "BAD_KEY")):
        with pytest.raises(rq.BadInput) as refused:
            await lock.acquire()
        assert refused.value.code == code


@runs
async def test_an_exception_in_the_clients_thread(client, quorum):
    assert isinstance(await ends(client.adopt("k", None)), TypeError)
    async with client.lock("k") as hold:
        hold._lease.begin_extend = lambda _ms: 1 / 0
        assert isinstance(await ends(hold.extend()), ZeroDivisionError)
        del hold._lease.begin_extend
        await hold.extend()


@runs
async def test_inspect_list_check(client, quorum):
    async with client.lock("job:1") as hold:
        assert (await client.inspect("job:1")).holder == hold.holder
        assert [each.key async for each in client.list("job:")] == [b"job:1"]
    assert await client.check()
    assert len(await client.explain()) == client.node_count == 5
    text = await client.prometheus(job="a")
    assert 'redlock_acquires_total{job="a",result="ok"} 1' in text.splitlines()
    with pytest.raises(rq.BadInput):
        await client.prometheus(é="x")
    with pytest.raises(TypeError):
        await client.prometheus(job=3)


def test_close_ends_everything(quorum):
    async def main():
        client = rq.AsyncClient(quorum.uris, PATIENT)
        hold = await client.lock("k").acquire()
        waiter = asyncio.create_task(client.lock("k").acquire())
        await a_waiter(client, "k")
        await client.aclose()
        with pytest.raises(rq.Closed):
            await waiter
        await asyncio.wait_for(hold.wait_lost(), lab.STATE_SECONDS)
        with pytest.raises(rq.Closed):
            await client.lock("k").acquire()
        await client.aclose()
    asyncio.run(main())
    assert quorum.values("k").count(None) <= 2  # until its TTL ends


def test_nothing_is_acquired_after_close(quorum):
    async def main():
        client = rq.AsyncClient(quorum.uris, PATIENT)
        lock, free = client.lock("k", ttl=600), client.lock("free", ttl=600)
        hold = await lock.acquire()
        waiter = asyncio.create_task(lock.acquire())
        await a_waiter(client, "k")
        with stopped(client):
            release = asyncio.create_task(hold.release())
            begun = asyncio.create_task(free.acquire())
            await asyncio.sleep(0)
            closing = asyncio.create_task(client.aclose())
            await until(lambda: client._engine.closed, "the begin of the end")
        assert await ends(closing) is None
        assert await ends(release) is None
        for acquire in (waiter, begun):
            assert isinstance(await ends(acquire), rq.Closed)
    asyncio.run(main())
    for key in ("k", "free"):
        lab.wait_for(lambda: set(quorum.values(key)) == {None}, "no key")


CLOSED_IN_A_HANDLER = """
import asyncio, os, signal, sys, redlock_quorum as rq
client = rq.AsyncClient(sys.argv[1:], rq.Options(node_timeout=5))
engine = client._engine
signal.signal(signal.SIGUSR1, lambda *_: client.close())
def notify(notify=engine._notify):
    del engine._notify
    os.kill(os.getpid(), signal.SIGUSR1)
    notify()
async def main():
    await client.explain()
    engine._notify = notify  # which post() calls under its guard
    try:
        await client.lock("k").acquire()
    except rq.Closed:
        print("closed")
asyncio.run(main())
client.close()
print(engine._thread.is_alive())
"""


def test_close_in_a_signal_handler(quorum):
    from test_threads import run_program
    assert run_program(CLOSED_IN_A_HANDLER, quorum) == "closed\nFalse\n"


def test_several_loops_and_a_loop_that_has_ended(quorum):
    client = rq.AsyncClient(quorum.uris, PATIENT)
    holds = []

    async def acquire():
        holds.append(await client.lock(f"k{len(holds)}", ttl=3,
                                       on_lost=lambda *_: None).acquire())
    for _ in range(2):
        asyncio.run(acquire())
    assert not any(hold.lost for hold in holds)
    quorum.kill(0, 1, 2)
    lab.wait_for(lambda: all(hold.lost for hold in holds), "two losses")
    client.close()


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_lock_that_comes_after_the_loop_has_ended(quorum, is_cancelled):
    """It is released: nobody has it."""
    client = rq.AsyncClient(quorum.uris, PATIENT)
    lock = client.lock("k", ttl=3600)  # longer than the test

    async def begin():
        waiting = asyncio.ensure_future(lock.acquire())
        await a_waiter(client, "k")
        return waiting
    with rq.Client(quorum.uris, PATIENT) as other:
        with other.lock("k"):
            if is_cancelled:
                asyncio.run(begin())
            else:
                loop = asyncio.new_event_loop()
                waiting = loop.run_until_complete(begin())  # kept: it is not cancelled either
                loop.close()
        other.lock("k").acquire(timeout=lab.STATE_SECONDS).release()
    lab.wait_for(lambda: not client._engine.leases, "no lease")
    client.close()
    if not is_cancelled:
        waiting._log_destroy_pending = False


@runs
async def test_a_release_after_the_deadline(client, quorum):
    """It is a loss, also if nobody has told it yet and the nodes confirm the release."""
    for call in rq.AsyncHold.release, rq.AsyncHold.disown:
        hold = await client.lock("k", ttl=60).acquire(timeout=60)
        hold._lease._until = (0, 0)
        with pytest.raises(rq.Lost) as lost:
            await call(hold)
        assert lost.value.code == "EXPIRED"
        await client.break_lock("k")


class Clocks:
    """Those of a host: each look at one takes a microsecond."""

    def __init__(self):
        # It was suspended before, and its clock was slewed.
        self.now = {time.CLOCK_BOOTTIME: 3 * 10 ** 12, time.CLOCK_MONOTONIC: 2 * 10 ** 12,
                    time.CLOCK_MONOTONIC_RAW: 10 ** 12}

    def look(self, clock):
        self.pass_by(1000, *self.now)
        return self.now[clock]

    def pass_by(self, ns, *clocks):
        for clock in clocks:
            self.now[clock] += ns


@pytest.mark.parametrize("what, clocks", [
    ("nothing", ()),
    ("a suspend", (time.CLOCK_BOOTTIME,)),
    ("a clock that is slewed to be slow", (time.CLOCK_MONOTONIC_RAW,)),
    ("a clock that is slewed to be fast", (time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC))])
def test_the_clocks_of_a_deadline(monkeypatch, what, clocks):
    """The validity ends by the first of both clocks, and never too late."""
    host, valid_ms = Clocks(), 5000
    lease = engine.Lease(types.SimpleNamespace(pid=os.getpid()))

    def valid(_pointer):
        host.pass_by(1000, *host.now)
        return valid_ms
    monkeypatch.setattr(engine, "time", types.SimpleNamespace(
        clock_gettime_ns=host.look, **{name: getattr(time, name) for name in dir(time)
                                       if name.startswith("CLOCK_")}))
    monkeypatch.setattr(engine, "lib", types.SimpleNamespace(redlock_valid_ms=valid))
    lease.note_validity()
    assert valid_ms - 1 <= lease.valid_ms() < valid_ms
    host.pass_by(4 * 10 ** 9, *clocks)
    assert lease.valid_ms() // 1000 == (0 if clocks else 4)
    host.pass_by(10 ** 9, *clocks)
    assert (lease.valid_ms() == 0) == bool(clocks)
    valid_ms = 0
    lease.note_validity()
    assert lease.valid_ms() == 0


def test_fork(quorum):
    from test_threads import child
    client = rq.AsyncClient(quorum.uris, PATIENT)
    hold = asyncio.run(_acquire(client))

    def check():
        async def fails():
            assert hold.lost and hold.valid_ms() == 0
            with pytest.raises(rq.Forked):
                await client.lock("l").acquire()
            with pytest.raises(rq.Forked):
                await hold.extend()
            client.close()
            async with rq.AsyncClient(quorum.uris, PATIENT) as mine:
                assert await mine.lock("k").acquire(blocking=False) is None
        asyncio.run(fails())
    assert child(check) == 0
    assert not hold.lost and hold.valid_ms() > 0
    client.close()


async def _acquire(client):
    return await client.lock("k").acquire()


# --- single flight ---

async def fly(client, function, waiters):
    """Tasks that want the same: one is in `function`, and so many wait for it."""
    flies, go_on = asyncio.Event(), asyncio.Event()

    async def lead(hold):
        flies.set()
        await go_on.wait()
        return await function(hold)
    tasks = [asyncio.create_task(client.single_flight("k", lead))]
    await flies.wait()
    tasks += [asyncio.create_task(client.single_flight("k", function)) for _ in range(waiters)]
    [(_, flight)] = client._flights.values()
    await until(lambda: len(flight._callbacks or []) == waiters, "waiters")
    return tasks, go_on


@runs
async def test_single_flight(client, quorum):
    async def function(hold):
        hold.check()
        made.append(object())
        return made[-1]
    made = []
    tasks, go_on = await fly(client, function, 7)
    go_on.set()
    assert set(await asyncio.gather(*tasks)) == set(made) and len(made) == 1
    await client.single_flight("k", function)  # that one was over
    assert len(made) == 2 and not client._flights

    async def fails(hold):
        raise made.append(1) or ZeroDivisionError
    tasks, go_on = await fly(client, fails, 3)
    go_on.set()
    for task in tasks:
        assert isinstance(await ends(task), ZeroDivisionError)
    assert len(made) == 3
    with pytest.raises(rq.InUse, match="this task leads"):
        await client.single_flight("k", lambda hold: client.single_flight("k", function))
    # Another one leads in place of a task that is cancelled.
    (first, *others), _ = await fly(client, function, 3)
    first.cancel()
    assert len(set(await asyncio.gather(*others))) == 1
    assert len(made) == 4 and first.cancelled()


@runs
async def test_a_single_flight_without_the_lock(client, quorum):
    async with client.lock("k") as hold:
        first = asyncio.create_task(client.single_flight("k", None, timeout=0.3))
        await until(lambda: client._flights, "a leader")

        async def function(hold):
            return "mine"
        second = asyncio.create_task(client.single_flight("k", function))
        with pytest.raises(rq.WaitTimeout):
            await client.single_flight("k", None, timeout=0)
        with pytest.raises(rq.WaitTimeout):
            await first
        await hold.release()
    assert await second == "mine"


@runs
async def test_a_single_flight_that_raises_stop_iteration(client, quorum):
    async with client.lock("k") as hold:
        tasks = [asyncio.create_task(client.single_flight("k", lambda hold: next(iter([]))))
                 for _ in range(3)]
        await until(lambda: client._flights, "a leader")
        [(_, flight)] = client._flights.values()
        await until(lambda: len(flight._callbacks or []) == 2, "waiters")
        await hold.release()
    for task in tasks:
        assert isinstance((await ends(task)).__cause__, StopIteration)


@runs
async def test_a_single_flight_that_is_cancelled_in_its_release(client, quorum):
    async def function(hold):
        return made.append(1) or len(made)

    async def release(hold):
        monkeypatch.undo()
        first.cancel()
        await hold.release()
    made, monkeypatch = [], pytest.MonkeyPatch()
    (first, *others), go_on = await fly(client, function, 3)
    monkeypatch.setattr(rq.AsyncHold, "release", release)
    go_on.set()
    assert await asyncio.gather(*others) == [1, 1, 1]  # it is not called again
    assert first.cancelled()


@pytest.mark.parametrize("waiters", [0, 2])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_single_flight_of_a_loop_that_is_closed(quorum, other, waiters):
    """It is forgotten, so its lock is no longer extended."""
    async def leave():
        async def lead(hold):
            await asyncio.Event().wait()
        tasks = [asyncio.create_task(client.single_flight("k", lead, ttl=3))
                 for _ in range(1 + waiters)]
        await until(lambda: client._engine.leases, "a lease")
        await until(lambda: [each for each in client._engine.leases.values() if each.forgotten],
                    "a hold")
        return tasks
    client = rq.AsyncClient(quorum.uris, PATIENT)
    loop = asyncio.new_event_loop()
    tasks = loop.run_until_complete(leave())
    loop.close()
    del tasks
    gc.collect()
    assert not client._flights
    other.lock("k").acquire(timeout=60).release()
    client.close()


# --- once per period ---

@pytest.mark.parametrize("where, name", [(_admin, "_inspection"), (_once.Record, "on_acquired")])
def test_a_cancelled_call_records_nothing(quorum, monkeypatch, where, name):
    """It is cancelled when the client's thread is about to call this."""
    @runs
    async def run(client, quorum):
        def cancelled(*given):
            monkeypatch.undo()
            loop.call_soon_threadsafe(task.cancel)
            lab.wait_for(task.done, "the end of the task")
            return real(*given)
        real, loop = getattr(where, name), asyncio.get_running_loop()
        monkeypatch.setattr(where, name, cancelled)
        task = asyncio.create_task(client.once_per("k", 3600))
        await asyncio.wait([task])
        assert task.cancelled()
        await until(lambda: quorum.keys() == 0, "no key")
        assert await client.once_per("k", 3600) is True
    run(quorum)

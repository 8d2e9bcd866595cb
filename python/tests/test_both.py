"""What Client and AsyncClient have in common besides their locks."""
import asyncio
import contextlib
import datetime
import functools
import inspect
import os
import subprocess
import sys

import lab
import pytest
from conftest import enter, leave, of_both, settled

import redlock_quorum as rq

# What the class for threads has and that for asyncio has not, and the reverse.
ONLY_THREADS = {"Client.lock(recursive)", "Client.lock_many(recursive)",
                "Client.locked(recursive)", "Client.shared(recursive)",
                "Client.observe(changed)", "Hold.wait_lost(timeout)"}
ONLY_ASYNCIO = {"Client.aclose", "Client.aclose(self)"}


def public(kind, name):
    """Its names, and the parameters of its methods with their defaults."""
    found = {}
    for member, value in inspect.getmembers(kind):
        if not member.startswith("_"):
            found[f"{name}.{member}"] = None
            if callable(value):
                found |= {f"{name}.{member}({each.name})": (each.kind, each.default)
                          for each in inspect.signature(value).parameters.values()}
    return found


@pytest.mark.parametrize("name", ["Client", "Hold", "Lock", "Election"])
def test_the_names_of_the_twins(name):
    threads, tasks = public(getattr(rq, name), name), public(getattr(rq, f"Async{name}"), name)
    assert set(threads) - set(tasks) == {each for each in ONLY_THREADS if each.startswith(name)}
    assert set(tasks) - set(threads) == {each for each in ONLY_ASYNCIO if each.startswith(name)}
    assert {each: threads[each] for each in threads if each in tasks} == {
        each: tasks[each] for each in tasks if each in threads}


@of_both()
async def test_what_the_nodes_replied(client, close, quorum):
    hold = await settled(client.lock("k", ttl=60).acquire())
    replies = await settled(hold.explain())
    assert {each.uri for each in replies} == set(quorum.uris)
    assert sum(each.verdict == "granted" for each in replies) >= 3
    assert "acquire" in (await settled(client.record())).lower()
    await settled(hold.release())
    assert await settled(hold.explain()) == ()
    lost = await settled(client.lock("k", ttl=60).acquire())
    await settled(client.break_lock("k"))
    for call in lost.extend, lost.release:
        with pytest.raises(rq.Lost):
            await settled(call())
        assert await settled(lost.explain()) == lost.why_lost.nodes != ()
    hold = await settled(client.lock("k").acquire())
    await settled(close())
    assert await settled(hold.explain()) == ()


@of_both()
async def test_a_release_that_is_not_confirmed(client, close, quorum):
    lock = client.lock("k", ttl=60)
    for release in (lambda hold: hold.release(confirm=False),
                    lambda _: lock.release(confirm=False)):
        hold = await settled(lock.acquire())
        await settled(release(hold))
        assert hold.lost and hold.valid() == 0
        lab.wait_for(lambda: quorum.keys() == 0, "no key")
        with pytest.raises(rq.NotHeld):
            await settled(release(hold))
    lost = await settled(lock.acquire())
    await settled(client.break_lock("k"))
    with pytest.raises(rq.Lost):
        await settled(lost.extend())
    with pytest.raises(rq.Lost):
        await settled(lost.release(confirm=False))
    hold = await settled(lock.acquire())
    quorum.kill(0, 1, 2)
    await settled(hold.release(confirm=False))


ENDS = """
import asyncio, os, sys
import redlock_quorum as rq
from conftest import settled
async def main(client):
    hold = await settled(client.lock("k", ttl=3600).acquire())
    await settled(hold.release(confirm=False))
    os._exit(0)
asyncio.run(main(getattr(rq, sys.argv[1])(sys.argv[2:], rq.Options(node_timeout=5))))
"""


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_a_release_is_written_when_it_returns(quorum, kind):
    subprocess.run([sys.executable, "-c", ENDS, kind, *quorum.uris], check=True, timeout=60,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    lab.wait_for(lambda: quorum.keys() == 0, "no key")


@of_both()
async def test_slots_that_cannot_be(client, close, quorum):
    for count in -1, 0, 129:
        with pytest.raises(rq.BadInput, match=f"slots is {count}, and must be at") as bad:
            client.slots("k", count)
        assert bad.value.code == "BAD_OPTION"


def test_no_repr_has_a_token():
    leader = rq.Leader(known=True, term=1, id="me", token="hush")
    assert "hush" not in repr(leader) and "hush" not in f"{leader}" and leader.token == "hush"


@of_both()
async def test_locked(client, close, quorum):
    async def is_locked(lock):
        return await settled(lock.locked())
    with rq.Client(quorum.uris, rq.Options(node_timeout=5)) as other:
        kinds = [(client.lock("k"), other.lock("k")),
                 (client.lock("r", redisson=True), other.lock("r")),
                 (client.shared("s"), other.lock("s")),
                 (client.lock_many(["a", "b"]), other.lock("b")),
                 (client.lock_many(["a", "b"]), other.lock_many(["b", "c"]))]
        for mine, theirs in kinds:
            assert not await is_locked(mine) and not theirs.locked()
            await settled(enter(mine))
            assert await is_locked(mine) and theirs.locked()
            await settled(leave(mine))
            lab.wait_for(lambda: not theirs.locked(), "a free lock")
        readers = other.shared("s")
        with readers, readers:
            assert await is_locked(client.lock("s")) and readers.locked()
        slots = client.slots("n", 2)
        with other.slots("n", 2):
            assert not await is_locked(slots)
            await settled(enter(slots))
            assert await is_locked(slots)
            await settled(leave(slots))
    quorum.kill(0, 1, 2)
    with pytest.raises(rq.NoQuorum):
        await is_locked(client.lock("k"))


@of_both()
async def test_a_lock_that_is_broken(client, close, quorum):
    hold = await settled(client.lock("k").acquire())
    found = await settled(client.break_lock("k"))
    assert (found.key, found.holder, found.held >= 3) == (b"k", hold.holder, True)
    assert quorum.keys() == 0
    with pytest.raises(rq.Lost):
        await settled(hold.release())
    lab.wait_for(lambda: quorum.keys() == 0, "no key")
    assert (await settled(client.break_lock("k"))).held == 0


@of_both()
async def test_a_release_by_token(client, close, quorum):
    for make in (lambda: client.lock("k"), lambda: client.shared("k")):
        token = await settled((await settled(make().acquire())).disown())
        await settled(client.release("k", token))
        lab.wait_for(lambda: quorum.keys() == 0, "no key")
        with pytest.raises(rq.Lost) as gone:
            await settled(client.release("k", token))
        assert gone.value.code == "GONE"
    hold = await settled(client.lock("k").acquire())
    with pytest.raises(rq.Lost) as taken:
        await settled(client.release("k", token))
    assert taken.value.code in ("TAKEN", "GONE") and len(taken.value.nodes) == 5
    hold.check()
    with pytest.raises(rq.BadInput):
        await settled(client.release("", token))
    quorum.kill(0, 1, 2)
    with pytest.raises(rq.Unconfirmed) as few:
        await settled(client.release("k", hold.token))
    assert len(few.value.nodes) == 5


# --- a decorator ---

def decorated(client, body, **more):
    """`body` as a function that the client can decorate."""
    if isinstance(client, rq.Client):
        def job(number, *, text=""):
            """The text of it."""
            return body(number, text)
    else:
        async def job(number, *, text=""):
            """The text of it."""
            return body(number, text)
    return client.locked("k", **more)(job)


@of_both()
async def test_a_decorator(client, close, quorum):
    def body(number, text):
        seen.append(other.lock("k").acquire(False))
        return number, 1 // len(text)
    seen = []
    with rq.Client(quorum.uris, rq.Options(node_timeout=5)) as other:
        job = decorated(client, body, timeout=0.05)
        assert (job.__name__, job.__doc__) == ("job", "The text of it.")
        for _ in range(2):
            assert await settled(job(1, text="x")) == (1, 1)
        with pytest.raises(ZeroDivisionError):
            await settled(job(1))
        assert seen == [None] * 3
        with other.lock("k"), pytest.raises(rq.WaitTimeout):
            await settled(job(1, text="x"))
        assert seen == [None] * 3
        other.lock("k").acquire(timeout=60).release()
    quorum.kill(0, 1, 2)
    with pytest.raises(rq.NotAcquired):
        await settled(job(1, text="x"))
    assert len(seen) == 3


class Async:
    async def __call__(self):
        pass


async def coroutine():
    pass


def generator():
    yield


async def async_generator():
    yield


@of_both()
async def test_what_cannot_be_decorated(client, close, quorum):
    """The bodies of these would run without the lock."""
    wrong = [generator, async_generator, functools.partial(generator)]
    of_asyncio = [coroutine, functools.partial(coroutine), Async(), functools.partial(Async())]
    wrong += of_asyncio if isinstance(client, rq.Client) else [len, lambda: coroutine()]
    for function in wrong:
        with pytest.raises(TypeError, match="without the lock"):
            client.locked("k")(function)
    for kind in staticmethod, classmethod:  # the function would become a method
        with pytest.raises(TypeError, match=f"write @{kind.__name__} above"):
            client.locked("k")(kind(coroutine))


def test_what_returns_before_its_body_ends(client, recwarn):
    """A plain function that returns a coroutine or a generator: its body is not begun."""
    def wrapped(function):
        return functools.wraps(function)(lambda: function())

    async def task():
        job = asyncio.ensure_future(coroutine())
        with pytest.raises(TypeError, match="without the lock"):
            client.locked("k")(lambda: job)()
        await asyncio.wait([job])
        assert job.cancelled()
    asyncio.run(task())
    for function in (wrapped(coroutine), wrapped(generator), wrapped(async_generator),
                     contextlib.contextmanager(generator),
                     contextlib.asynccontextmanager(async_generator)):
        for call in (client.locked("k")(function),
                     lambda: client.single_flight("k", lambda _hold: function())):
            with pytest.raises(TypeError, match="without the lock"):
                call()
    for value in (open("/dev/null"), contextlib.nullcontext(), iter([1])):
        with value if hasattr(value, "__exit__") else contextlib.nullcontext():
            assert client.locked("k")(lambda: value)() is value
    assert not client.lock("k").locked()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


# --- once per period ---

MONTH = datetime.timedelta(days=31)  # of which no test sees the end


@of_both()
async def test_once_per_period(client, close, quorum):
    env = lab.on(quorum)
    with rq.Client(quorum.uris, rq.Options(node_timeout=5)) as other:
        assert await settled(client.once_per("k", MONTH)) is True
        assert await settled(client.once_per("k", MONTH)) is False
        assert other.once_per("k", MONTH) is False
        command = ("run", *lab.PATIENT, "-q", "--once-per")
        lab.redlock(*command, "31d", "k", "--", "true", env=env).expect(75)
        assert await settled(client.once_per("k", 86400 * 30)) is True
        lab.redlock(*command, "31d", "by-a-command", "--", "true", env=env).expect(0)
        assert await settled(client.once_per("by-a-command", MONTH)) is False
        for found in other.list("k@"):
            assert found.kind == "record"
            days = int(quorum[0].call("PTTL", found.key.decode())) / 86400e3
            assert 30 < days <= 62, (found.key, days)


@of_both()
async def test_once_per_period_without_a_record(client, close, quorum):
    for wrong in (0.5, 0, -1, 32 * 86400):
        with pytest.raises(rq.BadInput, match="period is"):
            await settled(client.once_per("k", wrong))
    with pytest.raises(rq.BadInput):
        await settled(client.once_per("", MONTH))
    quorum.kill(0, 1, 2)
    with pytest.raises(rq.NoQuorum):
        await settled(client.once_per("k", MONTH))
    await settled(close())
    with pytest.raises(rq.Closed):
        await settled(client.once_per("k", MONTH))

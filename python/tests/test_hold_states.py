"""Each method of a hold, in each state that a hold can be in, for threads and for asyncio."""
import asyncio

import lab
import pytest
from conftest import PATIENT

import redlock_quorum as rq

HELD, LOST, RELEASED, DISOWNED, CLOSED = STATES = (
    "held", "lost", "released", "disowned", "closed")
# What a method raises in each state; None: nothing.
RAISES = {
    "check": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Lost),
    "extend": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Closed),
    "downgrade": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Closed),
    "release": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Closed),
    "disown": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Closed),
    "with": (None, rq.Lost, rq.NotHeld, rq.NotHeld, rq.Closed),
}
# The results of the queries that never fail.
LOSS = {LOST: "EXPIRED", CLOSED: "CLOSED"}
WATCHED = rq.LockOptions(watchdog=False)


def ttl_of(state):
    return 1 if state == LOST else 60


def settled(value):
    """A value, or the result of a coroutine of a function that is no coroutine itself."""
    async def wait():
        return await value if asyncio.iscoroutine(value) else value
    return wait()


async def use(hold, method):
    """What the method raises; None: nothing."""
    try:
        if method != "with":
            await settled(getattr(hold, method)())
        elif isinstance(hold, rq.Hold):
            with hold:
                assert hold.why_lost or not hold.lost, "the body runs without the lock"
        else:
            async with hold:
                assert hold.why_lost or not hold.lost, "the body runs without the lock"
    except rq.RedlockError as why:
        return why


async def check_state(client, close, state):
    """One hold for each method, and one for the queries."""
    holds = {method: await settled(
        client.lock(f"{state}:{method}", ttl_of(state), options=WATCHED).acquire(timeout=60))
        for method in [*RAISES, "queries"]}
    for hold in holds.values():
        if state == LOST:
            await settled(hold.wait_lost())
            lab.wait_for(lambda: hold.why_lost, "the reason, from the client's thread")
        elif state == RELEASED:
            await settled(hold.release())
        elif state == DISOWNED:
            assert await settled(hold.disown()) == hold.token
    if state == CLOSED:
        await settled(close())
    seen = {method: await use(holds[method], method) for method in RAISES}
    expected = {method: classes[STATES.index(state)] for method, classes in RAISES.items()}
    assert {method: why and type(why) for method, why in seen.items()} == expected
    for why in filter(None, seen.values()):
        if isinstance(why, rq.NotHeld):
            assert why.reason in ("RELEASED", "DISOWNED"), why
        else:
            assert why.code == LOSS[state]
    hold = holds["queries"]
    assert hold.lost == (state != HELD)
    assert (hold.why_lost and hold.why_lost.code) == LOSS.get(state)
    assert (hold.valid_ms() > 0) == (hold.valid() > 0) == (state in (HELD, CLOSED))
    assert "@" in hold.token and hold.holder and state in repr(hold)
    assert hold.fence is hold.term is hold.slot is None
    if state != HELD:
        await asyncio.wait_for(settled(hold.wait_lost()), lab.STATE_SECONDS)
    for method, hold in holds.items():  # what the call did: it is given up, whatever was raised
        if method in ("release", "disown", "with") and state != CLOSED:
            assert isinstance(await use(hold, "extend"), rq.NotHeld)


@pytest.mark.parametrize("state", STATES)
def test_a_hold_of_threads(quorum, state):
    with rq.Client(quorum.uris, PATIENT) as client:
        asyncio.run(check_state(client, client.close, state))


@pytest.mark.parametrize("state", STATES)
def test_a_hold_of_asyncio(quorum, state):
    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT) as client:
            await check_state(client, client.aclose, state)
    asyncio.run(main())


def test_each_method_of_a_hold_is_in_the_table():
    queries = {"lost", "why_lost", "wait_lost", "valid_ms", "valid", "token", "holder", "fence",
               "term", "slot", "explain"}
    for kind in (rq.Hold, rq.AsyncHold):
        methods = {name for name in vars(kind) if not name.startswith("_")}
        assert methods - queries == set(RAISES) - {"with"}

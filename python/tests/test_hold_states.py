"""Each method of a hold, in each state that a hold can be in, for threads and for asyncio."""
import asyncio

import lab
from conftest import enter, leave, of_both, settled

import redlock_quorum as rq

# Of those that are lost: the code, how the lock is made, and what else is done.
LOSSES = {
    "expired": ("EXPIRED", {"ttl": 1, "options": rq.LockOptions(watchdog=False)}),
    "max_hold": ("MAX_HOLD", {"ttl": 1, "options": rq.LockOptions(max_hold=1)}),
    "gone": ("GONE", {"ttl": 60}),
    "taken": ("TAKEN", {"ttl": 60}),
    "closed": ("CLOSED", {"ttl": 60}),
}
HELD, RELEASED, DISOWNED = "held", "released", "disowned"
METHODS = {
    "check": lambda lock, hold: hold.check(),
    "extend": lambda lock, hold: hold.extend(),
    "downgrade": lambda lock, hold: hold.downgrade(),
    "release": lambda lock, hold: hold.release(),
    "disown": lambda lock, hold: hold.disown(),
    "with": lambda lock, hold: use(hold),
    "release by the lock": lambda lock, hold: lock.release(),
}


async def use(hold):
    await settled(enter(hold))
    assert not hold.lost, "the body runs without the lock"
    await settled(leave(hold))


async def raised(call, lock, hold):
    """What it raises; None: nothing."""
    try:
        await settled(call(lock, hold))
    except rq.RedlockError as why:
        return why


async def bring(hold, state, quorum):
    if state in ("gone", "taken"):
        key = hold.keys[0].decode()
        for server in quorum.servers:
            server.call("DEL", key)
            if state == "taken":
                server.call("SET", key, "another", "PX", 60000)
        assert isinstance(await raised(METHODS["extend"], None, hold), rq.Lost)
    if state in LOSSES:
        await settled(hold.wait_lost())
        lab.wait_for(lambda: hold.why_lost, "the reason, from the client's thread")
    elif state == RELEASED:
        await settled(hold.release())
    elif state == DISOWNED:
        assert await settled(hold.disown()) == hold.token


@of_both(HELD, RELEASED, DISOWNED, *LOSSES)
async def test_a_hold(client, close, quorum, state):
    code, more = LOSSES.get(state, (None, {"ttl": 60}))
    # One hold for each method, and one for the queries.
    locks = {method: client.lock(method, **more) for method in [*METHODS, "queries"]}
    holds = {method: await settled(lock.acquire()) for method, lock in locks.items()}
    if state == "closed":
        await settled(close())
    for hold in holds.values():
        await bring(hold, state, quorum)
    for method, call in METHODS.items():
        why = await raised(call, locks[method], holds[method])
        if state == HELD:
            assert why is None, method
        elif state in LOSSES:
            assert (type(why), why.code) == (rq.Lost, code), method
            assert {node.uri for node in why.nodes} == (
                set() if state == "closed" else set(quorum.uris)), method
        else:
            assert type(why) is rq.NotHeld and why.reason in (
                "NONE" if "lock" in method else "RELEASED", "DISOWNED"), why
    hold = holds["queries"]
    assert hold.lost == (state != HELD)
    assert (hold.why_lost and hold.why_lost.code) == code
    assert (hold.valid_ms() > 0) == (hold.valid() > 0) == (state in (HELD, "closed"))
    assert "@" in hold.token and hold.holder and "queries" in repr(hold)
    assert hold.fence is hold.term is hold.slot is None
    if state != HELD:
        await asyncio.wait_for(settled(hold.wait_lost()), lab.STATE_SECONDS)
    for method, hold in holds.items():  # what the call did: it is given up, whatever was raised
        if state != "closed" and any(word in method for word in ("release", "disown", "with")):
            assert isinstance(await raised(METHODS["extend"], None, hold), rq.NotHeld)


def test_each_method_of_a_hold_is_in_the_table():
    queries = {"lost", "why_lost", "wait_lost", "valid_ms", "valid", "token", "holder", "fence",
               "term", "slot", "explain"}
    for kind in (rq.Hold, rq.AsyncHold):
        methods = {name for name in dir(kind) if not name.startswith("_")}
        assert methods - queries == set(METHODS) - {"with", "release by the lock"}

"""Why a lock was lost: the nodes that failed are told, not those of the last success."""
import asyncio
import gc

import lab
import pytest
import redlock_quorum
from conftest import of_both, settled

TTL = 3.0


def expect_dead(why, faults):
    """Of five nodes the first three failed, with one of these faults."""
    assert why.code == "EXPIRED"
    assert why.reason == ("SILENT" if "timeout" in faults else "NOT_CONNECTED")
    assert len(why.nodes) == 5
    for node in why.nodes[:3]:
        assert node.fault in faults and node.verdict != "granted", str(node)
        if node.fault == "connect":
            assert node.text.startswith("cannot connect: "), node.text
    assert "granted" in {node.verdict for node in why.nodes[3:]}


def kill(quorum):
    quorum.kill(0, 1, 2)


def stop(quorum):
    for server in quorum.servers[:3]:
        server.stop()


@pytest.fixture
def nodes(quorum):
    yield quorum
    for server in quorum.servers[:3]:
        if server.is_running():
            server.go_on()


WAYS = pytest.mark.parametrize("fail, faults", [(kill, {"connect"}), (stop, {"timeout"})])


@pytest.fixture
def options():
    return redlock_quorum.Options(node_timeout=0.5)


@WAYS
def test_threads(nodes, options, fail, faults):
    seen = []
    with redlock_quorum.Client(nodes.uris, options) as client:
        hold = client.lock("job", TTL, on_lost=lambda hold, why: seen.append(why)).acquire()
        fail(nodes)
        assert hold.wait_lost(lab.STATE_SECONDS)
        expect_dead(hold.why_lost, faults)
        lab.wait_for(lambda: seen, "on_lost")
        assert seen == [hold.why_lost]
        assert hold.explain() == hold.why_lost.nodes
        assert "\n" not in str(hold.why_lost)
        assert "3 of 5 nodes failed: " + nodes.uris[0] in str(hold.why_lost)
        with pytest.raises(redlock_quorum.Lost):
            hold.release()
    del hold
    gc.collect()


@of_both()
async def test_the_reason_is_known_before_the_loss(client, close, quorum):
    """Who is told of the loss looks at the reason."""
    hold, seen = await settled(client.lock("k", ttl=60).acquire()), []
    patched = pytest.MonkeyPatch()
    if isinstance(hold, redlock_quorum.Hold):
        tell = hold._loss.event.set
        hold._loss.event.set = lambda: (seen.append(hold.why_lost), tell())
    else:
        call = redlock_quorum._async_lease.call_in

        def call_in(loop, function, *arguments):
            if function == hold._set_lost:
                seen.append(hold.why_lost)
            return call(loop, function, *arguments)
        patched.setattr("redlock_quorum._async_lease.call_in", call_in)
    for server in quorum.servers:
        server.call("DEL", "k")
    with pytest.raises(redlock_quorum.Lost):
        await settled(hold.extend())
    await settled(hold.wait_lost())
    patched.undo()
    lab.wait_for(lambda: seen, "the loss")
    assert seen[0] is not None and seen[0].code == "GONE"


@of_both("lock", "shared", "lock_many", "slots", "margin")
async def test_another_acquire_after_a_loss(client, close, quorum, kind):
    """What an extension stored again after the loss does not exclude it for a whole TTL."""
    more = {"ttl": 60}
    if kind == "margin":
        more = {"ttl": 3600, "options": redlock_quorum.LockOptions(margin=600)}
    lock = {"shared": lambda: client.shared("k", **more),
            "lock_many": lambda: client.lock_many(["k", "l"], **more),
            "slots": lambda: client.slots("k", 1, **more)}.get(
                kind, lambda: client.lock("k", **more))()
    hold = await settled(lock.acquire())
    for server in quorum.servers:
        server.call("FLUSHALL")
    with pytest.raises(redlock_quorum.Lost):
        await settled(hold.extend())
    await settled(hold.wait_lost())
    lab.wait_for(lambda: hold.why_lost and quorum.keys() >= 5, "that it is stored again")
    # Of another kind: it excludes readers, too.
    again = client.slots("k", 1) if kind == "slots" else client.lock("k", ttl=60)
    if kind == "margin":  # the owner may still be at work
        assert await settled(again.acquire(blocking=False)) is None
    else:
        assert await settled((await settled(again.acquire(timeout=20))).release()) is None
    for call in hold.extend, hold.disown:  # the owner knows what has become of it
        with pytest.raises(redlock_quorum.Lost) as lost:
            await settled(call())
        assert lost.value.code == "GONE"
    with pytest.raises(redlock_quorum.NotHeld):
        await settled(hold.release())


@WAYS
def test_asyncio(nodes, options, fail, faults):
    async def main():
        async with redlock_quorum.AsyncClient(nodes.uris, options) as client:
            hold = await client.lock("job", TTL).acquire()
            fail(nodes)
            await asyncio.wait_for(hold.wait_lost(), lab.STATE_SECONDS)
            expect_dead(hold.why_lost, faults)
    asyncio.run(main())

"""What Client and AsyncClient have in common besides their locks."""
import lab
import pytest
from conftest import enter, leave, of_both, settled

import redlock_quorum as rq


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

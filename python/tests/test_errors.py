"""The errors of both clients: their classes, and the nodes that they name."""
import contextlib
import pickle
import re

import pytest
from conftest import enter, of_both, settled

import redlock_quorum as rq
from redlock_quorum import _errors, _native, _once


@contextlib.contextmanager
def denying(quorum):
    """The nodes refuse the commands of locks meanwhile."""
    def call(*words):
        for server in quorum.servers:
            server.call("ACL", "SETUSER", "default", *words)
    call("-set", "-eval", "-evalsha")
    try:
        yield
    finally:
        call("+@all")


class NoTime:
    """The library, if too few nodes have told the time."""

    def redlock_client_nodes_time(self, _client):
        return _native.lib.REDLOCK_UNKNOWN

    def __getattr__(self, name):
        return getattr(_native.lib, name)


def test_the_class_of_a_code():
    taken, late, busy = [_errors.make_error(code) for code in (
        _native.lib.REDLOCK_TAKEN, _native.lib.REDLOCK_TIMEOUT, _native.lib.REDLOCK_BUSY)]
    assert [type(each) for each in (taken, late, busy)] == [rq.Taken, rq.WaitTimeout, rq.InUse]
    assert isinstance(late, TimeoutError) and isinstance(late, rq.Taken)
    assert not isinstance(taken, TimeoutError) and not isinstance(busy, rq.NotAcquired)
    assert not hasattr(rq, "Busy")  # old code that names it must fail, not catch another error
    copied = pickle.loads(pickle.dumps(late))
    for each in late, copied:  # an OSError would make of two arguments an errno and a text
        assert (each.errno, each.code, str(each)) == (None, "TIMEOUT", f"TIMEOUT: {each.text}")


async def listed(client):
    """list() of either client."""
    if isinstance(client, rq.Client):
        return list(client.list())
    return [each async for each in client.list()]


def one_line(error, quorum, names):
    """The nodes that failed stand together, once; the outcome was clear without the last ones."""
    text = str(error)
    assert "\n" not in text
    failed = [node for node in error.nodes if node.fault]
    if names and failed:
        count = re.search(rf"(\d) of {len(quorum.uris)} nodes failed: ", text)
        assert count and 3 <= int(count[1]) <= len(failed), text
        assert sum(text.count(node.uri) for node in failed) == int(count[1]), text
        groups = text.partition(" nodes failed: ")[2].split("; ")
        for reason in {node.text for node in failed}:
            assert sum(group.endswith(f": {reason}") for group in groups) <= 1, text


@of_both()
async def test_each_error_names_the_nodes(client, close, quorum):
    async def fails(kind, code, value):
        try:
            await settled(value() if callable(value) else value)
        except rq.RedlockError as error:
            assert (type(error), error.code) == (kind, code), error
            assert {node.uri for node in error.nodes} == set(quorum.uris), error
            one_line(error, quorum, code not in ("TAKEN", "TIMEOUT", "GONE"))
        else:
            raise AssertionError(f"it does not raise {kind}")
    with rq.Client(quorum.uris, rq.Options(node_timeout=5, label="other")) as other:
        taken = other.lock("taken", ttl=60).acquire()
        writer, kept, late = [await settled(client.lock(key, ttl=60).acquire())
                              for key in ("writer", "kept", "late")]
        await fails(rq.Taken, "TAKEN", lambda: enter(client.lock("taken", timeout=0)))
        await fails(rq.WaitTimeout, "TIMEOUT", lambda: enter(client.lock("taken", timeout=0.05)))
        await fails(rq.Taken, "TAKEN", lambda: client.adopt("taken", kept.token))
        await fails(rq.Lost, "GONE", lambda: client.adopt("nobody", taken.token))
        taken.release()
    with denying(quorum):
        await fails(rq.Denied, "DENIED", lambda: client.lock("k").acquire())
        await fails(rq.Denied, "DENIED", kept.extend)
        await fails(rq.Denied, "DENIED", lambda: client.adopt("nobody", kept.token))
    await settled(kept.extend())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_once, "lib", NoTime())
        await fails(rq.NoQuorum, "NO_QUORUM", lambda: client.once_per("k", 60))
    quorum.kill(0, 1, 2)
    await fails(rq.NoQuorum, "NO_QUORUM", lambda: client.lock("k").acquire(blocking=False))
    await fails(rq.NoQuorum, "NO_QUORUM", kept.extend)
    await fails(rq.NoQuorum, "NO_QUORUM", writer.downgrade)
    await fails(rq.NoQuorum, "NO_QUORUM", lambda: client.adopt("nobody", kept.token))
    await fails(rq.NoQuorum, "NO_QUORUM", lambda: client.inspect("k"))
    await fails(rq.NoQuorum, "NO_QUORUM", lambda: listed(client))
    await fails(rq.Unconfirmed, "UNCONFIRMED", kept.release)

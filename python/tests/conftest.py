"""Five private servers, and clients of them. What is held and not released ends with a test."""
import asyncio
import os
import pathlib
import sys
import tempfile
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test/cli")]
COMMAND = os.environ["REDLOCK_COMMAND"]
_arguments, sys.argv = sys.argv, ["lab", COMMAND]
import lab  # noqa: E402
sys.argv = _arguments
import redlock_quorum  # noqa: E402

# A server of a busy machine is not taken for one that hangs.
PATIENT = redlock_quorum.Options(node_timeout=5)


def threads_of_python():
    """Their number. A record of `logging` that is made in a thread of C leaves Python's note of
    that thread behind when it ends."""
    return sum(not isinstance(each, threading._DummyThread) for each in threading.enumerate())


async def settled(value):
    """The result of a call of either client."""
    return await value if asyncio.iscoroutine(value) else value


def enter(lock):
    """Begins a `with` of either client."""
    return lock.__aenter__() if hasattr(lock, "__aenter__") else lock.__enter__()


def leave(lock):
    return (lock.__aexit__ if hasattr(lock, "__aexit__") else lock.__exit__)(None, None, None)


def of_both(*states):
    """Two tests by a coroutine function of (client, close, quorum), and of a state if there are
    any: with a Client, and with an AsyncClient."""
    def decorate(check):
        @pytest.mark.parametrize("state", states or [None])
        @pytest.mark.parametrize("kind", [redlock_quorum.Client, redlock_quorum.AsyncClient])
        def run(quorum, kind, state):
            more = [state] if state else []

            async def main():
                if kind is redlock_quorum.Client:
                    with kind(quorum.uris, PATIENT) as client:
                        await check(client, client.close, quorum, *more)
                else:
                    async with kind(quorum.uris, PATIENT) as client:
                        await check(client, client.aclose, quorum, *more)
            asyncio.run(main())
        return run
    return decorate


@pytest.fixture(scope="session")
def servers():
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        try:
            with lab.Quorum(5) as quorum:
                yield quorum
        finally:
            lab.kill_what_is_left()


@pytest.fixture
def quorum(servers):
    servers.reset()
    return servers


@pytest.fixture
def admitted(quorum):
    """The same as a deployment of fenced locks."""
    lab.redlock("admit", "--new", "--at-once", *lab.PATIENT, env=lab.on(quorum)).expect(0)
    return quorum


@pytest.fixture
def client(quorum):
    with redlock_quorum.Client(quorum.uris, PATIENT) as made:
        yield made


@pytest.fixture
def other(quorum):
    with redlock_quorum.Client(quorum.uris, redlock_quorum.Options(
            node_timeout=5, label="other")) as made:
        yield made

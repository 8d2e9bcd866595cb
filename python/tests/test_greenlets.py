"""gevent and eventlet: refused where they have patched the process."""
import importlib.util
import sys
import types

import pytest
from conftest import PATIENT
from test_threads import run_program

import redlock_quorum as rq

needs_gevent = pytest.mark.skipif(not importlib.util.find_spec("gevent"),
                                  reason="gevent is not installed")


@pytest.mark.parametrize("module, patched", [
    ("gevent.monkey", "saved"), ("eventlet.patcher", "already_patched")])
def test_a_patched_process(quorum, monkeypatch, module, patched):
    with rq.Client(quorum.uris, PATIENT) as client:
        for is_patched in ({}, {"thread": True}):
            monkeypatch.setitem(sys.modules, module,
                                types.SimpleNamespace(**{patched: is_patched}))
            for call in (lambda: rq.Client(quorum.uris).close(),
                         lambda: rq.AsyncClient(quorum.uris).close(),
                         lambda: client.lock("k").acquire().release()):
                if is_patched:
                    with pytest.raises(rq.Unsupported, match=module.partition(".")[0]):
                        call()
                else:
                    call()


PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent, sys, redlock_quorum as rq
def work():
    with client.lock("k"):
        gevent.sleep(0.01)
try:
    client = rq.Client(sys.argv[1:], rq.Options(node_timeout=5))
    gevent.joinall([gevent.spawn(work) for _ in range(2)])
except rq.Unsupported:
    print("refused")
"""

POOL = """
import gevent, sys, redlock_quorum as rq
client = rq.Client(sys.argv[1:], rq.Options(node_timeout=5))
def work():
    with client.lock("k") as hold:
        hold.check()
    return 1
pool = gevent.get_hub().threadpool
print(sum(each.get() for each in [gevent.spawn(pool.apply, work) for _ in range(4)]))
client.close()
"""


@needs_gevent
@pytest.mark.parametrize("program, shown", [(PATCHED, "refused\n"), (POOL, "4\n")],
                         ids=["patched", "pool"])
def test_gevent(quorum, program, shown):
    assert run_program(program, quorum) == shown

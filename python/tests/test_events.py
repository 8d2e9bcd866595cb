"""Events are records of the logger `redlock_quorum`, and no handler can stop a client."""
import asyncio
import contextlib
import gc
import logging
import threading

import lab
import pytest
from conftest import PATIENT
from test_threads import in_thread, run_program

import redlock_quorum as rq
from redlock_quorum import _events, _later

LOG = logging.getLogger("redlock_quorum")


class Book(logging.Handler):
    """The records of events by their names; `emits` is called with each."""

    def __init__(self, emits=lambda record: None):
        super().__init__()
        self.emits = emits
        self.records = []

    def emit(self, record):
        self.records.append(record)
        self.emits(record)

    def of(self, event):
        return [each for each in self.records if getattr(each, "redlock_event", "") == event]

    def nodes_of(self, event):  # a node may connect again
        return {each.redlock_fields["uri"] for each in self.of(event)}


@contextlib.contextmanager
def logging_to(book, level=logging.INFO):
    before = LOG.level
    LOG.setLevel(level)
    LOG.addHandler(book)
    try:
        yield book
    finally:
        LOG.removeHandler(book)
        LOG.setLevel(before)


def lose_by_threads(quorum, options):
    with rq.Client(quorum.uris, options) as client:
        hold = client.lock("a\nb", ttl=3).acquire()
        quorum.kill(0, 1, 2)
        assert hold.wait_lost(lab.STATE_SECONDS)


def lose_by_tasks(quorum, options):
    async def main():
        async with rq.AsyncClient(quorum.uris, options) as client:
            hold = await client.lock("a\nb", ttl=3).acquire()
            quorum.kill(0, 1, 2)
            await asyncio.wait_for(hold.wait_lost(), lab.STATE_SECONDS)
    asyncio.run(main())


def test_many_losses_at_once(quorum):
    """The first of each event are records of their own, the others one, or a few if it is slow."""
    count = 500

    async def main():
        async with rq.AsyncClient(quorum.uris, rq.Options(node_timeout=0.5)) as client:
            holds = [await client.lock(f"k{at}", ttl=3).acquire() for at in range(count)]
            quorum.kill(0, 1, 2)
            for hold in holds:
                await asyncio.wait_for(hold.wait_lost(), lab.STATE_SECONDS)
                with contextlib.suppress(rq.Lost, rq.Unconfirmed):
                    await hold.release()

    def losses():
        return sum(each.redlock_fields.get("count", 1) for each in book.of("lock_lost"))
    with logging_to(Book(), logging.WARNING) as book:
        asyncio.run(main())
        lab.wait_for(lambda: losses() == count, "all losses")
        _events.flush()
    keys = [key for each in book.of("lock_lost")
            for key in each.redlock_fields.get("keys", [each.redlock_fields.get("key")])]
    assert sorted(keys) == sorted(f"k{at}" for at in range(count))
    assert sum("keys" not in each.redlock_fields for each in book.of("lock_lost")) <= 2 * _events._ALIKE
    assert len(book.records) < count / 4, len(book.records)
    some = next(each for each in book.of("lock_lost") if "keys" in each.redlock_fields)
    assert some.levelno == logging.ERROR
    assert some.getMessage().startswith("lock_lost: of ") and "code='EXPIRED'" in some.getMessage()


@pytest.mark.parametrize("lose", [lose_by_threads, lose_by_tasks])
def test_a_loss(quorum, lose):
    with logging_to(Book()) as book:
        lose(quorum, rq.Options(node_timeout=0.5))
        lab.wait_for(lambda: book.of("lock_lost"), "lock_lost")
    [lost] = book.of("lock_lost")
    assert (lost.levelno, lost.name) == (logging.ERROR, "redlock_quorum")
    assert lost.redlock_fields["key"] == "a\nb"
    assert lost.redlock_fields["code"] == "EXPIRED" and lost.redlock_fields["valid_us"] == 0
    assert lost.getMessage().startswith("lock_lost: lease=") and "key='a\\nb'" in lost.getMessage()
    assert {each.levelno for each in book.of("node_disconnected")} == {logging.WARNING}
    assert {each.levelno for each in book.of("node_connected")} == {logging.INFO}
    assert quorum.uris[0] in book.nodes_of("node_connected")


def test_levels(quorum):
    with logging_to(Book(), logging.ERROR) as book:
        lose_by_threads(quorum, rq.Options(node_timeout=0.5))
        lab.wait_for(lambda: book.of("lock_lost"), "lock_lost")
    assert {each.levelno for each in book.records} == {logging.ERROR}


def test_no_secrets(quorum):
    options = rq.Options(node_timeout=5, username="somebody", password="s3cret")
    with logging_to(Book()) as book, rq.Client(quorum.uris, options) as client:
        with pytest.raises(rq.Denied):
            client.lock("k").acquire(timeout=0)
        lab.wait_for(lambda: len(book.nodes_of("node_refused")) == 5, "node_refused")
    assert book.of("node_refused")[0].redlock_fields["fault"] == "wrongpass"
    assert "s3cret" not in str([vars(each) for each in book.records])


def test_a_handler_that_hangs(quorum):
    """The client works on, and what waits for the handler is limited."""
    hangs, go_on = threading.Event(), threading.Event()

    def hang(_record):
        hangs.set()
        go_on.wait()
    try:
        with logging_to(Book(hang)), rq.Client(quorum.uris, PATIENT) as client:
            assert hangs.wait(lab.STATE_SECONDS)
            for _ in range(1100):
                _events.log_later(logging.INFO, "one more")
            assert 900 < _later.records.queue.qsize() <= 1000
            with client.lock("k") as hold:
                hold.extend()
    finally:
        go_on.set()


def test_a_handler_that_hangs_keeps_nothing(quorum, client, other):
    """Not the client's thread, whatever it has to report, and not what is forgotten."""
    def hang(_record):
        hangs.append(threading.current_thread())
        go_on.wait()

    def fail(*_):
        raise ZeroDivisionError

    async def fails_in_a_job():
        async with rq.AsyncClient(quorum.uris, PATIENT) as tasks:
            tasks._engine.post(fail)
            await tasks.explain()  # a job after that one

    def work():
        with rq.Client(quorum.uris, PATIENT, on_span=fail) as tracing:
            tracing.lock("a").acquire().release()
        hold = client.lock("b", on_lost=fail).acquire()
        client.break_lock("b")
        with pytest.raises(rq.Lost):
            hold.extend()
        asyncio.run(fails_in_a_job())
        for _ in range(2):  # the second one behind the warning of the first one
            client.lock("k", ttl=3).acquire()
            gc.collect()
            other.lock("k").acquire(timeout=60).release()
        assert len(hangs) == 1
    hangs, go_on = [], threading.Event()
    try:
        with logging_to(Book(hang), logging.ERROR):
            in_thread(work)()
    finally:
        go_on.set()


def test_a_handler_that_raises(quorum, capsys):
    def fail(record):
        raise ValueError("of a handler")
    with logging_to(Book(fail)) as book, rq.Client(quorum.uris, PATIENT) as client:
        client.lock("k").acquire().release()
        lab.wait_for(lambda: len(book.nodes_of("node_connected")) == 5, "all events")
    lab.wait_for(lambda: "of a handler" in capsys.readouterr().err, "what it raised")


FORKED = """
import contextlib, logging, os, sys, warnings, redlock_quorum as rq
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of a fork beside threads
class Unbuffered(logging.Handler):  # a fork beside a write would keep a buffer locked
    def emit(self, record):
        os.write(1, record.redlock_event.encode() + b"\\n")
logging.basicConfig(level="INFO", handlers=[Unbuffered()])
client = rq.Client(sys.argv[1:], rq.Options(node_timeout=5))
held = client.lock("k").acquire()
child = os.fork()
if child == 0:
    with rq.Client(sys.argv[1:], rq.Options(node_timeout=5)) as client:
        with contextlib.suppress(rq.Taken):
            client.lock("k").acquire(timeout=0)
    sys.exit()  # what waits is written
os.waitpid(child, 0)
"""


def test_a_fork_and_the_end(quorum):
    """A new client in the child logs; what waits at the end of the process is written."""
    shown = run_program(FORKED, quorum).split()
    assert shown.count("node_connected") >= 6  # of each a majority at least


UNCONFIGURED = """
import logging, sys, redlock_quorum as rq
if len(sys.argv) == 3:
    logging.getLogger("redlock_quorum").addHandler(logging.NullHandler())
sys.stderr = sys.stdout  # where `logging` writes then is settled with each record
with rq.Client(sys.argv[1], rq.Options(node_timeout=5)) as client:
    hold = client.lock("k", ttl=1).acquire()  # it is not released
    client.break_lock("k")
    try:
        hold.extend()
    except rq.Lost:
        print("lost")
"""


def test_a_program_that_does_not_configure_logging(quorum):
    """It sees warnings and errors; a NullHandler silences them."""
    class Nodes:
        uris = [",".join(quorum.uris)]
    shown = run_program(UNCONFIGURED, Nodes)
    assert "lock_lost: lease=1, key='k'" in shown and "node_connected" not in shown
    Nodes.uris.append("silent")
    assert run_program(UNCONFIGURED, Nodes) == "lost\n"


def test_an_end_without_a_client(monkeypatch):
    """Gives nothing to a thread that nobody has started, and so does not wait for it."""
    for each in "records", "forgotten":
        monkeypatch.setattr(_later, each, _later.Later("none", None))
    _events.flush()
    assert _later.records.queue.empty() and _later.forgotten.queue.empty()


def test_no_events_of_the_second_client(quorum):
    with logging_to(Book()) as book, rq.Client(quorum.uris, PATIENT) as client:
        client.inspect("k")
        lab.wait_for(lambda: len(book.nodes_of("node_connected")) == 5, "all events")
        client.close()
        _events.flush()
        # The second client would add a majority at least; a node may connect again.
        assert len(book.of("node_connected")) < 8

"""Client: locks for threads."""
import datetime
import os
import signal
import subprocess
import sys
import threading
import time

import lab
import pytest

import redlock_quorum as rq


def in_thread(function):
    found = []

    def run():
        try:
            found.append(function())
        except BaseException as why:
            found.append(why)
    thread = threading.Thread(target=run, daemon=True)  # one that hangs fails its test only
    thread.start()

    def result():
        thread.join(lab.STATE_SECONDS)
        assert found, "the thread does not end"
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]
    return result


def test_a_lock_is_held_and_released(client, quorum):
    with client.lock("k", ttl=datetime.timedelta(seconds=30)) as hold:
        assert not hold.lost
        assert 0 < hold.valid_ms() <= 30000
        lab.wait_for(lambda: set(quorum.values("k")) == {hold.token}, "its token on all nodes")
        assert hold.holder.endswith(f":{os.getpid()}")
        assert hold.fence is None
        assert {reply.verdict for reply in hold.explain()} <= {"granted", "waiting"}
        hold.extend(60)
        assert hold.valid() > 30
        hold.check()
    lab.wait_for(lambda: quorum.keys() == 0, "no key")
    assert hold.lost and hold.valid_ms() == 0
    with pytest.raises(rq.NotHeld):
        hold.check()
    with pytest.raises(rq.NotHeld):
        hold.release()


def test_another_owner(client, other):
    with other.lock("k") as hold:
        assert client.lock("k").acquire(blocking=False) is None
        assert client.lock("k").acquire(timeout=0) is None
        assert client.lock("k").acquire(timeout=0.05) is None
        with pytest.raises(rq.Taken) as refused, client.lock("k", timeout=0):
            pytest.fail("the body runs without the lock")
        with pytest.raises(rq.WaitTimeout) as late, client.lock("k", timeout=0.05):
            pytest.fail("the body runs without the lock")
        assert refused.value.code == "TAKEN"
        for error in (refused.value, late.value):
            assert error.holder == "other"
            assert 0 < error.remaining <= 30
            assert sum(node.holder == "other" for node in error.nodes) >= 3
            assert "\n" not in str(error) and "other has the lock" in str(error)
        waiter = in_thread(lambda: client.lock("k").acquire(timeout=60))
        lab.wait_for(lambda: other.inspect("k").waiting, "a waiter")
        seen = other.inspect("k")
        assert abs(time.time() - seen.since) < 120 and 0 <= seen.waited < 60
        hold.release()
    waiter().release()
    assert client.inspect("k").since is None and client.inspect("k").waited is None


def test_threads_take_turns(client):
    count = 0

    def work():
        nonlocal count
        for _ in range(10):
            with lock:
                before = count
                threading.Event().wait(0.0005)
                count = before + 1
    lock = client.lock("k")
    results = [in_thread(work) for _ in range(4)]
    for result in results:
        result()
    assert count == 40


def test_release_by_the_lock(client):
    lock = client.lock("k")
    lock.acquire()
    lock.release()
    with pytest.raises(rq.NotHeld):
        lock.release()


def test_recursive(client, other):
    with client.lock("k", recursive=True) as outer:
        with client.lock("k", recursive=True) as inner:
            assert inner is outer
        assert not outer.lost
        assert other.lock("k").acquire(blocking=False) is None
        with client.lock("k", recursive=True) as inner:
            inner.release()
        assert not outer.lost  # the end of the inner `with` does not release the outer one
    other.lock("k").acquire(timeout=5).release()


def test_released_in_the_body(client):
    lock = client.lock("k")
    with lock as hold:
        hold.release()
    assert hold.release_error is None
    with client.slots("s", 2) as outer:
        with client.slots("s", 2) as inner:
            inner.release()
        assert not outer.lost


def test_a_hold_in_a_with(client, other):
    with client.lock("k").acquire(timeout=5) as hold:
        assert other.lock("k").acquire(blocking=False) is None
    assert hold.lost and hold.release_error is None
    with other.lock("k").acquire(timeout=5) as hold:
        hold.release()
    recursive = client.lock("k", recursive=True)
    with recursive.acquire(timeout=5) as outer:
        with recursive.acquire() as inner:
            assert inner is outer
        with recursive.acquire() as inner:
            inner.release()
        assert not outer.lost
    with pytest.raises(ZeroDivisionError):
        with other.lock("k").acquire(timeout=5) as hold:
            raise ZeroDivisionError
    assert hold.lost


def test_a_with_ends_in_another_thread(client, quorum, caplog):
    lock = client.slots("s", 3)
    go_on = threading.Event()

    def enter(waits):
        entered.append(lock.__enter__())
        if waits:
            assert go_on.wait(lab.STATE_SECONDS)

    def leave(error=None):
        lock.__exit__(type(error), error, None)

    def enters(waits, count=1):
        threads.append(in_thread(lambda: enter(waits)))
        lab.wait_for(lambda: len(entered) == count, "a hold")
        if not waits:
            threads.pop()()
    entered, threads = [], []
    enters(waits=False)
    leave()  # its thread has ended
    assert entered.pop().lost
    enters(waits=True)
    leave()  # it is the only one
    assert entered.pop().lost
    enters(waits=True)
    enters(waits=True, count=2)
    with pytest.raises(rq.NotHeld):
        leave()
    body = ZeroDivisionError()
    leave(body)
    assert "NOT_HELD" in body.__notes__[0] and "NOT_HELD" in caplog.text
    with lock as mine:
        pass
    assert mine.lost
    assert not any(hold.lost for hold in entered)
    enters(waits=False, count=3)
    leave()  # that of the thread that has ended
    assert [hold.lost for hold in entered] == [False, False, True]
    go_on.set()
    for thread in threads:
        thread()
    leave()
    leave()
    lab.wait_for(lambda: quorum.keys() == 0, "no key")


def test_release_by_the_lock_in_another_thread(client):
    lock = client.lock("k")
    in_thread(lock.acquire)()
    lock.release()  # its thread has ended
    lock.acquire()
    with pytest.raises(rq.NotHeld):
        in_thread(lock.release)()
    lock.release()


def test_shared_and_many_and_slots_and_redisson(client, other, quorum):
    with client.shared("s"), other.shared("s"):
        assert client.lock("s").acquire(blocking=False) is None
    with client.lock("s") as writer:
        writer.downgrade()
        other.shared("s").acquire(timeout=5).release()
    with client.lock_many(["a", b"b"]):
        assert other.lock("b").acquire(blocking=False) is None
    with client.slots("n", 2) as one, client.slots("n", 2) as two:
        assert {one.slot, two.slot} == {1, 2}
        assert other.inspect("n!1").kind == "slot"
        assert other.inspect("n").kind == ""
        assert other.slots("n", 2).acquire(blocking=False) is None
    with client.lock("r", redisson=True):
        lab.wait_for(lambda: quorum[0].call("TYPE", "r") == "hash", "a hash")
        assert other.lock("r").acquire(blocking=False) is None


def test_fences_rise(admitted, client, other):
    with client.lock("k", fenced=True) as hold:
        first = hold.fence
    with other.lock("k", fenced=True) as hold:
        assert hold.fence > first > 0


def test_an_election(admitted, client, other):
    with client.observe("e") as observer:
        assert observer.next(60).term is None
        with other.election("e") as lead:
            seen = observer.next(60)
            assert (seen.id, seen.term) == ("other", lead.term)
        assert observer.next(60).term is None


def test_an_observer_that_is_closed(admitted, client):
    observer = client.observe("e")
    assert observer.next(60).term is None
    waiting = [in_thread(lambda: observer.next(2 * lab.STATE_SECONDS)),
               in_thread(lambda: list(observer))]
    observer.close()
    assert [each() for each in waiting] == [None, []]
    assert in_thread(observer.next)() is None
    assert in_thread(lambda: list(observer))() == []


def test_waits_of_a_thousand_years(admitted, client):
    """More than a wait of Python takes."""
    years = 1000 * 366 * 86400
    hold, observer = client.lock("h").acquire(timeout=years), client.observe("e")
    lost = in_thread(lambda: hold.wait_lost(years))
    assert observer.next(years).term is None
    change = in_thread(lambda: observer.next(years))
    _, second = fly(client, lambda hold: 1, 1, timeout=years)
    assert second() == 1
    observer.close()
    hold.release()
    assert lost() and change() is None


def test_adopt_and_disown(client, other):
    token = client.lock("k").acquire().disown()
    hold = other.adopt("k", token, valid=10)
    assert hold.token == token
    hold.release()
    with pytest.raises(rq.Lost):
        other.adopt("k", token)


@pytest.mark.parametrize("make, code", [
    (lambda client: client.lock("").acquire(), "BAD_KEY"),
    (lambda client: client.lock("k" * 600).acquire(), "BAD_KEY"),
    (lambda client: client.lock("k", ttl=0).acquire(), "BAD_TTL"),
    (lambda client: client.lock("k", ttl=-5).acquire(), "BAD_TTL"),
    (lambda client: client.lock("k", ttl=10 ** 6).acquire(), "BAD_TTL"),
    (lambda client: client.lock("k").acquire(timeout=-2), "BAD_OPTION"),
    (lambda client: client.lock("k").acquire(timeout=datetime.timedelta(seconds=-1)),
     "BAD_OPTION"),
    (lambda client: client.lock("k").acquire(timeout=-0.0001), "BAD_OPTION"),
    (lambda client: client.lock("k").acquire(blocking=False, timeout=1), "BAD_OPTION"),
    (lambda client: client.lock("k").acquire(False, 0), "BAD_OPTION"),
    (lambda client: client.lock("k", timeout=-0.5), "BAD_OPTION"),
    (lambda client: client.slots("k", 2, timeout=float("inf")), "BAD_OPTION"),
    (lambda client: client.lock("k", ttl=float("nan")).acquire(), "BAD_OPTION"),
    (lambda client: client.lock_many(["a", "a"]).acquire(), "BAD_KEY"),
    (lambda client: client.lock_many([]).acquire(), "BAD_KEY"),
    (lambda client: client.slots("k", 0).acquire(), "BAD_OPTION"),
    (lambda client: rq.Client([]), "BAD_NODES"),
    (lambda client: rq.Client(["nonsense"]), "BAD_URI"),
    (lambda client: rq.Client(["redis://a", "redis://a"]), "DUPLICATE_NODE"),
    (lambda client: rq.AsyncClient(["nonsense"]), "BAD_URI"),
])
def test_bad_input(client, make, code):
    with pytest.raises(rq.BadInput) as refused:
        make(client)
    assert refused.value.code == code
    assert isinstance(refused.value, ValueError)


def test_types(client):
    for wrong, text in (
            (lambda: client.lock(5), "a key is a str"),
            (lambda: client.lock("k", ttl="30"), "ttl is a number"),
            (lambda: client.lock("k").acquire(5), "a time is timeout=5"),
            (lambda: client.lock("k").acquire(timeout=None), "timeout is a number"),
            (lambda: client.lock_many("ab"), "several keys are a list"),
            (lambda: client.adopt("k", None), "a token is a str"),
            (lambda: client.lock("k", options={"max_hold": 5}), "options is a .*LockOptions"),
            (lambda: client.lock("k", options=rq.Options()), "options is a .*LockOptions"),
            (lambda: client.prometheus(job=3), "the label job is a str"),
            (lambda: rq.Client("redis://a", {"label": "w"}), "options is a redlock_quorum.Options"),
            (lambda: rq.Client("redis://a", {}), "options is a redlock_quorum.Options"),
            (lambda: rq.AsyncClient("redis://a", {"label": "w"}),
             "options is a redlock_quorum.Options"),
            (lambda: rq.Client("redis://a", rq.Options(label=5)), "label is a str")):
        with pytest.raises(TypeError, match=text):
            wrong()


@pytest.mark.parametrize("make, reason, text", [
    (lambda c: c.lock("k", ttl=90000), "OUT_OF_RANGE",
     "ttl is 90000 s, and must be at most 86400 s"),
    (lambda c: c.lock("k", ttl=0.002), "TTL_DRIFT",
     "ttl is 0.002 s, and must be at least 0.003 s: the allowance for clock drift takes all of "
     "the TTL"),
    (lambda c: c.lock("k", options=rq.LockOptions(margin=30)), "TTL_MARGIN",
     "ttl is 30 s, and must be at least 30.306 s: the margin takes all of the TTL"),
    (lambda c: c.lock("x!fence"), "RESERVED", "key ends in ! and small letters"),
    (lambda c: c.lock(""), "EMPTY", "key is empty")])
def test_a_bad_argument_is_named_as_in_python(client, make, reason, text):
    with pytest.raises(ValueError) as refused:
        make(client).acquire()
    assert refused.value.reason == reason
    assert refused.value.text.startswith(text), refused.value.text
    assert "_ms" not in refused.value.text


@pytest.mark.parametrize("ttl", [0, 0.0, 0.0004, datetime.timedelta(0)])
def test_a_ttl_of_nothing(client, ttl):
    hold = client.lock("k").acquire()
    for call in (lambda: client.lock("k", ttl=ttl), lambda: hold.extend(ttl)):
        with pytest.raises(rq.BadInput) as refused:
            call()
        assert refused.value.code == "BAD_TTL"
        assert f"ttl={ttl!r}" in str(refused.value)


def test_nodes_that_die(client, quorum):
    told = threading.Event()
    seen = []

    def on_lost(hold, why):
        seen.append((hold, why))
        told.set()
    hold = client.lock("k", ttl=3, on_lost=on_lost).acquire()
    quorum.kill(0, 1)
    hold.extend()
    assert not hold.lost
    quorum.kill(2)
    with pytest.raises(rq.NoQuorum) as refused:
        hold.extend()
    assert len(refused.value.nodes) == 5
    assert hold.wait_lost(lab.STATE_SECONDS)
    assert told.wait(lab.STATE_SECONDS)
    assert seen == [(hold, hold.why_lost)]
    assert hold.why_lost.code == "EXPIRED"
    with pytest.raises(rq.Lost):
        hold.release()
    with pytest.raises(rq.NoQuorum) as refused:
        client.lock("k").acquire(timeout=0)
    assert len(refused.value.nodes) == 5
    assert "sock: " in str(refused.value)


def test_why_it_was_lost_is_known_from_the_call_that_raises(client, quorum):
    """Also if the client's thread has not reported the loss yet."""
    hold = client.lock("k", ttl=60).acquire()
    report, hold._loss.report = hold._loss.report, lambda *_: None
    for server in quorum.servers:
        server.call("DEL", "k")
    with pytest.raises(rq.Lost) as lost:
        hold.extend()
    assert hold.why_lost is lost.value
    report(rq._native.lib.REDLOCK_GONE, 0, ())
    assert hold.why_lost is lost.value
    with pytest.raises(rq.Lost):
        hold.release()


def test_why_it_was_lost_stays_the_same_while_two_threads_learn_it(client, quorum, monkeypatch):
    hold = client.lock("k", ttl=60).acquire()
    report, hold._loss.report = hold._loss.report, lambda *_: None
    make_lost, raised = rq._holds.make_lost, []

    def interrupted(*words, **more):
        with pytest.raises(rq.Lost) as lost:
            hold.extend()
        raised.append(lost.value)
        return make_lost(*words, **more)
    for server in quorum.servers:
        server.call("DEL", "k")
    monkeypatch.setattr(rq._holds, "make_lost", interrupted)
    report(rq._native.lib.REDLOCK_GONE, 0, ())
    assert [hold.why_lost] == raised
    with pytest.raises(rq.Lost) as lost:
        hold.release()
    assert lost.value is raised[0]


def test_a_release_ends_a_wait_for_a_loss(client):
    recursive = client.lock("k", recursive=True)
    with recursive as hold:
        wait, waits = hold._loss.event.wait, threading.Event()
        hold._loss.event.wait = lambda seconds: waits.set() or wait(seconds)
        waiting = in_thread(lambda: hold.wait_lost(2 * lab.STATE_SECONDS))
        assert waits.wait(lab.STATE_SECONDS)
        with recursive:
            pass
        assert not hold.wait_lost(0)
    assert waiting()
    assert hold.why_lost is None


def test_what_a_silent_node_may_decide_is_not_told(client, quorum):
    for index in (0, 1, 2):
        quorum[index].call("SET", "k", "p" + "abcdefgh" * 4, "PX", 600000)
    assert client.lock("k").locked()
    quorum.kill(0)
    with pytest.raises(rq.NoQuorum):
        client.lock("k").locked()
    assert [found.locked for found in client.list()] == [None]
    quorum[1].call("DEL", "k")
    assert not client.lock("k").locked()


def test_a_loss_in_a_with(client, quorum):
    with pytest.raises(rq.Lost):
        with client.lock("k", ttl=1, options=rq.LockOptions(watchdog=False)) as hold:
            assert hold.wait_lost(lab.STATE_SECONDS)
    with pytest.raises(ZeroDivisionError) as shown:
        with client.lock("k", ttl=1, options=rq.LockOptions(watchdog=False)) as hold:
            assert hold.wait_lost(lab.STATE_SECONDS)
            raise ZeroDivisionError
    assert "EXPIRED" in shown.value.__notes__[0]
    assert isinstance(hold.release_error, rq.Lost)


def test_a_release_that_is_not_confirmed(client, quorum, caplog):
    hold = client.lock("k").acquire()
    quorum.kill(0, 1, 2)
    with pytest.raises(rq.Unconfirmed):
        hold.release()
    assert hold.lost


def test_an_exception_in_on_lost_is_logged(client, caplog):
    hold = client.lock("k", ttl=1, on_lost=lambda *_: 1 / 0,
                       options=rq.LockOptions(watchdog=False)).acquire()
    assert hold.wait_lost(lab.STATE_SECONDS)
    lab.wait_for(lambda: "ZeroDivisionError" in caplog.text, "a line of the log")


def test_calls_that_wait_are_refused_in_a_callback(client):
    found = []

    def on_lost(_hold, _why):
        for call in (client.lock("l").acquire, client.close):
            with pytest.raises(rq.WouldDeadlock):
                call()
            found.append(1)
    _kept = client.lock("k", ttl=1, on_lost=on_lost,
                        options=rq.LockOptions(watchdog=False)).acquire()
    lab.wait_for(lambda: len(found) == 2, "two calls that are refused")


def test_close_ends_waits(quorum, client, other):
    closing = rq.Client(quorum.uris, rq.Options(node_timeout=5))
    with other.lock("k"):
        waiter = in_thread(closing.lock("k").acquire)
        lab.wait_for(lambda: other.inspect("k").waiting, "a waiter")
        held = closing.lock("h").acquire()
        closing.close()
        with pytest.raises(rq.Closed):
            waiter()
    assert held.lost
    with pytest.raises(rq.Closed):
        closing.lock("k").acquire()
    assert client.lock("h").acquire(blocking=False) is None  # until its TTL ends


class Stopped(Exception):
    pass


def test_close_waits_for_a_call_of_another_thread(quorum, monkeypatch):
    """The call still uses what close() frees."""
    client, seen = rq.Client(quorum.uris, rq.Options(node_timeout=5)), []

    class Left(threading.Condition):
        def wait(self, timeout=None):
            seen.append("waits")
            return super().wait(timeout)
    client._left = Left(client._guard)
    free = client._free
    monkeypatch.setattr(client, "_free", lambda: (seen.append("frees"), free()))

    def text(_read, _labels):
        closing.append(in_thread(client.close))
        lab.wait_for(lambda: seen, "what close() does first")
        return seen[0]
    monkeypatch.setattr("redlock_quorum._threads.prometheus_text", text)
    closing = []
    assert client.prometheus() == "waits"
    closing[0]()
    assert seen[-1] == "frees"


@pytest.fixture
def stopping():
    """A signal that raises Stopped in the main thread."""
    def stop(*_):
        raise Stopped
    before = signal.signal(signal.SIGUSR1, stop)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("wait", [
    lambda client: client.lock("k").acquire(),
    lambda client: client.locked("k")(pytest.fail)(),
    lambda client: client.single_flight("k", pytest.fail)])
def test_a_signal_ends_a_wait(client, other, stopping, wait):
    with other.lock("k"):
        def interrupt():
            lab.wait_for(lambda: other.inspect("k").waiting, "a waiter")
            stopping()
        result = in_thread(interrupt)
        with pytest.raises(Stopped):
            wait(client)
        result()
    other.lock("k").acquire(timeout=60).release()
    assert not client._flights


def test_a_signal_when_a_condition_wants_its_lock_back(client, other, stopping):
    lock = client.lock("k")

    def interrupt():
        with other.lock("k"):
            lab.wait_for(lambda: other.inspect("k").waiting, "a waiter")
            stopping()
    condition = threading.Condition(lock)
    with pytest.raises(Stopped), condition as hold:
        result = in_thread(interrupt)
        lab.wait_for(lambda: client.inspect("k").waiting, "the other one")
        condition.wait(0.001)
    result()
    assert hold.lost and not lock._uses and not lock._entered
    other.lock("k").acquire(timeout=60).release()


CLOSED_IN_A_HANDLER = """
import os, signal, sys, threading, redlock_quorum as rq
client, other = (rq.Client(sys.argv[1:], rq.Options(node_timeout=5)) for _ in range(2))
signal.signal(signal.SIGUSR1, lambda *_: client.close())
held = other.lock("k").acquire()
def interrupt():
    while not other.inspect("k").waiting:
        pass
    os.kill(os.getpid(), signal.SIGUSR1)  # its handler runs when the wait in C has ended
    held.release()
threading.Thread(target=interrupt).start()
observer = client.observe("e")
hold = client.lock("k", recursive=True).acquire(timeout=60)
print(hold.lost, bool(client._closed), next((each for each in observer if each.term), None))
try:
    client.lock("k").acquire()
except rq.Closed:
    print("closed")
client.close()
other.close()
"""


def run_program(program, quorum):
    done = subprocess.run([sys.executable, "-c", program, *quorum.uris], text=True,
                          cwd=os.path.dirname(os.path.dirname(__file__)),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=lab.STATE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_close_in_a_signal_handler(quorum):
    assert run_program(CLOSED_IN_A_HANDLER, quorum) == "True True None\nclosed\n"


def test_inspect_list_check(client, other):
    with other.lock("job:1") as hold, client.lock("x"):
        found = client.inspect("job:1")
        assert (found.holder, found.held) == ("other", 5)
        assert [each.key for each in client.list("job:")] == [b"job:1"]
        assert hold.holder == "other"
    assert client.check()
    assert {finding.code for node in client.check().nodes for finding in node.findings} >= {
        "forgets"}
    assert len(client.explain()) == client.node_count == 5
    assert client.quorum == 3
    assert "acquire" in client.record()


def test_prometheus(client):
    for _ in range(3):
        with client.lock("k"):
            pass
    text = client.prometheus(job='a "b"')
    assert r'redlock_acquires_total{job="a \"b\"",result="ok"} 3' in text.splitlines()
    with pytest.raises(rq.BadInput):
        client.prometheus(é="x")
    with pytest.raises(rq.BadInput):
        client.prometheus(node="x")


def test_the_configuration_of_the_command(quorum, monkeypatch, tmp_path):
    path = tmp_path / "config"
    path.write_text(f"# ours\nnodes = {','.join(quorum.uris)}\nprefix = p:\ntimeout = 5s\n")
    monkeypatch.delenv("REDLOCK_NODES", raising=False)
    monkeypatch.setenv("REDLOCK_CONFIG", str(path))
    with rq.Client() as found, found.lock("k"):
        lab.wait_for(lambda: quorum[0].call("EXISTS", "p:k"), "a key with the prefix")
    path.write_text("nonsense = 1\n")
    with pytest.raises(rq.BadInput):
        rq.Client()


def test_a_configuration_that_the_group_may_write(monkeypatch, tmp_path, caplog):
    path = tmp_path / "config"
    path.write_text("nodes = unix:///nowhere\n")
    path.chmod(0o664)
    monkeypatch.delenv("REDLOCK_NODES", raising=False)
    monkeypatch.setenv("REDLOCK_CONFIG", str(path))
    rq.Client().close()
    record = caplog.records[0]
    assert record.getMessage().endswith("config: the group may write it: chmod g-w")


def test_options_and_the_configuration(quorum, monkeypatch, tmp_path):
    from redlock_quorum import _values
    path, secret = tmp_path / "config", tmp_path / "secret"
    secret.touch()
    path.write_text(f"nodes = {','.join(quorum.uris)}\nprefix = p:\ntimeout = 5s\n"
                    f"durable = yes\npassword-file = {secret}\n")
    monkeypatch.delenv("REDLOCK_NODES", raising=False)
    monkeypatch.setenv("REDLOCK_CONFIG", str(path))
    monkeypatch.setenv("REDLOCK_CACERT", "ca.crt")
    uris, options = _values.settle(None, rq.Options(label="w", tls_ca_file="mine.crt"))
    assert uris == quorum.uris
    assert options == rq.Options(label="w", tls_ca_file="mine.crt", prefix="p:",
                                 node_timeout=5, connect_timeout=5, drift_ppm=10000, max_ttl=0,
                                 durable=True, tls=False, tls_insecure=False,
                                 password_file=str(secret))
    no = rq.Options(prefix="", node_timeout=0, durable=False, password_file="", tls_ca_file="")
    options = _values.settle(None, no)[1]
    for name, value in vars(no).items():
        assert value is None or getattr(options, name) == value, name
    native = _values.NativeOptions(options).struct
    assert not (native.prefix or native.password_file or native.tls_ca_file or native.durable
                or native.node_timeout_ms)
    monkeypatch.setenv("REDLOCK_PASSWORD", "secret")
    assert _values.settle(None, rq.Options())[1].password == "secret"
    for mine in (rq.Options(password="mine"), rq.Options(password_file="mine")):
        options = _values.settle(None, mine)[1]
        assert (options.password, options.password_file) == (mine.password, mine.password_file)
    monkeypatch.delenv("REDLOCK_PASSWORD")
    path.write_text(f"nodes = {','.join(quorum.uris)}\nprefix = p:\ntimeout = 5s\n")
    with rq.Client(options=rq.Options(label="w")) as found, found.lock("k") as hold:
        assert hold.holder == "w"
        lab.wait_for(lambda: quorum[0].call("EXISTS", "p:k"), "a key with the prefix")


def test_the_nodes_are_read_once(quorum, monkeypatch):
    with rq.Client((uri for uri in quorum.uris), rq.Options(node_timeout=5)) as made:
        assert len(made.check().nodes) == 5
    monkeypatch.setenv("REDLOCK_CONFIG", os.devnull)
    monkeypatch.setenv("REDLOCK_NODES", quorum.nodes)
    with rq.Client(options=rq.Options(node_timeout=5)) as made:
        monkeypatch.delenv("REDLOCK_NODES")
        assert len(made.check().nodes) == 5


# --- fork, and the end of a process ---

def child(function):
    """Its exit code, after a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork(client, quorum):
    hold = client.lock("k").acquire()
    waiting = in_thread(lambda: client.lock("k").acquire(timeout=60))

    def check():
        assert hold.lost and hold.valid_ms() == 0
        for call in (hold.release, hold.extend, client.lock("k").acquire,
                     lambda: client.observe("k")):
            with pytest.raises(rq.Forked, match="create a new one"):
                call()
        client.close()
        with rq.Client(quorum.uris, rq.Options(node_timeout=5)) as mine:
            assert mine.lock("k").acquire(blocking=False) is None
            mine.lock("l").acquire().release()
    assert child(check) == 0
    assert not hold.lost
    hold.release()
    waiting().release()


PROGRAM = """
import sys, threading, redlock_quorum as rq
client = rq.Client(sys.argv[1:], rq.Options(node_timeout=5))
client.lock("released").acquire().release(confirm=False)
kept = client.lock("kept").acquire()
def wait():
    try:
        client.lock("kept").acquire()
    except rq.Closed:
        pass
threading.Thread(target=wait, daemon=True).start()
engine = rq.AsyncClient(sys.argv[1:])
"""


def test_the_end_of_the_interpreter(quorum):
    run_program(PROGRAM, quorum)
    lab.wait_for(lambda: set(quorum.values("released")) == {None}, "the release")
    assert quorum.values("kept").count(None) <= 2


# --- threading.Condition ---

@pytest.mark.parametrize("recursive", [False, True])
def test_a_condition(client, other, recursive):
    """While a thread waits, the lock is free, for all levels; afterwards it is held again."""
    lock = client.lock("k", recursive=recursive)
    condition, seen = threading.Condition(lock), []

    def wait():
        with condition:
            if recursive:
                with lock:
                    condition.wait_for(lambda: seen)
                    assert other.lock("k").acquire(False) is None
            else:
                condition.wait_for(lambda: seen)
            assert other.lock("k").acquire(False) is None
            return True
    with pytest.raises(RuntimeError):
        condition.notify()
    waiting = in_thread(wait)
    lab.wait_for(lambda: condition._waiters, "a waiter")
    other.lock("k").acquire().release()
    with condition:
        seen.append(True)
        condition.notify()
    assert waiting()
    other.lock("k").acquire(timeout=60).release()
    assert not lock._uses and not lock._entered


def test_a_condition_whose_lock_is_lost(client, quorum):
    condition = threading.Condition(client.lock("k"))
    for call in (condition.notify, condition.wait):
        with pytest.raises(rq.Lost):
            with condition as hold:
                for server in quorum.servers:
                    server.call("DEL", "k")
                with pytest.raises(rq.Lost):
                    hold.extend()
                call()
        assert not condition._waiters
    with condition:
        condition.notify()


def test_a_condition_that_finds_the_loss_itself(client, other):
    """Its wait() ends as usual. No notify() wakes it later, instead of another thread."""
    lock = client.lock("k")
    condition = threading.Condition(lock)
    for later in (condition.notify, lambda: None):
        with pytest.raises(rq.Lost), condition:
            other.break_lock("k")
            assert not condition.wait(0.001)
            assert other.lock("k").acquire(False) is None
            later()
    assert not condition._waiters and not lock._uses
    other.lock("k").acquire(timeout=60).release()


def test_a_condition_in_a_with_of_a_hold(client, other):
    lock = client.lock("k")
    condition = threading.Condition(lock)
    with lock.acquire():
        condition.wait(0.001)
        assert other.lock("k").acquire(False) is None
    assert not lock._uses
    other.lock("k").acquire(timeout=60).release()


# --- single flight ---

def fly(client, function, waiters, **more):
    """Threads that want the same: one is in `function`, and so many wait for it."""
    flies, go_on = threading.Event(), threading.Event()

    def lead(hold):
        flies.set()
        assert go_on.wait(lab.STATE_SECONDS)
        return function(hold)
    results = [in_thread(lambda: client.single_flight("k", lead, **more))]
    assert flies.wait(lab.STATE_SECONDS)
    results += [in_thread(lambda: client.single_flight("k", function, **more))
                for _ in range(waiters)]
    lab.wait_for(lambda: len(client._flights[b"k"][1].end._waiting) == waiters, "waiters")
    go_on.set()
    return results


def test_single_flight(client, other):
    def function(hold):
        hold.check()
        assert other.lock("k").acquire(False) is None
        made.append(object())
        return made[-1]
    made = []
    assert {result() for result in fly(client, function, 7)} == set(made) and len(made) == 1
    client.single_flight("k", function)  # that one was over
    assert len(made) == 2 and not client._flights
    other.lock("k").acquire(timeout=60).release()


def test_a_single_flight_that_fails(client, other):
    def function(hold):
        raise made.append(1) or ZeroDivisionError
    made = []
    for result in fly(client, function, 3):
        with pytest.raises(ZeroDivisionError):
            result()
    assert len(made) == 1
    with pytest.raises(rq.InUse, match="this thread leads"):
        client.single_flight("k", lambda hold: client.single_flight("k", lambda hold: 1))

    def interrupted(hold):
        made.append(2)
        if len(made) == 2:
            raise KeyboardInterrupt
        return len(made)
    first, *others = fly(client, interrupted, 3)
    with pytest.raises(KeyboardInterrupt):
        first()
    assert min(result() for result in others) == 3  # another one of them has led
    assert not client._flights


def test_a_single_flight_without_the_lock(client, other):
    with other.lock("k") as hold:
        with pytest.raises(rq.WaitTimeout):
            client.single_flight("k", pytest.fail, timeout=0.05)
        first = in_thread(lambda: client.single_flight("k", pytest.fail, timeout=0.3))
        lab.wait_for(lambda: client._flights, "a leader")
        flight = client._flights[b"k"][1]
        second = in_thread(lambda: client.single_flight("k", lambda hold: "mine"))
        lab.wait_for(lambda: flight.end._waiting, "a waiter")
        with pytest.raises(rq.WaitTimeout):
            client.single_flight("k", pytest.fail, timeout=0)
        with pytest.raises(rq.WaitTimeout):
            first()
        hold.release()
    assert second() == "mine"


def test_a_single_flight_that_is_interrupted_in_its_release(client, monkeypatch):
    def release(hold, **more):
        monkeypatch.undo()
        hold.release(**more)
        raise KeyboardInterrupt
    made = []
    first, *others = fly(client, lambda hold: made.append(1) or len(made), 3)
    monkeypatch.setattr(rq.Hold, "release", release)
    with pytest.raises(KeyboardInterrupt):
        first()
    assert [result() for result in others] == [1, 1, 1]  # it is not called again


def test_a_single_flight_that_is_interrupted_anywhere(client):
    """No flight is left over that others would wait for."""
    class Flights(dict):
        def setdefault(self, key, value):
            published.append(value[1])
            return super().setdefault(key, value)

    def interrupt(frame, event, _argument):  # where Python calls handlers of signals
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_name in (
                "single_flight", "end_flight"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    def fails(hold):
        raise ZeroDivisionError
    published, client._flights = [], Flights()
    for function in fails, lambda hold: 1:
        at, left = 0, 0
        while left <= 0:  # it was interrupted
            at += 1
            left = at
            sys.setprofile(interrupt)
            try:
                client.single_flight(f"k{at}", function)
            except (KeyboardInterrupt, ZeroDivisionError):
                pass
            finally:
                sys.setprofile(None)
            assert not client._flights, at
            assert all(flight.done() for flight in published), at
        assert at > 4


def test_a_fork_beside_a_single_flight(client):
    """The child does not wait for a flight of its parent."""
    flying, go_on = threading.Event(), threading.Event()

    def fly(_hold):
        flying.set()
        return go_on.wait(lab.STATE_SECONDS)
    result = in_thread(lambda: client.single_flight("k", fly))
    assert flying.wait(lab.STATE_SECONDS)

    def check():
        signal.alarm(lab.STATE_SECONDS)
        with pytest.raises(rq.Forked):
            client.single_flight("k", fly)
    assert child(check) == 0
    go_on.set()
    assert result()


def test_a_fork_in_a_single_flight(client):
    parent = os.getpid()
    try:
        number = client.single_flight("k", lambda hold: os.fork())
    except BaseException as why:
        if os.getpid() == parent:
            raise
        os._exit(not isinstance(why, rq.Forked))
    if os.getpid() != parent:
        os._exit(2)
    assert os.waitpid(number, 0)[1] == 0

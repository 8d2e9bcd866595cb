"""The table of docs/guide/frameworks.md, with the real frameworks on five real servers.

The fixtures are those of python/tests/conftest.py: ./dev try frameworks. What the page says
is refused must be a part of the real message.
"""
import asyncio
import http.client
import os
import pathlib
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import lab
import pytest
import redis_server
import redlock_quorum
import trio
import uvloop
from conftest import PATIENT, ROOT

GUIDE = ROOT / "docs/guide"
PAGE = (GUIDE / "frameworks.md").read_text()
# [framework, what works, what is refused, name of its test]
TABLE = [[cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(
    r"^\| .* \| `test_\w+` \|$", PAGE, re.M)]
TURNS = 20


def refused(framework):
    """The quoted words that the page has of it."""
    [cell] = [row[2] for row in TABLE if row[0] == framework]
    return re.search(r'"(.*?)"', cell)[1]


def test_each_row_has_its_test():
    tests = [name for name in globals() if name.startswith("test_")]
    assert {row[3].strip("`") for row in TABLE} == set(tests) - {"test_each_row_has_its_test"}


class Alone:
    """Fails if another one is inside."""

    def __init__(self):
        self.inside = 0

    def __enter__(self):
        self.inside += 1
        assert self.inside == 1

    def __exit__(self, *_):
        self.inside -= 1


# --- processes that are started ---

@pytest.fixture
def start(quorum, tmp_path):
    """Starts a program of the venv in tmp_path, with the nodes in its environment."""
    started = []

    def run(*words, **env):
        words = [str(pathlib.Path(sys.executable).parent / words[0]), *map(str, words[1:])]
        log = open(tmp_path / "log", "ab")
        started.append(lab.spawn(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, env=lab.environment(lab.on(
                                     quorum, REDLOCK_LIBRARY=os.environ["REDLOCK_LIBRARY"],
                                     PYTHONPATH=f"{ROOT}/python:{GUIDE}:{tmp_path}", **env))))
        return started[-1]
    try:
        yield run
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(lab.STATE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        print((tmp_path / "log").read_text())


def finish(process):
    assert process.wait(lab.STATE_SECONDS) == 0


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=lab.STATE_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def get(tmp_path, url):
    """Status and text of an answer of the server at http.sock."""
    asked = Unix(tmp_path / "http.sock")
    asked.request("GET", url)
    answer = asked.getresponse()
    return answer.status, answer.read().decode()


def is_listening(tmp_path):
    try:
        return get(tmp_path, "/")
    except OSError:
        return False


def at_once(function, count):
    """What it returns, called by so many threads."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(function())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(lab.STATE_SECONDS)
    return found


# --- loops ---

async def take_turns(quorum):
    alone = Alone()
    async with redlock_quorum.AsyncClient(quorum.uris, PATIENT) as client:
        async def work():
            async with client.lock("k") as hold:
                with alone:
                    await asyncio.sleep(0)
                    hold.check()
        async with asyncio.TaskGroup() as group:
            for _ in range(TURNS):
                group.create_task(work())
        async with client.lock("k"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.lock("k").acquire()


def test_asyncio(quorum):
    asyncio.run(take_turns(quorum))
    with redlock_quorum.Client(quorum.uris, PATIENT) as client:
        with pytest.raises(TypeError, match=re.escape(refused("asyncio"))):
            client.locked("k")(take_turns)


def test_uvloop(quorum):
    uvloop.run(take_turns(quorum))


def test_trio(quorum):
    client, alone = redlock_quorum.Client(quorum.uris, PATIENT), Alone()

    async def work():
        hold = await trio.to_thread.run_sync(client.lock("k").acquire)
        try:
            with alone:
                await trio.sleep(0)
                hold.check()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(hold.release)

    async def main():
        async with trio.open_nursery() as nursery:
            for _ in range(TURNS):
                nursery.start_soon(work)
        async with redlock_quorum.AsyncClient(quorum.uris, PATIENT).lock("k"):
            pass
    with client, pytest.raises(RuntimeError, match=refused("trio")):
        trio.run(main)


GEVENT = """
import sys
import gevent, redlock_quorum
client = redlock_quorum.Client()
def work():
    with client.lock("k") as hold:
        hold.check()
    return 1
pool = gevent.get_hub().threadpool
turns = sum(each.get() for each in [gevent.spawn(pool.apply, work) for _ in range(20)])
client.close()
from gevent import monkey
monkey.patch_all()
try:
    redlock_quorum.Client()
except redlock_quorum.Unsupported as error:
    print(turns, error, file=open("out", "w"))
"""


def test_gevent(start, tmp_path):
    finish(start("python", "-c", GEVENT))
    assert (tmp_path / "out").read_text().startswith(f"20 {refused('gevent')}")


# --- tests, and servers of web requests ---

PYTEST = """
import asyncio, pytest, pytest_asyncio, redlock_quorum

@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client():
    async with redlock_quorum.AsyncClient() as made:
        yield made

@pytest_asyncio.fixture
async def hold(client):
    async with client.lock("k") as held:
        yield held

@pytest.mark.asyncio
@pytest.mark.parametrize("turn", range(3))
async def test_a_loop_of_its_own(client, hold, turn):
    assert await client.lock("k").acquire(blocking=False) is None
    hold.check()
"""


def test_pytest_asyncio(start, tmp_path):
    (tmp_path / "test_it.py").write_text(PYTEST)
    finish(start("python", "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"))
    assert "3 passed" in (tmp_path / "log").read_text()


WSGI = """
import os, redlock_quorum
client = redlock_quorum.Client()  # with --preload it belongs to the master
of_worker = None
def application(environ, answer):
    try:
        made = client if environ["PATH_INFO"] == "/master" else of_worker
        with made.lock("k") as hold:
            os.close(os.open("alone", os.O_CREAT | os.O_EXCL))
            hold.check()
            os.unlink("alone")
        text = str(os.getpid())
    except redlock_quorum.RedlockError as error:
        text = str(error)
    answer("200 OK", [("Content-Length", str(len(text)))])
    return [text.encode()]
"""
AFTER_FORK = """
def post_fork(server, worker):
    import redlock_quorum, wsgi
    wsgi.of_worker = redlock_quorum.Client()
"""


def test_gunicorn(start, tmp_path):
    (tmp_path / "wsgi.py").write_text(WSGI)
    (tmp_path / "conf.py").write_text(AFTER_FORK)
    start("gunicorn", "--preload", "--workers", 3, "--threads", 4, "--config", "conf.py",
          "--bind", "unix:http.sock", "wsgi")
    lab.wait_for(lambda: is_listening(tmp_path), "gunicorn")
    workers = set()

    def all_workers_answer():
        answers = at_once(lambda: get(tmp_path, "/"), TURNS)
        assert len(answers) == TURNS and {status for status, _ in answers} == {200}
        workers.update(int(text) for _, text in answers)
        return len(workers) >= 3
    lab.wait_for(all_workers_answer, "answers of three workers")
    assert refused("gunicorn") in get(tmp_path, "/master")[1]


def test_django(start, tmp_path):
    """No sale is lost, whichever worker does it."""
    with sqlite3.connect(tmp_path / "stock.sqlite3") as database:
        database.execute("CREATE TABLE stock (item TEXT, count INTEGER)")
        database.execute("INSERT INTO stock VALUES ('book', 100)")
    start("gunicorn", "--workers", 3, "--bind", "unix:http.sock", "django_stock")
    lab.wait_for(lambda: is_listening(tmp_path), "gunicorn")
    answers = at_once(lambda: get(tmp_path, "/sell/book"), TURNS)
    sold = [text for status, text in answers if status == 200]
    assert {answer for answer in answers if answer[0] != 200} <= {(503, "try again\n")}
    assert sold and len(set(sold)) == len(sold)
    [[left]] = database.execute("SELECT count FROM stock")
    assert left == 100 - len(sold)


# --- tasks and jobs ---

@pytest.fixture
def broker(servers):
    server = redis_server.Server(servers.home, 5)
    server.start()
    try:
        yield server
    finally:
        server.kill()


CELERY_GEVENT = """
import celery, os, redlock_quorum
app = celery.Celery("patched", broker=os.environ["BROKER"])
@app.task
def make():
    try:
        redlock_quorum.Client()
    except redlock_quorum.RedlockError as error:
        print(error, file=open("out", "w"), flush=True)
"""


def test_celery(start, broker, tmp_path, monkeypatch):
    """Each order is charged once, though it is sent several times."""
    url = f"redis+socket://{broker.path}"
    orders = [str(number) for number in range(5)]

    def sent(module):
        monkeypatch.setenv("BROKER", url)
        monkeypatch.syspath_prepend(str(GUIDE))
        monkeypatch.syspath_prepend(str(tmp_path))
        return __import__(module)
    start("celery", "-A", "celery_charge", "worker", "--concurrency", 3, "--loglevel", "INFO",
          BROKER=url)
    charge = sent("celery_charge").charge
    tasks = [charge.delay(order) for _ in range(4) for order in orders]
    lab.wait_for(lambda: (tmp_path / "log").read_text().count("succeeded in") == len(tasks),
                 "the end of all tasks")
    assert sorted((tmp_path / "charged").read_text().split()) == orders
    start("celery", "-A", "celery_charge", "worker", "--pool", "solo", "--queues", "solo",
          BROKER=url)
    charge.apply_async(["by solo"], queue="solo")
    lab.wait_for(lambda: "by solo" in (tmp_path / "charged").read_text(), "a charge")
    (tmp_path / "patched.py").write_text(CELERY_GEVENT)
    start("celery", "-A", "patched", "worker", "--pool", "gevent",
          "--queues", "patched", BROKER=url)
    sent("patched").make.apply_async(queue="patched")
    assert refused("Celery") in lab.wait_for(
        lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text(), "a refusal")


def test_apscheduler(start, tmp_path):
    """Three processes write at most one report in each period of a second."""
    reports = tmp_path / "reports"

    def written():
        return reports.read_text().count("\n") if reports.exists() else 0
    begun = int(time.time())
    for _ in range(3):
        start("python", GUIDE / "apscheduler_report.py", 1)
    lab.wait_for(lambda: written() >= 4, "four reports")
    assert written() <= int(time.time()) - begun + 1

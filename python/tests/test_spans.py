"""on_span: each span begins and ends, in the context of the caller that acquired the lock."""
import asyncio
import contextvars
import gc
import threading
import weakref

import lab
import pytest
from conftest import PATIENT
from test_asyncio import until

import redlock_quorum as rq

REQUEST = contextvars.ContextVar("request", default="none")


class Book:
    """What on_span was told, and in which request."""

    def __init__(self):
        self.told = []
        self.threads = set()

    def __call__(self, span):
        assert span.key == b"k" and span.kind == "exclusive" and not span.fenced
        assert span.ended or span.duration == 0
        self.told.append((REQUEST.get(), "-" if span.ended else "+", span.operation,
                          span.code if span.ended else ""))
        self.threads.add(threading.get_ident())

    def of(self, request):
        return [f"{sign}{operation} {code}".strip()
                for who, sign, operation, code in self.told if who == request]


WHOLE = ["+acquire", "+hold", "-acquire OK", "+release", "-hold OK", "-release OK"]


def in_request(name, function):
    """In another context than that of this function."""
    def run():
        REQUEST.set(name)
        return function()
    return contextvars.copy_context().run(run)


def test_threads(quorum):
    book = Book()
    with rq.Client(quorum.uris, PATIENT, on_span=book) as client:
        def work():
            with client.lock("k"):
                pass
        in_request("main", work)
        thread = threading.Thread(target=in_request, args=("thread", work))
        thread.start()
        thread.join(lab.STATE_SECONDS)
    assert book.of("main") == book.of("thread") == WHOLE
    assert threading.get_ident() not in book.threads and len(book.threads) == 1


def test_a_thread_that_waits(quorum):
    """The main thread waits by another thread, and it is still its context. A lock that another
    thread of the process hands over comes without an acquire."""
    def is_handed_over():
        book = Book()
        with rq.Client(quorum.uris, PATIENT, on_span=book) as client:
            hold = in_request("first", client.lock("k").acquire)

            def release():
                lab.wait_for(lambda: len(client._callers) == 2, "two that acquire")
                hold.release()
            threads = [threading.Thread(target=release), threading.Thread(
                target=in_request, args=("second", lambda: client.lock("k").acquire().release()))]
            for each in threads:
                each.start()
            in_request("main", lambda: client.lock("k").acquire().release())
            for each in threads:
                each.join(lab.STATE_SECONDS)
        for request in "first", "second", "main":
            assert "+hold" in book.of(request) and "-hold OK" in book.of(request)
        assert not book.of("none")
        return "+acquire" not in book.of("second") or "+acquire" not in book.of("main")
    # It cannot be seen whether a thread waits in C already: tries until one did.
    lab.wait_for(is_handed_over, "a lock without an acquire")


def test_contexts_are_freed(quorum):
    """While the client lives."""
    class Request:
        pass

    def work():
        request = Request()
        contexts.append(weakref.ref(request))
        in_request(request, lambda: client.lock("k").acquire().release())
    contexts = []
    with rq.Client(quorum.uris, PATIENT, on_span=lambda span: None) as client:
        for _ in range(3):
            work()
        def are_freed():
            gc.collect()
            return not any(context() for context in contexts)
        lab.wait_for(are_freed, "the end of the contexts")


def test_how_it_ends(quorum):
    book = Book()
    with rq.Client(quorum.uris, PATIENT, on_span=book) as client:
        token = in_request("disowns", lambda: client.lock("k").acquire().disown())
        in_request("fails", lambda: client.lock("k").acquire(blocking=False))
        in_request("adopts", lambda: client.adopt("k", token).release())
        kept = in_request("closes", client.lock("k").acquire)
    assert kept.lost
    assert book.of("disowns") == ["+acquire", "+hold", "-acquire OK", "-hold CANCELLED"]
    assert book.of("fails") == ["+acquire", "-acquire TAKEN"]
    assert book.of("adopts") == ["+extend", "+hold", "-extend OK", "+release", "-hold OK",
                                 "-release OK"]
    assert book.of("closes") == ["+acquire", "+hold", "-acquire OK", "-hold CANCELLED"]


def test_an_exception_is_logged(quorum, caplog):
    def fails(_span):
        raise ValueError("of a tracer")
    with rq.Client(quorum.uris, PATIENT, on_span=fails) as client:
        client.lock("k").acquire().release()
    lab.wait_for(lambda: "of a tracer" in caplog.text, "a line of the log")


def test_tasks(quorum):
    book = Book()

    async def work(client, name):
        REQUEST.set(name)
        async with client.lock("k"):
            await asyncio.sleep(0)

    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT, on_span=book) as client:
            await asyncio.gather(*(work(client, f"task {i}") for i in range(3)))
            REQUEST.set("adopts")
            token = await (await client.lock("k").acquire()).disown()
            await (await client.adopt("k", token)).release()
            await until(lambda: book.of("adopts")[-1:] == ["-release OK"], "all spans")
    asyncio.run(main())
    for i in range(3):
        assert book.of(f"task {i}") == WHOLE
    assert book.of("adopts") == ["+acquire", "+hold", "-acquire OK", "-hold CANCELLED", "+extend",
                                 "+hold", "-extend OK", "+release", "-hold OK", "-release OK"]
    assert not book.of("none")

#!/usr/bin/env python3
"""Spans of locks in a real OpenTelemetry SDK: otel.py REDLOCK TRACING

Requests of threads, of the main thread that waits, and of tasks take locks by the package for
Python, with the on_span of python/examples/tracing.py: each span that the SDK exports must be a
child of the span of its own request. Then docs/examples/tracing.cpp takes a lock for a request
of the SDK, and its ids must be those. Its process needs opentelemetry-sdk and cffi.
"""
import asyncio
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/cli"), str(ROOT / "python"), str(ROOT / "python/examples")]
import lab  # noqa: E402
import redlock_quorum  # noqa: E402
import tracing as example  # noqa: E402
from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

PATIENT = redlock_quorum.Options(node_timeout=5)
REQUESTS = 20
WHOLE = {"redlock acquire", "redlock hold", "redlock release"}


def request(name):
    return trace.get_tracer("shop").start_as_current_span(name)


def serve_threads(uris):
    """Some get the lock from each other: then there is a hold alone."""
    with redlock_quorum.Client(uris, PATIENT, on_span=example.on_span) as client:
        def serve(number):
            with request(f"thread {number}"), client.lock("order"):
                pass
        threads = [threading.Thread(target=serve, args=(number,)) for number in range(REQUESTS)]
        for thread in threads:
            thread.start()
        serve("main")
        for thread in threads:
            thread.join()


async def serve_tasks(uris):
    async with redlock_quorum.AsyncClient(uris, PATIENT, on_span=example.on_span) as client:
        async def serve(number):
            with request(f"task {number}"):
                async with client.lock("order"):
                    await asyncio.sleep(0)
        await asyncio.gather(*map(serve, range(REQUESTS)))


def serve_cpp(uris, program):
    """The ids that the program wrote, of a request whose traceparent it got."""
    with request("C++") as span:
        ids = span.get_span_context()
        header = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-01"
        lines = subprocess.run([program, *uris], env=os.environ | {"TRACEPARENT": header}, text=True,
                               stdout=subprocess.PIPE, check=True, timeout=50).stdout.splitlines()
    expected = rf"00-{ids.trace_id:032x}-[0-9a-f]{{16}}-01 parent {ids.span_id:016x}: (\w+), OK"
    return [match and match[1] for match in (re.fullmatch(expected, line) for line in lines)]


def wrongs(spans):
    """Lines about what is not as it should be."""
    requests = {span.context.span_id: span for span in spans if not span.name.startswith("redlock")}
    found = {span_id: [] for span_id in requests}
    for span in spans:
        if span.context.span_id in requests:
            continue
        parent = requests.get(span.parent and span.parent.span_id)
        if not parent or span.context.trace_id != parent.context.trace_id:
            yield f"{span.name} is no child of a request"
        else:
            found[parent.context.span_id].append(span.name)
    for span_id, names in found.items():
        name = requests[span_id].name
        if name != "C++" and ("redlock hold" not in names or len(set(names)) < len(names)
                              or (name.startswith("task") and set(names) != WHOLE)):
            yield f"{name} has the spans {sorted(names)}"


def main():
    lab.program = os.path.abspath(sys.argv[1])
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder:
        try:
            with lab.Quorum(5) as quorum:
                serve_threads(quorum.uris)
                asyncio.run(serve_tasks(quorum.uris))
                of_cpp = serve_cpp(quorum.uris, os.path.abspath(sys.argv[2]))
        finally:
            lab.kill_what_is_left()
    spans = exporter.get_finished_spans()
    found = [*wrongs(spans), *(f"{name} has not ended" for name in example.begun)]
    if of_cpp != ["acquire", "hold", "release"]:
        found.append(f"the spans of C++ are {of_cpp}")
    for line in found:
        print(line)
    of_locks = sum(span.name.startswith("redlock") for span in spans)
    print(f"tracing: {of_locks} spans of locks, {2 * REQUESTS + 2} requests, {len(found)} wrong")
    return int(bool(found))


sys.exit(main())

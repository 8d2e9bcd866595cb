"""Locks as spans of OpenTelemetry, children of the span of the request that takes them:
tracing.py redis://a redis://b redis://c"""
import sys

import redlock_quorum
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

begun: dict[tuple[int, str], trace.Span] = {}


def on_span(span: redlock_quorum.Span) -> None:
    """Called in the context of the thread or task that acquired the lock, so the new span is a
    child of its current one. In the client's thread only: `begun` needs no lock."""
    name = span.lease, span.operation
    if not span.ended:
        begun[name] = trace.get_tracer("redlock_quorum").start_span(
            f"redlock {span.operation}", kind=trace.SpanKind.CLIENT,
            attributes={"redlock.key": span.key.decode(errors="replace")})
        return
    mine = begun.pop(name, None)
    if not mine:  # its begin was dropped
        return
    mine.set_attributes({"redlock.code": span.code, "redlock.attempts": span.attempts})
    if span.code not in ("OK", "CANCELLED"):
        mine.set_status(trace.StatusCode.ERROR, span.code)
    mine.end()


def main(nodes: list[str]) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    with redlock_quorum.Client(nodes, on_span=on_span) as client:
        with trace.get_tracer("shop").start_as_current_span("request"):
            with client.lock("order") as hold:
                hold.check()


if __name__ == "__main__":
    main(sys.argv[1:])

"""A collector for prometheus_client, which this module needs.

    prometheus_client.REGISTRY.register(redlock_quorum.prometheus.Collector(client))
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric, parser
from prometheus_client.registry import Collector as _Collector

from . import AsyncClient, Client, Closed, Forked

__all__ = ["Collector"]

# Old releases of prometheus_client have no types for it.
_families: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families


class Collector(_Collector):
    """What these clients have counted, with these labels; docs/telemetry.md lists the metrics.

    A registry takes one such collector: give it all clients. Of several, each gets the label
    `client`: "1", "2" ... in this order. It collects in any thread, also for an AsyncClient. A
    client that was closed, or that belongs to the parent of a forked process, has no metrics.
    """

    def __init__(self, *clients: Client | AsyncClient, **labels: str) -> None:
        self._clients = [
            (client, {**labels, "client": str(number)} if len(clients) > 1 else labels)
            for number, client in enumerate(clients, 1)]

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for client, labels in self._clients:
            with contextlib.suppress(Closed, Forked):
                for family in _families(_text(client, labels)):
                    if family.name in families:
                        families[family.name].samples += family.samples
                    else:
                        families[family.name] = family
        yield from families.values()

    def describe(self) -> Iterator[Metric]:
        """Lets any registry refuse a second collector."""
        return self.collect()


def _text(client: Client | AsyncClient, labels: dict[str, str]) -> str:
    if isinstance(client, Client):
        return client.prometheus(**labels)
    text = client.prometheus(**labels)
    # On a loop of its own: the caller's thread may have one that runs.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(text)).result()

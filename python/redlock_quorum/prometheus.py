"""A collector for prometheus_client, which this module needs.

    prometheus_client.REGISTRY.register(redlock_quorum.prometheus.Collector(client))
"""
from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric, parser
from prometheus_client.registry import Collector as _Collector

from . import AsyncClient, Client, Closed, Forked

__all__ = ["Collector"]

# Old releases of prometheus_client have no types for it.
_families: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families


class Collector(_Collector):
    """What a client has counted, with these labels; docs/telemetry.md lists the metrics.

    A registry takes one such collector. It collects in any thread, also for an AsyncClient. A
    client that was closed, or that belongs to the parent of a forked process, has no metrics.
    """

    def __init__(self, client: Client | AsyncClient, **labels: str) -> None:
        self._client = client
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        try:
            text = self._text()
        except (Closed, Forked):
            return
        yield from _families(text)

    def _text(self) -> str:
        if isinstance(self._client, Client):
            return self._client.prometheus(**self._labels)
        text = self._client.prometheus(**self._labels)
        # On a loop of its own: the caller's thread may have one that runs.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(text)).result()

"""The collector for prometheus_client has what the text of the client has."""
import asyncio
import os

import pytest
from conftest import PATIENT

import redlock_quorum as rq

prometheus_client = pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from redlock_quorum.prometheus import Collector  # noqa: E402


@pytest.fixture(params=[True, False])  # as the default registry, and as one that is made
def registry(request):
    return prometheus_client.CollectorRegistry(auto_describe=request.param)


def shown(registry):
    return list(text_string_to_metric_families(
        prometheus_client.generate_latest(registry).decode()))


def test_threads(client, registry):
    registry.register(Collector(client, app="shop"))
    for _ in range(3):
        client.lock("k").acquire().release()
    assert registry.get_sample_value("redlock_acquires_total",
                                     {"app": "shop", "result": "ok"}) == 3
    assert registry.get_sample_value("redlock_acquire_seconds_count", {"app": "shop"}) == 3
    of_client = list(text_string_to_metric_families(client.prometheus(app="shop")))
    assert {each.name: (each.documentation, each.type) for each in shown(registry)} == {
        each.name: (each.documentation, each.type) for each in of_client}
    assert sum(len(each.samples) for each in shown(registry)) == sum(
        len(each.samples) for each in of_client)
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(Collector(client, app="other"))
    if (child := os.fork()) == 0:  # that of the parent has nothing to tell
        os._exit(len(shown(registry)))
    assert os.waitpid(child, 0)[1] == 0
    client.close()
    assert shown(registry) == []


def test_two_clients(client, other, registry):
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.openmetrics.parser import (
        text_string_to_metric_families as openmetrics_families)
    registry.register(Collector(client, other, app="shop"))
    client.lock("k").acquire().release()
    values = {number: registry.get_sample_value(
        "redlock_acquires_total", {"app": "shop", "client": number, "result": "ok"})
        for number in "12"}
    assert values == {"1": 1, "2": 0}
    list(openmetrics_families(generate_latest(registry).decode()))  # it is valid
    helps = [each.name for each in shown(registry)]
    assert len(helps) == len(set(helps))
    client.close()
    [held] = [each for each in shown(registry) if each.name == "redlock_held"]
    assert [sample.labels for sample in held.samples] == [{"app": "shop", "client": "2"}]


def test_tasks(quorum, registry):
    """In the thread of the loop, and in another one."""
    async def main():
        async with rq.AsyncClient(quorum.uris, PATIENT) as client:
            registry.register(Collector(client))
            async with client.lock("k"):
                for seen in shown(registry), await asyncio.to_thread(shown, registry):
                    [held] = [each for each in seen if each.name == "redlock_held"]
                    assert [sample.value for sample in held.samples] == [1]
        assert shown(registry) == []
    asyncio.run(main())

"""Turns of the clients: requests that wait in the picker while no replica has room."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gke_inference.gateway.picker_config import FlowControl, picker_config
from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.cluster import Cluster
from twin.tests.running.gateway.manifests import pool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
SATURATED = {"waiting": 100, "kv": 0.99}
LOUD = 20


@pytest.fixture
def queues(cluster: Cluster, eventually) -> Iterator[object]:
    """A function that puts a picker with queues in front of a pool, until the end of the test."""
    started: list[str] = []

    def start(name: str, max_wait_seconds: int) -> None:
        content = picker_config(has_adapters=False, flow=FlowControl(max_wait_seconds))
        cluster.start_picker("llama", name, content=content)
        cluster.apply(pool("llama", name))
        started.append(name)
        # the first requests may still pass the other picker
        eventually(lambda: _waits_for(max_wait_seconds), 60)

    yield start
    cluster.engines.metrics.clear()
    cluster.apply(pool("llama", "llama-epp"))
    eventually(lambda: ask("llama-8b")[0] == 200, 30)
    for name in started:
        cluster.kill(name)


def _waits_for(seconds: int) -> bool:
    begun = time.monotonic()
    status = ask("llama-8b")[0]
    return status == 503 and time.monotonic() - begun >= seconds - 1


def sent(client: str, **headers: str) -> int:
    chosen = {"x-gateway-inference-fairness-id": client, "x-name": client, **headers}
    return ask("llama-8b", headers=chosen)[0]


def test_a_client_that_waits_behind_many_requests_of_another_is_next_but_one(
    cluster, models, queues
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    queues("llama-fair", 8)
    with ThreadPoolExecutor(LOUD + 1) as clients:
        loud = [clients.submit(sent, "loud") for _ in range(LOUD)]
        time.sleep(1)  # all of them wait
        quiet = clients.submit(sent, "quiet")
        time.sleep(0.5)
        before = len(cluster.engines.headers)
        cluster.engines.metrics.clear()
        assert quiet.result() == 200
        assert {each.result() for each in loud} == {200}
    order = [headers.get("x-name") for headers in cluster.engines.headers[before:]]
    assert len(order) == LOUD + 1
    assert order.index("quiet") <= 3  # the requests that go out together may overtake each other


def test_a_request_for_which_no_replica_gets_room_is_told_so_after_the_wait(
    cluster, models, queues
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    queues("llama-brief", 2)
    begun = time.monotonic()
    status, _, body = ask("llama-8b")
    assert status == 503
    assert 2 <= time.monotonic() - begun < 8
    assert body["error"]["type"] == "ServiceUnavailableError"
    assert "timed out in queue" in body["error"]["message"]

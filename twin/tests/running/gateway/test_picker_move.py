"""A move from one line of the picker to the other, as the components make it: nothing is lost."""

import urllib.request
from typing import Any

import pytest

from gke_inference.catalogue.engines import engine
from gke_inference.gateway.definitions import definitions
from gke_inference.gateway.llm_d_config import Routing, Sessions, llm_d_config, llm_d_flags
from gke_inference.gateway.picker import PickerSetup
from gke_inference.gateway.picker_config import picker_config
from gke_inference.gateway.routes import RoutedModel, RoutedNext, next_model, objectives, routes
from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.load import Load
from twin.tests.running.gateway.manifests import health_check, pool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(240)]
NAME, NEXT = "heron", "heron-next"
LINE = "llm-d-router"
SESSIONS = Routing(sessions=Sessions("x-session-id", 60))
BODY = {"model": "heron-7b", "prompt": "a b c", "max_tokens": 2}


def moving(percent: int) -> RoutedModel:
    """Return a model that both lines pick for, with a share of its requests for the new one."""
    return RoutedModel(
        model_name="heron-7b",
        next=RoutedNext(PickerSetup(line=LINE, routing=SESSIONS), percent, NEXT),
        pool_name=NAME,
        selector={"model": NAME},
        target_port=8000,
        timeout_seconds=60,
    )


@pytest.fixture(scope="module")
def heron(cluster, models):
    """Both pickers over the same replicas, and the port of the new one's metrics."""
    cluster.apply(*definitions(LINE).values())
    addresses = [cluster.pod(f"{NAME}-{n}", {"model": NAME}) for n in range(2)]
    second: dict[str, Any] = pool(NEXT, f"{NEXT}-epp")
    second["spec"]["selector"]["matchLabels"] = {"model": NAME}
    cluster.apply(pool(NAME, f"{NAME}-epp"), health_check(NAME), second, health_check(NEXT))
    cluster.start_picker(NAME, content=picker_config(has_adapters=False))
    config = llm_d_config(engine("vllm").metrics, SESSIONS, has_adapters=False)
    flags = llm_d_flags(SESSIONS)
    metrics = cluster.start_picker(NEXT, content=config, flags=flags, program=LINE)
    cluster.apply(*routes(moving(0), "default", "models", None))
    yield addresses, metrics
    cluster.delete("gateway.networking.k8s.io/v1", "HTTPRoute", NAME)
    for name in (NAME, NEXT):
        cluster.kill(f"{name}-epp")


def picked(port: int) -> float:
    """Return how many requests the new picker chose a replica for."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("llm_d_epp_request_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_no_request_is_lost_while_a_share_moves_to_the_new_line(cluster, heron, eventually):
    _, metrics = heron
    eventually(lambda: ask("heron-7b")[0] == 200, 30)
    before = picked(metrics)
    with Load([BODY, {**BODY, "stream": True}]) as load:
        for percent in (0, 20, 50, 100):
            cluster.apply(*routes(moving(percent), "default", "models", None))
            sent = load.sent
            eventually(lambda n=sent: load.sent > n + 60, 30)
    assert set(load.statuses) == {200}
    assert load.lost == []
    assert picked(metrics) - before > 0.2 * load.sent


def test_objectives_of_the_new_group_shed_batch_requests(cluster, heron, eventually):
    addresses, _ = heron
    cluster.apply(*routes(moving(100), "default", "models", None))
    cluster.apply(*objectives(next_model(moving(100)), "default"))
    for address in addresses:
        cluster.engines.metrics[address] = {"waiting": 100, "kv": 0.99}
    chosen = {"x-gateway-inference-objective": f"{NEXT}-batch"}
    eventually(lambda: ask("heron-7b", headers=chosen)[0] == 429, 30)
    assert ask("heron-7b")[0] == 200

"""Interactive before batch: requests that the picker rejects while every replica is saturated."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from twin.tests.running.gateway.client import ask

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
HEADER = "x-gateway-inference-objective"
SATURATED = {"waiting": 100, "kv": 0.99}


def asked(objective):
    return ask("llama-8b", headers={HEADER: objective})


def test_batch_is_refused_and_interactive_served_while_every_replica_is_saturated(
    cluster, models, classes, eventually
):
    for address in models["llama"]:
        cluster.engines.metrics[address] = SATURATED
    eventually(lambda: asked(classes["batch"])[0] == 429)
    kinds = ["batch", "interactive"] * 30
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda kind: (kind, asked(classes[kind])), kinds))
    assert {a[0] for kind, a in answers if kind == "interactive"} == {200}
    refused = [a for kind, a in answers if kind == "batch"]
    assert {status for status, _, _ in refused} == {429}
    assert all(int(headers["retry-after"]) >= 1 for _, headers, _ in refused)
    assert {body["error"]["type"] for _, _, body in refused} == {"RateLimitError"}
    # nobody who says nothing is shed
    assert ask("llama-8b")[0] == 200


def test_batch_is_served_while_the_replicas_have_room_on_average(
    cluster, models, classes, eventually
):
    first, *others = models["llama"]
    cluster.engines.metrics[first] = {"waiting": 100}  # 20 times the limit, of three replicas
    eventually(lambda: asked(classes["batch"])[0] == 429)
    cluster.engines.metrics[first] = {"waiting": 14}  # 2.8 times the limit
    answer = eventually(lambda: (a := asked(classes["batch"]))[0] == 200 and a)
    assert answer[2]["served_by"] in others


def test_batch_is_served_like_any_other_request_while_there_is_room(classes, models, eventually):
    eventually(lambda: asked(classes["batch"])[0] == 200)
    assert asked(classes["interactive"])[0] == 200

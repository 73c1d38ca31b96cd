"""The gateway as clients see it: the real API server, Envoy, body router and pickers."""

import http.client
import itertools
import json
import time

import pytest

from twin.tests.running.gateway.client import ADAPTERS, ADDRESS, PORT, ask, spread

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]


def test_each_model_is_served_by_its_own_pods_behind_one_address(models):
    assert set(spread(20, "llama-8b")) <= set(models["llama"])
    assert set(spread(5, "gemma-27b")) == set(models["gemma"])


def test_the_catalogue_is_served_beside_the_models(models):
    status, _, body = ask(None, "/v1/models")
    assert (status, body["served_by"]) == (200, models["catalogue"][0])


def test_more_adapters_than_one_rule_holds_all_reach_their_base_pool(models):
    for adapter in (ADAPTERS[0], ADAPTERS[63], ADAPTERS[64], ADAPTERS[99]):
        status, _, body = ask(adapter)
        assert status == 200
        assert body["served_by"] in models["llama"]
        assert body["model"] == adapter


def test_the_picker_chooses_the_pod_with_the_shortest_queue(models, cluster, eventually):
    best = models["llama"][1]
    for address in models["llama"]:
        cluster.engines.metrics[address] = {"waiting": 0 if address == best else 20, "kv": 0.3}
    try:
        eventually(lambda: spread(12, "llama-8b") == {best: 12})
    finally:
        cluster.engines.metrics.clear()


@pytest.mark.usefixtures("models")
def test_a_client_cannot_name_the_endpoint_itself(cluster):
    _, _, body = ask("llama-8b", headers={"x-gateway-destination-endpoint": "127.0.0.1:1"})
    seen = cluster.engines.headers[-1]["x-gateway-destination-endpoint"]
    assert seen == f"{body['served_by']}:8000"


@pytest.mark.usefixtures("models")
def test_a_streamed_answer_arrives_piece_by_piece():
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
    body = {"model": "llama-8b", "prompt": "x", "stream": True, "max_tokens": 5, "gap": 0.2}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    times = []
    while line := response.readline():
        if line.startswith(b"data"):
            times.append(time.monotonic())
    connection.close()
    assert len(times) == 6
    assert times[-1] - times[0] > 0.8
    assert max(b - a for a, b in itertools.pairwise(times)) < 0.6


@pytest.mark.usefixtures("models")
def test_large_prompts_pass_whole():
    for size in (100_000, 1_200_000, 3_000_000):
        for _ in range(4):
            status, _, body = ask("llama-8b", prompt="x" * size)
            assert (status, body["size"] > size) == (200, True)


@pytest.mark.usefixtures("models")
def test_the_responses_api_reaches_an_engine():
    status, _, body = ask("llama-8b", "/v1/responses", prompt=None, input="hi")
    assert (status, body["path"]) == (200, "/v1/responses")
    status, _, body = ask("llama-8b", "/v1/responses")
    assert (status, body["error"]["param"]) == (400, "input")


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_the_picker_reads_messages_of_anthropics_api_as_a_chat(path):
    blocks = [{"type": "text", "text": "hi"}, {"type": "tool_result", "content": [{"a": 1}]}]
    messages = [{"role": "user", "content": blocks}]
    status, _, body = ask("llama-8b", f"{path}?beta=true", prompt=None, messages=messages)
    assert (status, body["path"]) == (200, path)
    status, _, body = ask("llama-8b", path, prompt=None)
    assert (status, body["type"], body["error"]["type"]) == (400, "error", "invalid_request_error")


def test_an_unknown_model_is_answered_in_the_shape_of_openai_errors():
    status, headers, body = ask("gpt-9")
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert body == {
        "error": {
            "message": "The model `gpt-9` does not exist.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }


@pytest.mark.usefixtures("models")
def test_a_path_without_route_is_an_openai_shaped_404_too():
    status, _, body = ask(None, "/nothing")
    assert (status, body["error"]["type"], body["error"]["code"]) == (404, "NotFoundError", 404)


def test_an_answer_that_takes_too_long_is_a_504(models, cluster, eventually):
    policy = {
        "apiVersion": "networking.gke.io/v1",
        "kind": "GCPBackendPolicy",
        "metadata": {"name": "gemma", "namespace": "default"},
        "spec": {
            "targetRef": {
                "group": "inference.networking.k8s.io",
                "kind": "InferencePool",
                "name": "gemma",
            },
            "default": {"timeoutSec": 1},
        },
    }
    cluster.apply(policy)
    cluster.engines.delay_seconds[models["gemma"][0]] = 2.0
    try:
        _, _, body = eventually(lambda: (a := ask("gemma-27b"))[0] == 504 and a)
        assert body["error"]["type"] == "TimeoutError"
        attached = cluster.status("networking.gke.io/v1", "GCPBackendPolicy", "gemma")
        assert [(c["type"], c["status"]) for c in attached["conditions"]] == [("Attached", "True")]
    finally:
        cluster.engines.delay_seconds.clear()
        cluster.delete("networking.gke.io/v1", "GCPBackendPolicy", "gemma")


def test_overload_is_a_429_with_retry_after_for_what_may_be_shed(models, cluster, eventually):
    cluster.apply(
        {
            "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
            "kind": "InferenceObjective",
            "metadata": {"name": "batch", "namespace": "default"},
            "spec": {
                "priority": -1,
                "poolRef": {"group": "inference.networking.k8s.io", "name": "llama"},
            },
        }
    )
    for address in models["llama"]:
        cluster.engines.metrics[address] = {"waiting": 100, "kv": 0.99}
    batch = {"x-gateway-inference-objective": "batch"}
    try:
        shed = eventually(lambda: (a := ask("llama-8b", headers=batch))[0] == 429 and a)
        assert shed[1]["retry-after"] == "1"
        assert shed[2]["error"]["type"] == "RateLimitError"
        assert ask("llama-8b")[0] == 200
    finally:
        cluster.engines.metrics.clear()
        cluster.delete("inference.networking.x-k8s.io/v1alpha2", "InferenceObjective", "batch")


@pytest.mark.usefixtures("models")
def test_statuses_say_what_was_taken(cluster, eventually):
    version = "gateway.networking.k8s.io/v1"

    def truth(conditions):
        return {c["type"]: c["status"] for c in conditions}

    def check():
        found = cluster.status(version, "Gateway", "models")
        assert found["addresses"] == [{"type": "IPAddress", "value": ADDRESS}]
        assert truth(found["conditions"]) == {"Accepted": "True", "Programmed": "True"}
        assert found["listeners"][0]["attachedRoutes"] == 2
        route_status = cluster.status(version, "HTTPRoute", "models")["parents"][0]
        assert truth(route_status["conditions"]) == {
            "Accepted": "True",
            "ResolvedRefs": "True",
            "Reconciled": "True",
        }
        pool = cluster.status("inference.networking.k8s.io/v1", "InferencePool", "llama")
        assert truth(pool["parents"][0]["conditions"]) == {
            "Accepted": "True",
            "ResolvedRefs": "True",
        }
        extension = cluster.status("networking.gke.io/v1", "GCPRoutingExtension", "models")
        assert truth(extension["ancestors"][0]["conditions"]) == {"Accepted": "True"}
        return True

    eventually(check)


@pytest.mark.usefixtures("models")
def test_programming_a_gateway_is_an_event(cluster):
    programmed = [e for e in cluster.events.read() if e["kind"] == "gateway.programmed"]
    [found] = [e for e in programmed if e["subject"] == "default/models"]
    assert found["urls"] == [f"http://{ADDRESS}:{PORT}"]


@pytest.mark.usefixtures("models")
def test_the_access_log_tells_model_pool_endpoint_and_the_waits_for_processors(cluster, eventually):
    ask("gemma-27b", headers={"x-request-id": "find-me"})
    log = cluster.dir / "logs" / "gateway-default--models.access.jsonl"

    def line():
        return next((x for x in log.read_text().splitlines() if "gemma-27b" in x), None)

    entry = json.loads(eventually(line, 15))
    assert (entry["model"], entry["pool"]) == ("gemma-27b", "pool/default/gemma")
    assert entry["endpoint"].endswith(":8000")
    assert isinstance(entry["duration_ms"], int)
    waits = entry["processors"]
    assert len(waits) == 2  # the body router and the picker
    for processor in waits.values():
        assert 0 < int(processor["request_headers_us"]) <= 1000 * (entry["duration_ms"] + 1)
    assert int(waits["picker"]["response_headers_us"]) > 0

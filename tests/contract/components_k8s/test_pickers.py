"""The picker of llm-d-router: its configuration, flags, kinds and size, and the move to it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pulumi
import pytest
import yaml

from gke_inference.gateway.inference_gateway import InferenceGatewayArgs, RoutedModelArgs
from gke_inference.sizing.pickers import PeakLoad, most_requests_per_second
from tests.contract.components_k8s.gateway_args import (
    CONFIG_MAP,
    CUSTOM,
    DEPLOYMENT,
    LLAMA,
    args,
    build,
)

SCHEMA = json.loads((Path(__file__).parent / "llm-d-router-config.json").read_text())
OBJECTIVE = "kubernetes:llm-d.ai/v1alpha2:InferenceObjective"
LINE: dict[str, Any] = {"pickers": {"line": "llm-d-router"}}


def setup(model: dict[str, Any] | None = None, **more: Any) -> InferenceGatewayArgs:
    made: Any = {**args(), **LINE, **more}
    made["models"] = [{**LLAMA, **(model or {})}]
    return made


def config(recorder: Any, made: InferenceGatewayArgs) -> dict[str, Any]:
    """Builds a gateway, and returns the configuration of its picker, which the schema accepts."""
    build(recorder, made)
    data = recorder.object(CONFIG_MAP, "llama-8b-picker")["data"]
    found = yaml.load(data["default-plugins.yaml"], yaml.CSafeLoader)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def plugin(found: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in found["plugins"] if each["type"] == kind)


def container(recorder: Any, picker: str = "llama-8b-picker") -> dict[str, Any]:
    pod = recorder.object(DEPLOYMENT, picker)["spec"]["template"]["spec"]
    return pod["containers"][0]


def order(found: dict[str, Any], profile: int = 0) -> list[str]:
    return [each["pluginRef"] for each in found["schedulingProfiles"][profile]["plugins"]]


def test_its_kinds_are_those_of_its_own_group(recorder):
    found = config(recorder, setup())
    assert found["apiVersion"] == "llm-d.ai/v1alpha1"
    assert len(recorder.all(OBJECTIVE)) == 2
    assert recorder.all(CUSTOM["objective"]) == []
    rules = recorder.object("kubernetes:rbac.authorization.k8s.io/v1:Role", "llama-8b-picker")
    assert {"llm-d.ai"} in [set(rule["apiGroups"]) for rule in rules["rules"]]


def test_the_picker_answers_for_a_time_after_its_end_was_requested(recorder):
    build(recorder, setup(pickers={"line": "llm-d-router", "drain_seconds": 20}))
    found = container(recorder)
    assert "--drain-timeout=20s" in found["args"]
    assert found["image"].startswith("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0@sha256:")


def test_the_longest_prefix_is_stated_because_the_default_takes_precedence_over_blocks(recorder):
    found = plugin(config(recorder, setup()), "approx-prefix-cache-producer")["parameters"]
    assert found["maxPrefixTokensToMatch"] == 131_072
    assert "maxPrefixBlocksToMatch" not in found
    assert found["blockSizeTokens"] == 64


def test_queues_are_bounded_and_have_their_detector(recorder):
    pickers = {"line": "llm-d-router", "max_queued": 500, "orders_sessions": True}
    found = config(recorder, setup(pickers=pickers, fairness_wait_seconds=5))["flowControl"]
    assert found["defaultPriorityBand"]["maxRequests"] == "500"
    assert found["defaultPriorityBand"]["orderingPolicyRef"] == "slo-deadline-ordering-policy"
    assert found["defaultRequestTTL"] == "5s"
    assert found["saturationDetector"] == {"pluginRef": "utilization-detector"}


@pytest.mark.parametrize("adapters", [[], ["support"]])
def test_both_lines_choose_by_the_same_limit_and_weights(engine, adapters):
    profiles: list[Any] = []
    for line in ("gie", "llm-d-router"):
        recorder = engine()
        build(recorder, setup({"adapters": adapters}, pickers={"line": line}))
        data = recorder.object(CONFIG_MAP, "llama-8b-picker")["data"]["default-plugins.yaml"]
        found = yaml.load(data, yaml.CSafeLoader)
        limits = [each for each in found["plugins"] if each.get("name") == "full-replicas"]
        assert bool(limits) is (not adapters)
        profiles.append((limits, found["schedulingProfiles"]))
    assert profiles[0] == profiles[1]


def test_a_session_stays_on_its_replica(recorder):
    routing = {"session_header": "x-chat", "session_idle_seconds": 60}
    found = config(recorder, setup({"routing": routing}))
    assert order(found)[0] == "session-affinity-filter"
    assert plugin(found, "session-affinity-filter")["parameters"] == {
        "strategy": "session_id",
        "sessionIdConfig": {"sources": [{"header": "x-chat"}], "evictionTtlSeconds": 60},
    }
    assert "--allow-experimental-plugins" in container(recorder)["args"]


def test_predicted_latency_has_its_sidecars_and_filters(recorder):
    found = config(recorder, setup({"routing": {"predicts_latency": True}, "adapters": []}))
    assert order(found) == [
        "strict-affinity-filter",
        "slo-headroom-tier-filter",
        "loose-affinity-filter",
        "latency-scorer",
        "weighted-random-picker",
    ]
    pod = recorder.object(DEPLOYMENT, "llama-8b-picker")["spec"]["template"]["spec"]
    names = [each["name"] for each in pod["containers"]]
    assert names == ["epp", "latency-trainer", "latency-predictor"]
    assert {each["name"] for each in pod["volumes"]} == {"config", *names[1:]}


@pytest.mark.parametrize(
    ("threshold", "decider"),
    [(0, "always-disagg-pd-decider"), (512, "prefix-based-pd-decider")],
)
def test_a_threshold_of_0_sends_every_prompt_to_a_prefill_replica(recorder, threshold, decider):
    found = config(recorder, setup({"prefill_threshold_tokens": threshold}))
    deciders = plugin(found, "disagg-profile-handler")["parameters"]["deciders"]
    assert deciders == {"prefill": decider}
    assert [each["name"] for each in found["schedulingProfiles"]] == ["prefill", "decode"]
    assert "llm-d-router" in container(recorder)["image"]


MOVE = {"line": "gie", "next": {"line": "llm-d-router", "percent": 20}}


def test_during_a_move_both_pickers_have_a_pool_over_the_same_replicas(recorder):
    build(recorder, setup(pickers=MOVE))
    pools = recorder.objects(CUSTOM["pool"])
    assert set(pools) == {"llama-8b", "llama-8b-next"}
    assert pools["llama-8b"]["spec"]["selector"] == pools["llama-8b-next"]["spec"]["selector"]
    assert "llm-d-router" in container(recorder, "llama-8b-next-picker")["image"]
    assert "inference-extension/epp" in container(recorder)["image"]
    assert (len(recorder.all(OBJECTIVE)), len(recorder.all(CUSTOM["objective"]))) == (2, 2)


def test_during_a_move_the_routes_divide_the_requests(recorder):
    build(recorder, setup(pickers=MOVE))
    route = recorder.object(CUSTOM["route"], "llama-8b")["spec"]
    for rule in route["rules"]:
        weights = {each["name"]: each["weight"] for each in rule["backendRefs"]}
        assert weights == {"llama-8b": 80, "llama-8b-next": 20}


CANARY = {"pool_name": "llama-8b-b", "selector": {"a": "b"}, "version": "b"}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"pickers": {"drain_seconds": 5}}, r"pickers.drainSeconds.*needs line 'llm-d-router'"),
    ({}, {"pickers": {"line": "llm-d-router", "max_queued": 5}}, "needs 'fairnessWaitSeconds'"),
    ({}, {"pickers": {"line": "epp"}}, "pickers.line.*must be one of gie, llm-d-router, got 'epp'"),
    ({"canary": CANARY}, {"pickers": MOVE}, r"canary.*must not be set with 'pickers.next'"),
    ({"routing": {"session_header": "a"}}, {"pickers": {}}, r"routing.*needs line 'llm-d-router'"),
    ({}, {"pickers": {"orders_sessions": True}}, "ordersSessions.*needs 'fairnessWaitSeconds'"),
    (
        {"routing": {"predicts_latency": True}},
        {
            "pickers": {"line": "llm-d-router", "orders_sessions": True},
            "fairness_wait_seconds": 5,
        },
        "predictsLatency.*must be false with 'pickers.ordersSessions'",
    ),
    (
        {"routing": {"predicts_latency": True}, "prefill_threshold_tokens": 5},
        {},
        "predictsLatency.*must be false with 'prefillThresholdTokens'",
    ),
]


@pytest.mark.parametrize(("model", "more", "message"), REFUSED)
def test_what_a_line_does_not_have_is_refused(recorder, model, more, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, setup(model, **more))


def test_the_stated_load_determines_what_a_picker_requests(recorder):
    peak = {"requests_per_second": 4, "prompt_tokens": 6000, "answer_tokens": 300, "replicas": 3}
    build(recorder, setup({"peak": peak}))
    assert container(recorder)["resources"] == {
        "limits": {"memory": "4Gi"},
        "requests": {"cpu": "950m", "memory": "1088Mi"},
    }


def test_without_a_load_a_picker_requests_the_usual(recorder):
    build(recorder, setup())
    requests = container(recorder)["resources"]["requests"]
    assert requests == {"cpu": "500m", "memory": "1Gi"}


# Requests/s, prompt and answer tokens, replicas; most cores and GiB that a picker used.
# llm-d-router v0.10.0: docs/operations.md, test/perf/config/studyanalysis
MEASURED = [
    (5, 100_000, 1_000, 100, 3.82, 0.65),
    (98.8, 100_000, 1_000, 100, 46.5, 3.41),
    (50, 100_000, 500, 100, 17.14, 3.76),
    (50, 100_000, 1_000, 100, 20.28, 5.23),
    (50, 100_000, 5_000, 100, 30.95, 12.54),
    (50, 100_000, 10_000, 100, 32.53, 12.54),
    (10, 100_000, 1_000, 10, 3.78, 1.7),
    (10, 1_000_000, 100, 10, 7.12, 4.22),
    (500, 200, 100, 10, 4.94, 0.05),
    (10, 200, 10_000, 10, 3.71, 0.07),
]


@pytest.mark.parametrize(("rate", "prompt", "answer", "replicas", "cores", "gib"), MEASURED)
def test_the_size_of_a_picker_covers_what_was_measured(rate, prompt, answer, replicas, cores, gib):
    found = PeakLoad(rate, prompt, answer, replicas).picker()
    assert found.millicores >= cores * 1000
    assert found.memory_mib >= gib * 1024


def test_the_rule_for_long_prompts_is_within_the_published_range():
    idle, busy = (PeakLoad(rate, 100_000, 1_000, 10).picker() for rate in (0.0001, 10))
    assert 0.5 <= (busy.millicores - idle.millicores) / 10_000 <= 1.0


def test_the_most_requests_that_fit_on_a_node_do_fit():
    most = most_requests_per_second(100_000, 1_000, 8)
    assert PeakLoad(most * 0.98, 100_000, 1_000, 0).picker().fits(8, 32)
    assert not PeakLoad(most * 1.1, 100_000, 1_000, 0).picker().fits(8, 32)


def test_the_body_router_gets_the_cpu_for_the_prompts_of_all_models(recorder):
    long = {"requests_per_second": 20, "prompt_tokens": 100_000, "answer_tokens": 1, "replicas": 2}
    other: RoutedModelArgs = {**LLAMA, "model_name": "b", "pool_name": "b", "adapters": []}
    made = setup({"peak": long})
    made["models"].append({**other, "peak": long})
    build(recorder, made)
    pod = recorder.object(DEPLOYMENT, "inference-body-router")["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"]["cpu"] == "1700m"

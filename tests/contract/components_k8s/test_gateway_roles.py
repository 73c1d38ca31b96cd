"""The gateway in front of a pool of prefill and decode replicas."""

import json
from typing import Any

import pulumi
import pytest
import yaml

from gke_inference import Exposure
from gke_inference.gateway.inference_gateway import (
    InferenceGateway,
    InferenceGatewayArgs,
    RoutedModelArgs,
)
from tests.contract.components_k8s.gateway_args import answer_of
from twin.cluster.agent.launching.static_server import read_site

LLAMA: RoutedModelArgs = {
    "model_name": "llama-3.1-8b",
    "pool_name": "llama-8b",
    "prefill_threshold_tokens": 500,
    "selector": {"gke-inference/model": "llama-8b"},
    "target_port": 8000,
    "timeout_seconds": 600,
}
POOL = "kubernetes:inference.networking.k8s.io/v1:InferencePool"


def build(recorder, **changes):
    model: Any = {**LLAMA, **changes}
    arguments: InferenceGatewayArgs = {
        "address_name": "acme-gateway",
        "exposure": Exposure.EXTERNAL,
        "gateway_name": "inference",
        "models": [model],
        "namespace": "serving",
        "region": "us-east5",
    }
    recorder.run(lambda: InferenceGateway("gateway", arguments).gateway_name)


def picker(recorder):
    found = [
        seen.inputs
        for seen in recorder.all("kubernetes:apps/v1:Deployment")
        if seen.inputs["metadata"]["name"] == "llama-8b-picker"
    ]
    return found[0]["spec"]["template"]["spec"]["containers"][0]


def config(recorder):
    maps = recorder.all("kubernetes:core/v1:ConfigMap")
    texts = [m.inputs["data"].get("default-plugins.yaml") for m in maps]
    return yaml.load(next(text for text in texts if text), yaml.CSafeLoader)


def test_the_picker_is_llmds_and_its_configuration_in_its_words(recorder):
    build(recorder)
    assert picker(recorder)["image"] == "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0"
    made = config(recorder)
    assert made["apiVersion"] == "inference.networking.x-k8s.io/v1alpha1"
    types = [plugin["type"] for plugin in made["plugins"]]
    for needed in ("prefill-header-handler", "prefill-filter", "decode-filter"):
        assert needed in types
    profiles = {each["name"]: each["plugins"] for each in made["schedulingProfiles"]}
    assert set(profiles) == {"prefill", "decode"}
    for role, plugins in profiles.items():
        assert plugins[0]["pluginRef"] == f"{role}-filter"


def test_the_threshold_is_in_characters_and_the_two_block_sizes_agree(recorder):
    build(recorder)
    by_type = {plugin["type"]: plugin.get("parameters") for plugin in config(recorder)["plugins"]}
    handler, scorer = by_type["pd-profile-handler"], by_type["prefix-cache-scorer"]
    assert handler["threshold"] == 2000
    assert handler["hashBlockSize"] == scorer["blockSize"] == 64
    assert scorer["autoTune"] is False


def test_the_pool_is_closed_while_nobody_empties_forged_headers(recorder):
    build(recorder)
    assert recorder.one(POOL).inputs["spec"]["endpointPickerRef"]["failureMode"] == "FailClose"


def test_the_apis_that_a_picker_of_roles_cannot_read_are_refused_by_the_catalogue(recorder):
    build(recorder, adapters=["sql"])
    routes = recorder.all("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute")
    catalogue = next(
        r.inputs for r in routes if r.inputs["metadata"]["name"] == "inference-catalogue"
    )
    _, refused = catalogue["spec"]["rules"]
    assert refused["backendRefs"][0]["name"] == "inference-catalogue"
    assert [
        (match["headers"][0]["value"], match["path"]["value"]) for match in refused["matches"]
    ] == [
        ("llama-3.1-8b", "/v1/responses"),
        ("sql", "/v1/responses"),
        ("llama-3.1-8b", "/v1/messages"),
        ("sql", "/v1/messages"),
    ]
    config_map = "kubernetes:core/v1:ConfigMap"
    data = recorder.object(config_map, "inference-catalogue")["data"]
    status, text = answer_of(read_site(data["default.conf"]), "/v1/messages/count_tokens", "POST")
    assert (status, json.loads(text)["error"]["type"]) == (404, "not_found_error")


def test_llmds_picker_gets_metric_names_by_flag(recorder):
    build(recorder)
    args = picker(recorder)["args"]
    at = args.index("--kv-cache-usage-percentage-metric")
    assert args[at + 1] == "vllm:kv_cache_usage_perc"


def test_a_model_without_roles_keeps_upstreams_picker(recorder):
    build(recorder, prefill_threshold_tokens=None)
    assert "/epp:" in picker(recorder)["image"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prefill_threshold_tokens": -1}, "must be 0 to 10000000, got -1"),
        ({"task": "embed"}, "needs task 'generate'"),
    ],
)
def test_a_threshold_that_means_nothing_is_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, **change)

"""Routes of a model whose adapters come while it serves."""

import pulumi
import pytest
import yaml

from gke_inference.gateway.inference_gateway import RoutedCanaryArgs, RoutedModelArgs
from tests.contract.components_k8s.gateway_args import CONFIG_MAP, CUSTOM, LLAMA, args, build

LIVE: RoutedModelArgs = {**LLAMA, "has_live_adapters": True}
WITHOUT: RoutedModelArgs = {**LIVE, "adapters": []}


def matches(recorder):
    found = [
        match
        for route in recorder.all(CUSTOM["route"])
        for rule in route.inputs["spec"]["rules"]
        for match in rule["matches"]
        if rule["backendRefs"][0]["name"] == "llama-8b"
    ]
    return [
        (match["path"]["type"], match["path"]["value"], header["name"], header["value"])
        for match in found
        for header in match["headers"]
    ]


def test_only_the_paths_of_prompts_are_routed_as_engines_load_what_they_are_told(recorder):
    found = matches(build(recorder, args(LIVE)))
    paths = {(kind, path) for kind, path, _, _ in found}
    assert paths == {
        ("Exact", "/v1/chat/completions"),
        ("Exact", "/v1/completions"),
        ("Exact", "/v1/messages"),
        ("Exact", "/v1/messages/count_tokens"),
        ("Exact", "/v1/responses"),
    }


def test_an_adapter_that_no_route_names_reaches_the_model_that_the_client_names(recorder):
    found = matches(build(recorder, args(LIVE)))
    header = "X-Gateway-Base-Model-Name"
    assert ("Exact", "/v1/completions", header, "llama-3.1-8b") in found
    assert ("Exact", "/v1/chat/completions", header, "llama-3.1-8b") in found


def test_other_models_are_routed_as_ever(recorder):
    found = matches(build(recorder, args(LLAMA)))
    assert {(kind, path) for kind, path, _, _ in found} == {("PathPrefix", "/v1")}
    assert {header for _, _, header, _ in found} == {"X-Gateway-Model-Name"}


def test_the_picker_looks_at_adapters_though_the_stack_names_none(recorder):
    build(recorder, args(WITHOUT))
    configs = [seen.inputs.get("data", {}) for seen in recorder.all(CONFIG_MAP)]
    text = next(data["default-plugins.yaml"] for data in configs if "default-plugins.yaml" in data)
    assert {"type": "lora-affinity-scorer"} in yaml.load(text, yaml.CSafeLoader)["plugins"]


def test_a_canary_beside_live_adapters_is_refused(recorder):
    canary: RoutedCanaryArgs = {
        "percent": 1,
        "pool_name": "llama-8b-next",
        "selector": {"a": "b"},
        "version": "next",
    }
    both: RoutedModelArgs = {**LIVE, "canary": canary}
    with pytest.raises(pulumi.InputPropertyError, match="must be false with a canary"):
        build(recorder, args(both))

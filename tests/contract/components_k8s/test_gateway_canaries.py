"""Gateway resources that a canary adds."""

from typing import Any

import pytest

from gke_inference.gateway.inference_gateway import RoutedModelArgs
from tests.contract.components_k8s import crds
from tests.contract.components_k8s.gateway_args import CUSTOM, EMBED, LLAMA, args, build, refused


def with_canary(model: RoutedModelArgs, **change: Any) -> Any:
    canary = {"pool_name": "llama-8b-v2", "selector": {"m": "v2"}, "version": "v2", **change}
    return {**model, "canary": canary}


def test_what_a_canary_adds_is_what_its_crd_declares(recorder):
    build(recorder, args(with_canary(LLAMA, percent=10)))
    routes = [seen.inputs for seen in recorder.all(CUSTOM["route"])]
    assert {route["metadata"]["name"] for route in routes} >= {"llama-8b", "llama-8b-v2-pinned"}
    for seen in recorder.registrations:
        if seen.type in CUSTOM.values():
            crds.check(seen.inputs)
    assert len(recorder.all(CUSTOM["pool"])) == 2
    assert len(recorder.all(CUSTOM["timeout"])) == 4  # the body router's as well


def test_an_embedding_model_has_canaries_too(recorder):
    build(recorder, args(with_canary(EMBED, percent=25)))
    (rule,) = recorder.object(CUSTOM["route"], "bge")["spec"]["rules"]
    assert [(r["kind"], r["name"], r["port"], r["weight"]) for r in rule["backendRefs"]] == [
        ("Service", "bge", 8000, 75),
        ("Service", "llama-8b-v2", 8000, 25),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"percent": 101}, "canary.percent.*must be 0 to 100"),
        ({"version": "stable"}, "canary.version.*and not 'stable'"),
        ({"pool_name": "llama-8b"}, "own poolName"),
        ({"selector": {}}, "canary.selector.*must have at least 1 entry, got 0"),
    ],
)
def test_a_canary_that_cannot_be_is_refused(recorder, change, message):
    refused(recorder, args(with_canary(LLAMA, **change)), message)

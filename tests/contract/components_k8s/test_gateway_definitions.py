import json
from typing import Any

import pytest

from gke_inference.gateway.definitions import definitions
from gke_inference.gateway.inference_gateway import InferenceGateway, InferenceGatewayArgs
from gke_inference.gateway.routes import RoutedModel, objectives
from tests.contract.components_k8s import crds
from tests.contract.components_k8s.gateway_args import args, build

TYPE = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def schema_of(role: str) -> dict[str, Any]:
    return definitions()[role]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_a_gateway_brings_the_kinds_that_gke_does_not(recorder):
    build(recorder, args())
    names = {seen.inputs["metadata"]["name"] for seen in recorder.all(TYPE)}
    assert names == {
        "inferencemodelrewrites.inference.networking.x-k8s.io",
        "inferenceobjectives.inference.networking.x-k8s.io",
    }


def test_a_second_gateway_of_a_cluster_leaves_them_to_the_first(recorder):
    arguments: InferenceGatewayArgs = {**args(), "has_definitions": True}
    recorder.run(lambda: InferenceGateway("gateway", arguments).gateway_name)
    assert recorder.all(TYPE) == []


@pytest.mark.parametrize("role", ["objective", "rewrite"])
def test_a_definition_has_the_fields_of_upstreams(role):
    kind = definitions()[role]["spec"]["names"]["kind"]
    if not crds._has_upstream():
        pytest.skip("the upstream CRDs are not built yet: run `make tools`")
    upstream = crds._schemas(kind)["inference.networking.x-k8s.io/v1alpha2"]
    for part in ("spec", "status"):
        ours = schema_of(role)["properties"][part]
        assert fields(ours) == fields(upstream["properties"][part])


@pytest.mark.parametrize("role", ["objective", "rewrite"])
def test_a_definition_has_no_key_that_pulumi_spells_in_another_way(role):
    assert "x-kubernetes-" not in json.dumps(definitions()[role])


def fields(schema: dict[str, Any], path: str = "") -> dict[str, tuple[str, tuple[str, ...]]]:
    """Returns type and required fields of every part of a schema by its path."""
    found = {path: (schema["type"], tuple(sorted(schema.get("required", ()))))}
    for name, body in schema.get("properties", {}).items():
        found |= fields(body, f"{path}.{name}")
    if "items" in schema:
        found |= fields(schema["items"], f"{path}[]")
    return found


def test_every_objective_fits_the_definition():
    model = RoutedModel("llama", "llama", {"a": "b"}, 8000, 60)
    allowed = set(schema_of("objective")["properties"]["spec"]["properties"])
    made = objectives(model, "models")
    assert len(made) == 2
    for objective in made:
        assert set(objective["spec"]) <= allowed

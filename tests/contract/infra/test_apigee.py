"""Apigee in place of the gate of a stack: what is built, and what the stack may not have."""

import json
from typing import Any

import pytest

from gke_inference.gateway.routes import PATHS_BY_TASK
from infra.project import services_of
from infra.reading.load import parse, platform_of
from infra.stack import Task
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import EXAMPLES
from tests.contract.infra.cloud import Deployed

ARMOR = {"failure": "closed", "filters": {"sensitive_data": True}, "kind": "model-armor"}


def document() -> dict[str, Any]:
    return platform_of(EXAMPLES / "apigee" / "Pulumi.apigee.yaml")


def test_apigee_takes_the_place_of_the_gate_its_keys_and_its_counters(deployed: Deployed):
    platform = parse(json.dumps(document()))
    assert "apigee.googleapis.com" in services_of(platform)
    found: dict[str, list[dict[str, Any]]] = {}
    for seen in deployed(platform).registrations:
        found.setdefault(seen.type.rpartition(":")[2], []).append(seen.inputs)
    (backend,) = found["ApigeeBackendService"]
    (gateway,) = found["Gateway"]
    (extension,) = found["GCPTrafficExtension"]
    assert extension["spec"]["targetRefs"][0]["name"] == gateway["metadata"]["name"]
    namespaces = {each["metadata"]["namespace"] for each in (backend, gateway, extension)}
    assert len(namespaces) == 1
    (place,) = backend["spec"]["locations"]
    assert place["name"] == "us-central1"
    subnetworks = "projects/acme-inference-local/regions/us-central1/subnetworks/"
    assert place["subnetwork"].startswith(subnetworks)
    assert "Secret" not in found, "no keys of the stack's own"
    images = [
        container["image"]
        for each in found["Deployment"]
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert not [image for image in images if "callout" in image]
    titles = [each["metadata"]["name"] for each in found["APIProduct"]]
    assert sorted(titles) == ["search", "trial"]


def test_products_have_the_paths_of_every_task(deployed: Deployed):
    seen = deployed(parse(json.dumps(document()))).registrations
    sets = [each.inputs["spec"] for each in seen if each.type.endswith(":APIOperationSet")]
    assert len(sets) == 2
    for spec in sets:
        paths = {each["path"] for each in spec["restOperations"]}
        assert not [task for task in Task if not paths.issuperset(PATHS_BY_TASK[task.value])]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"clients": {"teams": {"search": {"requests_per_minute": 1}}}},
            "clients.teams must not be set with clients.apigee: Apigee checks requests in place",
        ),
        ({"clients": {"anonymous": "a long reason"}}, "clients.anonymous must not be set with"),
        (
            {"clients": {"certificates": {"authorities": ["ca"], "teams": {"spiffe://a/b": "a"}}}},
            "clients.certificates must not be set with clients.apigee",
        ),
        (
            {"guardrails": {"armor": ARMOR}},
            "guardrails must not be set with clients.apigee: a Gateway has one traffic extension",
        ),
        (
            {"clients": {"apigee": {"environment": "llm", "products": {}}}},
            "clients.apigee.products must have at least 1",
        ),
        (
            {"clients": {"apigee": {"environment": "llm", "products": {"a": {"requests": 0}}}}},
            "clients.apigee.products.a.requests must be",
        ),
    ],
)
def test_what_apigee_excludes_is_refused(change: dict[str, Any], expected: str):
    found = document()
    for name, value in change.items():
        found[name] = {**found.get(name, {}), **value}
    with pytest.raises(StackError) as error:
        parse(json.dumps(found))
    assert expected in str(error.value)

"""Apigee in place of the gate of a stack: what is built, and what the stack may not have."""

import json
from typing import Any

import pytest

from gke_inference.gateway.routes import PATHS_BY_TASK
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack import Task
from infra.stack.problems import StackError
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

ARMOR = {"failure": "closed", "filters": {"sensitive_data": True}, "kind": "model-armor"}


def document() -> dict[str, Any]:
    return platform_of(EXAMPLES / "apigee" / "Pulumi.apigee.yaml")


def test_apigee_takes_the_place_of_the_gate_its_keys_and_its_counters(deployed: Deployed):
    platform = parse(json.dumps(document()))
    assert "apigee.googleapis.com" in resolve(platform).project.services
    found = deployed(platform).by_type()
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


def test_two_stacks_and_two_regions_share_no_name_in_an_apigee_organization(deployed: Deployed):
    found = document()
    (settings,) = found["regions"].values()
    ranges = {"nodes": "10.3.0.0/20", "pods": "10.24.0.0/14", "services": "10.4.0.0/20"}
    ranges["proxies"] = "10.5.0.0/23"
    second = {**settings, "zones": ["europe-west4-a"], "ranges": ranges}
    found["regions"]["europe-west4"] = second
    made: set[tuple[str, str]] = set()
    for environment in ("dev", "local"):
        found["environment"] = environment
        for each in deployed(parse(json.dumps(found))).registrations:
            kind = each.type.rpartition(":")[2]
            if kind == "APIProduct":
                assert each.inputs["spec"]["name"] == each.inputs["metadata"]["name"]
            if kind in ("APIProduct", "ApigeeBackendService"):
                pair = kind, each.inputs["metadata"]["name"]
                assert pair not in made
                made.add(pair)
    assert len(made) == 2 * 2 * 4
    assert ("APIProduct", "acme-dev-search-us-central1") in made
    assert ("ApigeeBackendService", "acme-local-apigee-europe-west4") in made


def test_products_have_the_paths_of_every_task(deployed: Deployed):
    seen = deployed(parse(json.dumps(document()))).registrations
    sets = [each.inputs["spec"] for each in seen if each.type.endswith(":APIOperationSet")]
    search, trial, vectors = (
        {each["path"] for each in spec["restOperations"]}
        for spec in sorted(sets, key=lambda spec: -spec["quota"]["limit"])
    )
    for paths in (search, trial):
        assert not [task for task, own in PATHS_BY_TASK.items() if not paths.issuperset(own)]
    assert vectors == {*PATHS_BY_TASK["embed"], "/v1/models"}
    assert {*PATHS_BY_TASK, "predict"} == set(Task)


def test_the_stack_creates_the_apps_of_developers_after_their_products(deployed: Deployed):
    seen = deployed(parse(json.dumps(document())))
    found = {each.type.rpartition(":")[2]: each for each in seen.registrations}
    apps = {
        each.inputs["name"]: each.inputs
        for each in seen.registrations
        if each.type.endswith(":DeveloperApp")
    }
    assert apps["acme-dev-site"]["apiProducts"] == ["acme-dev-search-us-central1"]
    assert apps["acme-dev-site"]["developerEmail"] == "search@example.com"
    assert apps["acme-dev-indexer"]["orgId"] == "organizations/acme-inference-local"
    order = [each.type.rpartition(":")[2] for each in seen.registrations]
    assert order.index("DeveloperApp") > order.index("APIProduct")
    assert set(found) >= {"Developer", "DeveloperApp", "ApigeeApps"}


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
            {
                "clients": {
                    "apigee": {"environment": "llm", "products": {"a" * 40: {"requests": 1}}}
                },
                "environment": "acceptance",
            },
            f"clients.apigee.products.{'a' * 40} has in us-central1 a name that must be 1 to 63",
        ),
        (
            {
                "clients": {
                    "apigee": {
                        "environment": "llm",
                        "products": {"a": {"requests": 1}},
                        "apps": {"site": {"developer": "a@example.com", "products": ["b"]}},
                    }
                }
            },
            "clients.apigee.apps.site.products[0] must be one of clients.apigee.products: a, "
            "got 'b'",
        ),
        (
            {
                "clients": {
                    "apigee": {
                        "environment": "llm",
                        "products": {"a": {"requests": 1, "tasks": ["predict"]}},
                    }
                }
            },
            "clients.apigee.products.a.tasks[0] must be one of embed, generate, image, video",
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
        found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    with pytest.raises(StackError) as error:
        parse(json.dumps(found))
    assert expected in str(error.value)

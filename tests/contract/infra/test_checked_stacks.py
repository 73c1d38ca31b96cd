"""Invariants over the objects of stacks that no engine renders in tests: examples and roles.

The shipped stacks are checked as the engine renders them, in tests/preview. Here a stand-in for
the engine gives the objects, in a second a stack.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.reading.load import parse, platform_of
from infra.stack import Platform
from policies.checker.checker import Report, check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from policies.objects.documents import Document, Source
from tests.contract.infra import test_disaggregation
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records, Registration
from tests.shipped_stacks import EXAMPLES
from twin.providers.kubernetes.manifests.objects import to_object

RULES = [listed.rule for listed in invariants().values()]


def example(folder: str) -> Platform:
    (file,) = (EXAMPLES / folder).glob("Pulumi.*.yaml")
    return parse(json.dumps(platform_of(file)))


STACKS: dict[str, tuple[Callable[[], Platform], str]] = {
    "backends": (lambda: example("backends"), "HTTPRoute"),
    "client-certificates": (lambda: example("client-certificates"), "GCPTrafficExtension"),
    "device-claims": (lambda: example("device-claims"), "ResourceClaimTemplate"),
    "existing-network": (lambda: example("existing-network"), "InferencePool"),
    "guardrails": (lambda: example("guardrails"), "GCPTrafficExtension"),
    "internal-front": (lambda: example("internal-front"), "GCPBackendPolicy"),
    "multi-host": (lambda: example("multi-host"), "LeaderWorkerSet"),
    "nearest-region": (lambda: example("nearest-region"), "GCPGatewayPolicy"),
    "images": (lambda: example("images"), "HealthCheckPolicy"),
    "ray": (lambda: example("ray"), "RayCluster"),
    "rdma": (lambda: example("rdma"), "ResourceClaimTemplate"),
    "sdxl": (lambda: example("sdxl"), "HealthCheckPolicy"),
    "three-regions": (lambda: example("three-regions"), "GCPGatewayPolicy"),
    "wide-ep": (lambda: example("wide-ep"), "LeaderWorkerSet"),
    "roles": (test_disaggregation.platform, "InferencePool"),
}
"""Stacks by name, each with a kind that has to be among its objects."""


def rendered(registrations: list[Registration]) -> list[Source]:
    """The objects that a program registered, apart for each cluster, as `render` writes them."""
    states = [
        {"type": seen.type, "urn": f"::{seen.type}::{seen.name}", "inputs": seen.inputs}
        for seen in registrations
    ]
    clusters: dict[str, list[Document]] = {}
    for seen in registrations:
        if seen.type.startswith("kubernetes:"):
            body = to_object(copy.deepcopy(seen.inputs))
            clusters.setdefault(seen.provider, []).append(Document(f"{seen.name}.yaml", body))
    return [Source(name, tuple(found), tuple(states)) for name, found in clusters.items()]


def checked(records: Records) -> tuple[Report, list[dict[str, Any]]]:
    found = rendered(records.registrations)
    bodies = [document.body for source in found for document in source.documents]
    return check_objects(found, RULES), bodies


FILES = [
    file
    for file in sorted(EXAMPLES.glob("*/Pulumi.*.yaml"))
    if file.parent.name not in STACKS and platform_of(file).get("layer") != "serving"
]
"""The other examples. A serving stack is read with its platform."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_every_other_example_passes_the_invariants(deployed: Deployed, file: Path) -> None:
    report, bodies = checked(deployed(parse(json.dumps(platform_of(file)))))
    assert report.objects == len(bodies) > 0
    assert [(one.rule, one.field, one.value, one.why) for one in report.of(Verdict.BROKEN)] == []


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_that_is_no_environment_passes_the_invariants(deployed: Deployed, name: str):
    make, kind = STACKS[name]
    report, bodies = checked(deployed(make()))
    assert kind in {body["kind"] for body in bodies}
    assert report.objects == len(bodies) > 20
    assert [(one.rule, one.field, one.value, one.why) for one in report.of(Verdict.BROKEN)] == []


def test_what_is_broken_in_such_a_stack_is_found(deployed: Deployed):
    found = rendered(deployed(example("multi-host")).registrations)
    for source in found:
        for document in source.documents:
            if document.body["kind"] == "LeaderWorkerSet":
                document.body["spec"]["leaderWorkerTemplate"]["size"] += 1
    broken = {each.rule for each in check_objects(found, RULES).of(Verdict.BROKEN)}
    assert "group-size-is-hosts" in broken

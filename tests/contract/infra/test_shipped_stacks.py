"""Every stack that is shipped passes what a pull request must pass, without an engine.

`tests/preview` runs the policy pack in the engine on the stacks of `stacks/`, for its own sake.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.load_balancing import BACKEND_PORTS
from infra.plan import resolve
from infra.platform_reference import planned, shared
from infra.reading.layers import platform_name
from infra.reading.load import STACKS, platform_of, read
from infra.stack import Layer
from infra.team_program import deploy_team
from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from policies.framework.reading import STACK_REFERENCE
from policies.objects.documents import Document, Source
from policies.pack.rendered import findings
from policies.rules import policies
from tests.contract.infra.broken_stacks import EXAMPLES
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.recorder import Registration
from twin.providers.kubernetes.manifests.objects import to_object

FILES = sorted([*STACKS.glob("Pulumi.*.yaml"), *EXAMPLES.glob("*/Pulumi.*.yaml")])
ADVISORY = {name for name, listed in policies().items() if listed.rule.level == "advisory"}
INVARIANTS = [listed.rule for listed in invariants().values()]


def title(file: Path) -> str:
    """Return the folder and the name of a stack."""
    return f"{file.parent.name}/{file.name.split('.')[1]}"


def registered(file: Path, cloud: CloudRecorder, deployed: Deployed) -> list[Registration]:
    """Return what the program of a stack registers."""
    platform = read(file.name.split(".")[1], file.parent)
    if platform.layer is not Layer.SERVING:
        return deployed(platform).registrations
    name = platform_name(str(platform_of(file)["platform"]))
    below = read(name, file.parent)
    clusters = {region: each.cluster_name for region, each in resolve(below).regions.items()}
    given = shared(name, planned(below, clusters, "gke-1.example.goog"))
    cloud.run(lambda: deploy_team(platform, given, with_delivered=True))
    reference = Registration(STACK_REFERENCE, name, {}, "", "", (), False, frozenset())
    return [reference, *cloud.registrations]


def state(stack: str, seen: Registration) -> dict[str, Any]:
    """Return a registration as `render` writes it."""
    urn = f"urn:pulumi:{stack}::gke-inference::{seen.type}::{seen.name}"
    return {"type": seen.type, "urn": urn, "inputs": seen.inputs, "protect": seen.protected}


def clusters_of(made: list[Registration], resources: tuple[dict[str, Any], ...]) -> list[Source]:
    """Return the objects of each cluster, as `check` reads them."""
    found: dict[str, list[Document]] = {}
    for seen in made:
        if seen.type.startswith("kubernetes:"):
            documents = found.setdefault(seen.provider, [])
            documents.append(Document(seen.name, to_object(seen.inputs)))
    return [
        Source(provider, tuple(objects), resources) for provider, objects in sorted(found.items())
    ]


def span(ports: str) -> range:
    """Return the ports of `8000` or `9002-9005`."""
    first, _, last = ports.partition("-")
    return range(int(first), int(last or first) + 1)


def balanced_ports(source: Source) -> Iterator[int]:
    """Yield the pod ports that proxies and health checks of load balancers reach."""
    for document in source.documents:
        body: dict[str, Any] = document.body
        spec = body.get("spec") or {}
        if body["kind"] == "InferencePool":
            yield from (each["number"] for each in spec["targetPorts"])
        if body["kind"] == "HealthCheckPolicy":
            config = spec["default"]["config"]
            checks = (value for key, value in config.items() if key.endswith("HealthCheck"))
            yield from (check["port"] for check in checks if "port" in check)


@pytest.mark.parametrize("file", FILES, ids=title)
def test_a_shipped_stack_breaks_no_mandatory_policy_and_no_invariant(
    cloud: CloudRecorder, deployed: Deployed, file: Path
) -> None:
    made = registered(file, cloud, deployed)
    states = tuple(state(file.name.split(".")[1], seen) for seen in made)
    assert [each.message for each in findings(states) if each.rule not in ADVISORY] == []
    sources = clusters_of(made, states)
    opened = {port for ports in BACKEND_PORTS for port in span(ports)}
    assert {each for source in sources for each in balanced_ports(source)} <= opened
    report = check_objects(sources, INVARIANTS)
    assert report.of(Verdict.BROKEN) == []
    assert report.objects >= 5

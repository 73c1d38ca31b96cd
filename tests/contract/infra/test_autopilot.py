"""What a platform renders for an Autopilot cluster is admitted there.

The decision is that of the webhook of the twin's Autopilot clusters.
"""

import json
from typing import Any

import pytest

from infra.reading.load import parse, platform_of
from infra.stack import Platform
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import stack as stack_named
from tests.contract.infra.test_example_resources import file_of
from twin.cluster.admission.decision import Decision, accelerator_classes, decide
from twin.cluster.admission.templates import PATHS

VERSION = "1.35.0-gke.1"
CHANGED = ("guardrails/guarded", "batch-slices", "personalized-images")
"""Examples on Standard whose programs, operators and jobs others do not have."""


def example(name: str) -> Platform:
    """Return the platform of an example."""
    return parse(json.dumps(platform_of(file_of(name))))


def on_autopilot(name: str) -> Platform:
    """Return the platform of an example with its clusters in Autopilot mode."""
    found: dict[str, Any] = platform_of(file_of(name))
    for region in found["regions"].values():
        region["mode"] = "autopilot"
        region.pop("system_pool", None)
    return parse(json.dumps(found))


def decisions(deployed: Deployed, platform: Platform, region: str) -> dict[str, Decision]:
    """Return what admission does with the workloads of a region's cluster, by resource."""
    made = [
        (seen.type.rpartition(":")[2], seen)
        for seen in deployed(platform).registrations
        if seen.name.startswith(f"{region}-") and seen.type.startswith("kubernetes:")
    ]
    classes = accelerator_classes(seen.inputs for kind, seen in made if kind == "ComputeClass")
    return {
        seen.name: decide(
            {"kind": kind, **seen.inputs}, seen.inputs["metadata"]["namespace"], VERSION, classes
        )
        for kind, seen in made
        if kind in PATHS
    }


def rejected(found: dict[str, Decision]) -> dict[str, dict[str, list[str]]]:
    """Return the violations of the workloads that have any."""
    assert len(found) > 3
    return {name: each.violations for name, each in found.items() if each.violations}


def test_every_workload_of_the_example_is_admitted(deployed: Deployed) -> None:
    assert rejected(decisions(deployed, example("autopilot"), "us-central1")) == {}


def test_every_workload_of_stagings_autopilot_cluster_is_admitted(deployed: Deployed) -> None:
    assert rejected(decisions(deployed, stack_named("staging"), "us-east1")) == {}


@pytest.mark.parametrize("name", CHANGED)
def test_every_workload_of_an_example_is_admitted_once_its_clusters_are_in_autopilot_mode(
    deployed: Deployed, name: str
) -> None:
    platform = on_autopilot(name)
    (region,) = platform.regions
    assert rejected(decisions(deployed, platform, region)) == {}


def test_pods_of_two_kinds_of_chips_that_a_stack_refuses_on_autopilot_are_rejected(
    deployed: Deployed,
) -> None:
    """The form dual-container is allowed on Standard only: so is what it renders."""
    found = rejected(decisions(deployed, stack_named("dev"), "us-central1"))
    assert "autogke-disallow-privilege" in found["us-central1-llama-3-1-8b-any"]

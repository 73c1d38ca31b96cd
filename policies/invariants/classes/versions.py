"""The cluster version supports the fields that its compute classes use."""

import re
from collections.abc import Iterator

from gke_inference.catalogue.versions import gke_minimum
from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import CLUSTER
from policies.framework.rule import Invariant
from policies.objects.compute_classes import rungs
from policies.objects.index import Obj
from policies.objects.world import World

_SCORE = "compute-class-priority-score"


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        if any("priorityScore" in rung.body for rung in rungs(each)):
            yield from _findings(world, each, "spec.priorities[].priorityScore", _SCORE)


def _findings(world: World, each: Obj, field: str, feature: str) -> Iterator[Finding]:
    least, found = gke_minimum(feature), _version(world)
    if found is None:
        yield unknown(
            each,
            field,
            None,
            f"it needs GKE {least}, and the cluster's version was not read",
            "compare with the cluster's version",
        )
    elif _key(found) < _key(least):
        yield broken(
            each,
            field,
            found,
            f"the cluster version may be as old as {found}, it needs {least}",
            f"set the cluster's minimum to {least}",
        )


def _version(world: World) -> str | None:
    for resource in world.resources or ():
        inputs = resource.get("inputs", {})
        if resource.get("type") == CLUSTER and inputs.get("name") == world.name:
            version = inputs.get("minMasterVersion")
            return None if version is None else str(version)
    return None


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


RULE = Invariant(
    name="class-fields-known",
    description="The cluster's minimum version supports the fields that its classes use.",
    reference="ComputeClass reference; AICR #1255: a floor that is too low",
    check=_check,
)

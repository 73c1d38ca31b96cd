"""Compute classes can create node pools, or name existing ones."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.compute_classes import rungs
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        if each.at("spec", "nodePoolAutoCreation", "enabled") is True:
            continue
        if each.at("spec", "autopilot", "enabled") is True:
            continue
        unnamed = [rung.path for rung in rungs(each) if not rung.body.get("nodepools")]
        if unnamed:
            yield broken(
                each,
                "spec.nodePoolAutoCreation.enabled",
                each.at("spec", "nodePoolAutoCreation", "enabled"),
                f"off by default, and {', '.join(unnamed)} name no node pool: no nodes are created",
                "set nodePoolAutoCreation: {enabled: true}, or name the pools",
            )


RULE = Invariant(
    name="class-makes-nodes",
    description="A class can create node pools, or each of its rungs names existing ones.",
    reference="gke-labs/kube-agents #1774: auto-creation is off by default",
    check=_check,
)

"""A compute class can make nodes: it may create pools, or names those there are."""

from collections.abc import Iterator

from policies.invariants.engines import rungs
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import World


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
                f"off by default, and {', '.join(unnamed)} name no node pool: no node is made",
                "write nodePoolAutoCreation: {enabled: true}, or name the pools",
            )


INVARIANT = Invariant(
    name="class-makes-nodes",
    holds="A class may create node pools, or each of its rungs names some.",
    source="gke-labs/kube-agents #1774: auto-creation is off by default",
    check=_check,
)

"""Compute classes define how nodes are spread across zones."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.accelerators import GPU
from policies.objects.compute_classes import ClassRung, rungs
from policies.objects.index import Obj
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        for rung in rungs(each):
            yield from _packed(each, rung)
        if each.at("spec", "priorityDefaults", "location", "locationPolicy") is not None:
            continue
        silent = [
            rung.path
            for rung in rungs(each)
            if at(rung.body, "location", "locationPolicy") is None
            and not rung.body.get("nodepools")
            and len(entries(rung.body, "location", "zones")) != 1
            and at(rung.body, "reservations", "affinity") != "Specific"
        ]
        if silent:
            yield broken(
                each,
                "spec.priorities[].location.locationPolicy",
                None,
                f"not set in {', '.join(silent)}: the default ANY may put all nodes into one zone",
                "set BALANCED to spread, or ANY to allow one zone",
            )


def _packed(each: Obj, rung: ClassRung) -> Iterator[Finding]:
    """Yield rungs whose nodes may all be in one zone although several zones offer them.

    ANY is right for scarce machines, where one zone with capacity is better than none.
    """
    policy = at(rung.body, "location", "locationPolicy")
    alone = len(entries(rung.body, "location", "zones")) == 1
    reserved = at(rung.body, "reservations", "affinity") not in (None, "None")
    if (
        policy == "ANY"
        and rung.provisioning == "on-demand"
        and rung.resource == GPU
        and not (alone or reserved)
    ):
        yield broken(
            each,
            f"{rung.path}.location.locationPolicy",
            policy,
            "may put all nodes of an on-demand rung into one zone, where one outage removes them",
            "set BALANCED, or set the one intended zone",
        )


RULE = Invariant(
    name="class-spreads-zones",
    description="Each rung with several zones sets its location policy.",
    reference="google/skills gke-compute-classes: the default ANY packs one zone; 42 of 42 classes",
    check=_check,
)

"""No rung of a class prevents later rungs from being tried."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.compute_classes import rungs
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        listed = rungs(each)
        for rung in listed[:-1]:
            affinity = at(rung.body, "reservations", "affinity")
            if affinity == "AnyBestEffort":
                yield broken(
                    each,
                    f"{rung.path}.reservations.affinity",
                    affinity,
                    "falls back to on-demand inside Compute Engine, so that "
                    f"{len(listed) - rung.index - 1} rungs below may never be tried",
                    "set affinity: Specific with the reservation's name",
                )


RULE = Invariant(
    name="class-reaches-rungs",
    description="Only the last rung of a class uses AnyBestEffort reservations.",
    reference="google/skills gke-compute-classes, gotchas: AnyBestEffort; 30 of 42 published "
    "classes",
    check=_check,
)

"""No rung of a class keeps those below it from being tried."""

from collections.abc import Iterator

from policies.invariants.engines import rungs
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import World
from policies.reading import at


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
                    "write affinity: Specific with the reservation's name",
                )


INVARIANT = Invariant(
    name="class-reaches-rungs",
    holds="Only the last rung of a class takes any reservation as best effort.",
    source="google/skills gke-compute-classes, gotchas: AnyBestEffort; 30 of 42 published classes",
    check=_check,
)

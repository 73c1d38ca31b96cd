"""A compute class says how its nodes are spread over zones."""

from collections.abc import Iterator

from policies.invariants.engines import rungs
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import World
from policies.reading import at, entries


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
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
                f"not said in {', '.join(silent)}: the default ANY may pack one zone",
                "write BALANCED to spread, or ANY where one zone is meant",
            )


INVARIANT = Invariant(
    name="class-spreads-zones",
    holds="Each rung that may use several zones states its location policy.",
    source="google/skills gke-compute-classes: the default ANY packs one zone; 42 of 42 classes",
    check=_check,
)

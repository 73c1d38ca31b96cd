"""Classes look for reservations in the zones where they are."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import CLUSTER, at, entries
from policies.framework.rule import Invariant
from policies.objects.compute_classes import rungs
from policies.objects.world import World

_RESERVATION = "gcp:compute/reservation:Reservation"


def _check(world: World) -> Iterator[Finding]:
    nodes, made = _node_zones(world), _reservations(world)
    for each in world.of("ComputeClass"):
        for rung in rungs(each):
            for number, entry in enumerate(entries(rung.body, "reservations", "specific")):
                name, zones = str(entry.get("name")), [str(zone) for zone in entry.get("zones", ())]
                field = f"{rung.path}.reservations.specific[{number}].zones"
                for zone in zones:
                    if nodes and zone not in nodes:
                        yield broken(
                            each,
                            field,
                            zone,
                            f"the cluster has nodes in {', '.join(sorted(nodes))} only",
                            "use zones of the cluster, or add the zone to it",
                        )
                if name in made and zones and made[name].isdisjoint(zones):
                    yield broken(
                        each,
                        field,
                        ", ".join(zones),
                        f"reservation {name} is in {', '.join(sorted(made[name]))}",
                        "use the zone of the reservation",
                    )


def _node_zones(world: World) -> set[str]:
    """Return the zones of the cluster's nodes, or none if not specified."""
    for resource in world.resources or ():
        inputs = resource.get("inputs", {})
        if resource.get("type") == CLUSTER and inputs.get("name") == world.name:
            zones = {str(zone) for zone in entries(inputs, "nodeLocations")}
            location = str(inputs.get("location", ""))
            return zones | ({location} if zones and location.count("-") > 1 else set())
    return set()


def _reservations(world: World) -> dict[str, set[str]]:
    """Return the zones of the reservations that the stack creates, by name."""
    found: dict[str, set[str]] = {}
    for resource in world.resources or ():
        if resource.get("type") == _RESERVATION:
            inputs = resource.get("inputs", {})
            found.setdefault(str(inputs.get("name")), set()).add(str(at(inputs, "zone")))
    return found


RULE = Invariant(
    name="class-reservation-zones",
    description="Reservation zones are zones of the cluster that contain the reservation.",
    reference="gke-labs/kube-agents: a class that names a zone its reservation is not in",
    check=_check,
)

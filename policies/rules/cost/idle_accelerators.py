"""Unused accelerators cost nothing."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import ACCELERATOR_PREFIXES, NODE_POOL, at, entries, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    machine = str(at(resource.props, "nodeConfig", "machineType"))
    has_chips = machine.startswith(ACCELERATOR_PREFIXES) or entries(
        resource.props, "nodeConfig", "guestAccelerators"
    )
    reserved = at(resource.props, "nodeConfig", "reservationAffinity", "consumeReservationType")
    if not has_chips or reserved == "SPECIFIC_RESERVATION":
        return  # reservations are billed in any case
    for name in ("minNodeCount", "totalMinNodeCount"):
        least = at(resource.props, "autoscaling", name)
        if isinstance(least, int | float) and least > 0:
            yield broken(
                resource, f"autoscaling.{name}", f"{least:g}", "must be 0 without a reservation"
            )


RULE = ResourceRule(
    name="idle-accelerators",
    description="Accelerator node pools scale to zero, unless their VMs are reserved.",
    applies=is_type(NODE_POOL),
    check=_check,
    reference="GKE: cluster autoscaler scales pools to zero",
    level="advisory",
)

"""What the parts of a stack that `plan --stack` does not change cost and use."""

from collections.abc import Collection, Iterator

from gke_inference.catalogue.hardware import hardware
from infra.estimate.claims import Claim, claims
from infra.estimate.quota_needs import model_requirements, upgrade_requirements
from infra.estimate.quota_nodes import QuotaRequirement, system_requirements
from infra.plan import Plan, RegionPlan
from planner.advice.portfolio import Key, Rest
from planner.amount import Amount, total
from planner.choice.cost import Bill

_AUTO = "auto_provisioning_limits"


def auto_key(region: str, word: str) -> Key:
    """Return the key of the chips of an accelerator that a region's cluster may provision."""
    return region, f"{_AUTO} {hardware(word).gke_type}"


def auto_limits(plan: Plan) -> dict[Key, int]:
    """Return the chip limits that the stack itself sets."""
    return {
        (name, f"{_AUTO} {kind}"): most
        for name, region in plan.regions.items()
        for kind, most in (region.settings.auto_provisioning_limits or {}).items()
    }


def peak_of(bill: Bill, without: Collection[str]) -> Amount:
    """Return the hourly cost of the other models at their maximum, on the first priced rung."""
    return total(
        (line.expected if line.replica is None else line.replica * line.served.replicas.max)
        for line in bill.lines
        if line.served.model not in without
    )


def rest_of(plan: Plan, bill: Bill, without: Collection[str]) -> Rest:
    """Return the cost and quotas of a stack without some of its models.

    Args:
        plan: The stack.
        bill: Its bill.
        without: Names of the models to choose hardware for.
    """
    uses: dict[Key, int] = {}
    spare: dict[tuple[Key, str], int] = {}
    for name, region in plan.regions.items():
        for required in _requirements(region, without):
            key = (required.region, required.metric.label)
            uses[key] = uses.get(key, 0) + required.amount
        for claim in claims(region, without):
            for key, chips in _chips(name, claim).items():
                uses[key] = uses.get(key, 0) + chips
        for required in upgrade_requirements(region, without):
            place = ((required.region, required.metric.label), name)
            spare[place] = max(spare.get(place, 0), required.amount)
    return Rest(peak_of(bill, without).value, uses, spare)


def _requirements(region: RegionPlan, without: Collection[str]) -> Iterator[QuotaRequirement]:
    for claim in claims(region, without):
        yield from model_requirements(region, claim)
    yield from system_requirements(region)


def _chips(region: str, claim: Claim) -> dict[Key, int]:
    """Return the most chips of each accelerator that a claim uses at a time."""
    found: dict[Key, int] = {}
    for at, rung in claim.rungs.items():
        key = auto_key(region, rung.accelerator)
        found[key] = max(found.get(key, 0), claim.nodes(at) * rung.chips_per_node)
    return found

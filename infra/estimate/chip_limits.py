"""The maximum number of chips that pods in the namespace of the models may request in total.

The limit is for stray pods. During an `up`, pods of the old and the new settings exist together: a
replaced pod keeps its chips while it drains, and a removed model is deleted last. The limit of the
new settings applies to all of them, so it must not follow the size of a replica or the hardware
that a model uses.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from gke_inference.catalogue.rungs import Rung
from infra.estimate.claims import model_claims
from infra.plan import Plan, RegionPlan

KINDS: Final = ("gpu", "tpu")
_LEAST_REPLICAS: Final = 16
"""Replicas that a region without more counts, so that a large model can be replaced by a small
one."""


def chip_limits(region: RegionPlan) -> dict[str, int]:
    """Return the limit of a region by kind, or nothing if the stack turns limits off.

    By default, twice all replicas of the models, or twice 16, each on the largest rung of the kind
    in any capacity of the region; more if the node pools of its capacities can have more.
    """
    settings = region.settings.chip_limits
    if not settings.enabled:
        return {}
    given = {"gpu": settings.gpu, "tpu": settings.tpu}
    computed = {kind: max(_headroom(region, kind), _pooled(region, kind)) for kind in KINDS}
    return {kind: computed[kind] if own is None else own for kind, own in given.items()}


def chips(region: RegionPlan) -> dict[str, int]:
    """Return the chips that all replicas of a region's models can request, by kind."""
    return {
        kind: sum(claim.replicas * _largest(claim.rungs, kind) for claim in model_claims(region))
        for kind in KINDS
    }


def short_limits(old: Plan, new: Plan) -> Iterator[str]:
    """Yield the limits of a change that the old replicas of its models exceed.

    An update of such a model stops: it deletes an old pod, and the limit rejects the new one. Old
    replicas above the new maximum are no problem, because the autoscaler deletes them first.

    Args:
        old: The deployed stack.
        new: The stack after the change.
    """
    for name in old.regions.keys() & new.regions.keys():
        most = {claim.who: claim.replicas for claim in model_claims(new.regions[name])}
        limits = chip_limits(new.regions[name])
        for kind, limit in limits.items():
            held = sum(
                min(claim.replicas, most.get(claim.who, 0)) * _largest(claim.rungs, kind)
                for claim in model_claims(old.regions[name])
            )
            if held > limit:
                where = f"regions.{name}.chip_limits.{kind}"
                yield (
                    f"{where}: must be at least {held}, the chips that old replicas hold during the"
                    f" rollout, got {limit}; raise it, and remove it afterwards"
                )


def _headroom(region: RegionPlan, kind: str) -> int:
    replicas = max(sum(claim.replicas for claim in model_claims(region)), _LEAST_REPLICAS)
    sizes = [_largest(capacity.rungs, kind) for capacity in region.capacity.values()]
    return 2 * replicas * max(sizes, default=0)


def _largest(rungs: Mapping[int, Rung], kind: str) -> int:
    return max((rung.chips for rung in rungs.values() if rung.kind == kind), default=0)


def _pooled(region: RegionPlan, kind: str) -> int:
    """Return the chips of all node pools that the stack creates, at their maximum in every zone."""
    zones = len(region.settings.zones)
    return sum(
        pools.max_nodes * zones * rung.chips_per_node
        for capacity in region.capacity.values()
        if (pools := capacity.settings.node_pools) is not None
        for rung in capacity.rungs.values()
        if rung.kind == kind
    )

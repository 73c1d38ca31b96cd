"""The maximum number of nodes of a placement policy."""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.input_error import Bare, InputError
from infra.plan import Plan, RegionCapacity, RegionPlan
from infra.quota.claims import claims, upgrades
from infra.stack.problems import join


def check_placement(plan: Plan) -> Iterator[InputError]:
    """Yield the capacities whose compact nodes do not fit in one placement policy.

    Args:
        plan: A resolved stack without other problems.
    """
    for region in plan.regions.values():
        for capacity in region.used_capacity:
            problem = _problem(region, capacity) if capacity.is_compact else None
            if problem is not None:
                yield problem


def _problem(region: RegionPlan, capacity: RegionCapacity) -> InputError | None:
    where, close = join("capacity", capacity.name), capacity.compact_rungs
    limits = [accelerator(capacity.rungs[at].accelerator).compact for at in close]
    most = min(limit.most_nodes for limit in limits if limit is not None)
    pools = capacity.settings.node_pools
    if pools is not None:
        surge = _added(region, capacity)
        allowed = (most - surge) // len(close)
        if pools.max_nodes <= allowed:
            return None
        noun = "rung" if len(close) == 1 else "rungs"
        rule = f"must be at most {allowed} for compact nodes of {len(close)} {noun}"
        if surge:
            rule += f" with max_surge {surge}"
        return InputError(join(where, "node_pools", "max_nodes"), rule, pools.max_nodes)
    needed = _nodes(region, capacity)
    if needed <= most:
        return None
    note = ", with updates and upgrades; 'placement: any' has no limit"
    return InputError(where, f"must need at most {most} compact nodes", Bare(str(needed)), note)


def _nodes(region: RegionPlan, capacity: RegionCapacity) -> int:
    """Return the maximum number of compact nodes: each claim on the rung that takes most."""
    close = capacity.compact_rungs
    found = sum(
        max((claim.nodes(at) for at in claim.rungs if at in close), default=0)
        for claim in claims(region)
        if claim.capacity.name == capacity.name
    )
    return found + _added(region, capacity)


def _added(region: RegionPlan, capacity: RegionCapacity) -> int:
    """Return the compact nodes that an upgrade adds. Node pools are upgraded one after another."""
    added = (
        nodes
        for upgraded, at, nodes in upgrades(region)
        if upgraded.name == capacity.name and at in capacity.compact_rungs
    )
    return max(added, default=0)

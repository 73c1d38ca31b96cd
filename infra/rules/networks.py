"""Rules about networks between GPU nodes and their placement: both are within one zone."""

from collections.abc import Iterator, Mapping

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rungs import Rung
from infra.estimate.claims import claims, upgrades
from infra.plan import CapacityByRegion, Plan, RegionCapacity, RegionPlan, prefill_capacity
from infra.stack import ClusterMode, Layer, Model, Platform


def check_networks(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of RDMA rungs and of the models on them.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    for name in platform.capacity:
        for capacity in by_region[name].values():
            problems: list[InputError] = []
            if capacity.is_used and capacity.has_rdma:
                problems = list(_check_capacity(platform, capacity))
                yield from problems
            if capacity.is_used and capacity.is_compact and not problems:
                yield from _check_placement(platform, capacity)
    for name, model in platform.models.items():
        if model.capacity in platform.capacity:
            yield from _check_model(platform, by_region, model, join("models", name))


def _check_capacity(platform: Platform, capacity: RegionCapacity) -> Iterator[InputError]:
    where = join("capacity", capacity.name, "rungs")
    region = capacity.region
    if platform.regions[region].mode is ClusterMode.AUTOPILOT:
        # RDMA takes the capability IPC_LOCK, which is not among those that Autopilot admits
        # (docs.cloud.google.com/kubernetes-engine/docs/concepts/autopilot-security).
        rule = f"must have network tcp in {region}, which is autopilot"
        yield InputError(where, rule, Bare("rdma"))
        return
    zones = sorted({zone for at in capacity.rdma_rungs for zone in capacity.zones[at]})
    if len(zones) != 1:
        at = next(iter(capacity.rdma_rungs))
        field = "reservation_zones" if capacity.rungs[at].reservation is not None else "zones"
        rule = f"must be one zone in {region} for all rungs: RDMA does not cross zones"
        yield InputError(join(where, at, field), rule, Bare(", ".join(zones)))


def _check_placement(platform: Platform, capacity: RegionCapacity) -> Iterator[InputError]:
    """Yield the problems of compact nodes: Autopilot, several zones or several series."""
    where, region = join("capacity", capacity.name), capacity.region
    for at, rung in capacity.rungs.items():
        field = join(where, "rungs", at, "placement")
        if rung.placement != "compact" or rung.network == "rdma":
            continue  # nodes with RDMA are in one zone of a standard cluster
        if platform.regions[region].mode is ClusterMode.AUTOPILOT:
            yield InputError(field, f"must be 'any' in {region}, which is autopilot", "compact")
            return
        if len(capacity.zones[at]) != 1:
            zones = Bare(", ".join(capacity.zones[at]))
            rule = f"must be one zone in {region} for compact nodes"
            yield InputError(join(where, "rungs", at, "zones"), rule, zones)
            return
    close = {at: capacity.rungs[at] for at in capacity.compact_rungs}
    problem = _check_policy(where, capacity, close)
    if problem is not None:
        yield problem


def _check_policy(
    where: str, capacity: RegionCapacity, close: Mapping[int, Rung]
) -> InputError | None:
    """Return what rungs of one policy do not have in common: the zone or the machine series."""
    zones = sorted({zone for at in close for zone in capacity.zones[at]})
    if len(zones) > 1:
        rule = f"must have one zone in {capacity.region} for all compact rungs"
        return InputError(join(where, "rungs"), rule, Bare(", ".join(zones)))
    series = sorted({rung.machine_type.partition("-")[0] for rung in close.values()})
    if len(series) > 1:
        rule = "must have machines of one series for all compact rungs"
        return InputError(join(where, "rungs"), rule, Bare(" and ".join(series)))
    return None


def _check_model(
    platform: Platform, by_region: CapacityByRegion, model: Model, where: str
) -> Iterator[InputError]:
    """Yield problems of a model with RDMA: layers that cannot run it, and roles out of reach."""
    prefill = prefill_capacity(model)
    names = [name for name in (model.capacity, prefill) if name in platform.capacity]
    for region in platform.regions_of(model):
        here = [by_region[str(name)][region] for name in names]
        if any(each.problems for each in here):
            return
        if platform.layer is Layer.SERVING and any(each.has_rdma for each in here):
            rule = "must be capacity without RDMA when layer is serving"
            note = ": its pods need a privileged namespace"
            yield InputError(join(where, "capacity"), rule, model.capacity, note)
            return
        if prefill is None:
            continue
        field = join(where, "disaggregated", "prefill", "capacity")
        networks = sorted({str(rung.network) for each in here for rung in each.rungs.values()})
        if len(networks) > 1:
            rule = "must have the network of the decode replicas"
            yield InputError(field, rule, Bare(" and ".join(networks)))
            return
        zones = {zone for each in here for at in each.rdma_rungs for zone in each.zones[at]}
        if len(zones) > 1:
            rule = (
                f"must be in the zone of the decode replicas in {region}: RDMA does not cross zones"
            )
            yield InputError(field, rule, Bare(", ".join(sorted(zones))))
            return


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
    limits = [capacity.rungs[at].chip.compact for at in close]
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
    nodes = sum(
        max((claim.nodes(at) for at in claim.rungs if at in close), default=0)
        for claim in claims(region)
        if claim.capacity.name == capacity.name
    )
    return nodes + _added(region, capacity)


def _added(region: RegionPlan, capacity: RegionCapacity) -> int:
    """Return the compact nodes that an upgrade adds. Node pools are upgraded one after another."""
    added = (
        nodes
        for upgraded, at, nodes in upgrades(region)
        if upgraded.name == capacity.name and at in capacity.compact_rungs
    )
    return max(added, default=0)

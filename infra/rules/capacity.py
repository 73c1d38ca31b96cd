"""Rules about capacity: valid rungs, in regions that offer them."""

from collections.abc import Iterator

from gke_inference.capacity.node_settings import check_nodes
from gke_inference.capacity.settings import check_blue_green, check_limits, check_upgrades
from gke_inference.catalogue.input_error import Bare, InputError, UnknownName
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rungs import Rung
from infra.plan import CapacityByRegion, RegionCapacity
from infra.stack import Capacity, ClusterMode, Platform
from infra.stack.capacity import NodePools


def check_capacity(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's capacity.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    for name, capacity in platform.capacity.items():
        used = [each for each in by_region[name].values() if each.is_used]
        problems = list(_check_zones(platform, name, capacity))
        yield from problems
        if not problems:
            problems = list(_check_rungs(name, used, [*by_region[name].values()]))
            yield from problems
        if not problems:
            yield from _check_places(platform, name, used)
            yield from _check_shapes(used)
            yield from _check_slices(used)
        yield from _check_pools(platform, name, capacity, used)
        yield from _check_reservations(name, used, by_region)
        if capacity.image_cache and platform.storage.image_cache is None:
            message = "needs 'storage.image_cache', which defines the image"
            yield InputError(join("capacity", name, "image_cache"), message, True, " without one")


def _check_zones(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    """Zones must be node zones of the stack, since a cluster provisions nodes only in those."""
    node_zones = [zone for region in platform.regions.values() for zone in region.zones]
    for at, rung in enumerate(capacity.rungs):
        for field, zones in (("zones", rung.zones), ("reservation_zones", rung.reservation_zones)):
            for zone in dict.fromkeys(zones or ()):
                if zone not in node_zones:
                    where = join("capacity", name, "rungs", at, field)
                    message = f"must be among the zones of 'regions' ({', '.join(node_zones)})"
                    yield UnknownName(where, message, zone)


def _check_rungs(
    name: str, used: list[RegionCapacity], every: list[RegionCapacity]
) -> Iterator[InputError]:
    """Report a rung that is invalid everywhere once, for the first region that would use it."""
    reported: set[str | int] = set()
    for capacity in used or every:
        if not capacity.arguments and used:
            message = f"must have a rung in {capacity.region}, where a model runs on it"
            yield InputError(join("capacity", name, "rungs"), message, None)
        for at, problem in capacity.problems.items():
            if reported.isdisjoint({at, problem.message}):
                reported |= {at, problem.message}
                yield problem


def _check_places(
    platform: Platform, name: str, used: list[RegionCapacity]
) -> Iterator[InputError]:
    """A rung without zones needs a zone of the cluster that has its chip."""
    for capacity in used:
        zones = platform.regions[capacity.region].zones
        for at, rung in capacity.rungs.items():
            listed = rung.zones_in(capacity.region)
            trusted = capacity.settings.rungs[at].allow_unlisted_zones
            if trusted or not listed or capacity.listed_zones[at]:
                continue
            where = join("regions", capacity.region, "zones")
            rung_path = join("capacity", name, "rungs", at)
            message = f"must have one of {', '.join(listed)} for {rung_path} ({rung.label})"
            yield InputError(where, message, Bare(", ".join(zones)))


def _check_shapes(used: list[RegionCapacity]) -> Iterator[InputError]:
    """One Deployment serves all rungs of a kind, so all must offer a pod the same chips."""
    for capacity in used:
        firsts: dict[str, tuple[int, Rung]] = {}
        seen: dict[Rung, int] = {}
        for at, rung in capacity.rungs.items():
            where = join("capacity", capacity.name, "rungs", at)
            if rung in seen:
                other = join("capacity", capacity.name, "rungs", seen[rung])
                yield InputError(where, f"must not repeat {other}", Bare(rung.label))
                return
            seen[rung] = at
            first_at, first = firsts.setdefault(rung.kind, (at, rung))
            if rung.shape != first.shape:
                other = join("capacity", capacity.name, "rungs", first_at)
                message = f"must have the shape of {other} ({first.label})"
                note = ": one pod fits both; use two capacities"
                yield InputError(where, message, Bare(rung.label), note)
                return


def _check_reservations(
    name: str, used: list[RegionCapacity], by_region: CapacityByRegion
) -> Iterator[InputError]:
    """A reservation is requested once; other rungs that name it use it."""
    for capacity in used:
        for at, rung in capacity.reserved_rungs.items():
            for other in (each[capacity.region] for each in by_region.values()):
                for place, one in other.reserved_rungs.items():
                    where = join("capacity", other.name, "rungs", place)
                    mine = join("capacity", name, "rungs", at)
                    is_same = (one.reservation, one.reservation_zones) == (
                        rung.reservation,
                        rung.reservation_zones,
                    )
                    if is_same and other.is_used and where < mine:
                        rule = f"must be unset: {where} requests the same reservation"
                        value = rung.reservation_machines
                        yield InputError(join(mine, "reservation_machines"), rule, value)


def _check_slices(used: list[RegionCapacity]) -> Iterator[InputError]:
    """GKE creates one node pool per slice, and a slice cannot be moved."""
    for capacity in used:
        for at, rung in capacity.rungs.items():
            if not rung.is_slice:
                continue
            why = f"{join('capacity', capacity.name, 'rungs', at)} is a slice of {rung.hosts} hosts"
            if capacity.settings.move_back:
                where = join("capacity", capacity.name, "move_back")
                yield InputError(where, f"must be false: {why}", True)
            if capacity.settings.node_pools is not None:
                where = join("capacity", capacity.name, "node_pools")
                yield InputError(where, f"must not be set: {why}, which needs its own node pool")
            return


def _check_pools(
    platform: Platform, name: str, capacity: Capacity, used: list[RegionCapacity]
) -> Iterator[InputError]:
    yield from _check_nodes(platform, name, capacity, used)
    pools = capacity.node_pools
    if pools is None:
        return
    where = join("capacity", name, "node_pools")
    yield from check_limits(where, pools.min_nodes, pools.max_nodes)
    yield from check_upgrades(where, pools.max_surge, pools.max_unavailable)
    if pools.blue_green is not None:
        yield from _check_blue_green(join(where, "blue_green"), pools, used)
    for each in used:
        if platform.regions[each.region].mode is ClusterMode.AUTOPILOT:
            message = (
                f"must not be set: GKE creates every pool in {each.region}, which is autopilot"
            )
            yield InputError(where, message)


def _check_blue_green(
    where: str, pools: NodePools, used: list[RegionCapacity]
) -> Iterator[InputError]:
    given = pools.model_fields_set & {"max_surge", "max_unavailable"}
    if given:
        rule = f"must not be set with {' and '.join(sorted(given))}, which are of surge upgrades"
        yield InputError(where, rule)
        return
    rungs = (rung for each in used for rung in each.rungs.values())
    problem = next((one for rung in rungs for one in check_blue_green(where, rung)), None)
    if problem is not None:
        yield problem


def _check_nodes(
    platform: Platform, name: str, capacity: Capacity, used: list[RegionCapacity]
) -> Iterator[InputError]:
    """Node settings are for Standard clusters, and must suit every rung."""
    nodes = capacity.nodes
    if nodes is None:
        return
    where = join("capacity", name, "nodes")
    for each in used:
        if platform.regions[each.region].mode is ClusterMode.AUTOPILOT:
            rule = f"must not be set: GKE manages the nodes in {each.region}, which is autopilot"
            yield InputError(where, rule, Bare(", ".join(sorted(nodes.model_fields_set))))
            return
    yield from check_nodes(
        where,
        nodes,
        [rung for each in used for rung in each.rungs.values()],
        has_pools=capacity.node_pools is not None,
        has_image_cache=capacity.image_cache,
    )

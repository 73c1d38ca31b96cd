"""Rules about capacity: rungs that exist, in regions that have them."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung, check_rung
from infra.plan.capacity import checked_rungs, regions_using, rung_args
from infra.stack import Capacity, ClusterMode, Platform
from infra.stack.problems import join


def check_capacity(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the capacity of a platform."""
    for name, capacity in platform.capacity.items():
        problems = list(_check_zones(platform, name, capacity))
        yield from problems
        if not problems:
            problems = list(_check_rungs(platform, name, capacity))
            yield from problems
        if not problems:
            yield from _check_shapes(platform, name, capacity)
            yield from _check_slices(platform, name, capacity)
        yield from _check_pools(platform, name, capacity)
        if capacity.image_cache and platform.storage.image_cache is None:
            message = "needs 'storage.image_cache', which says which image"
            yield InputError(join("capacity", name, "image_cache"), message, True, " without one")


def _check_zones(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    """Zones must be node zones of the stack: a cluster looks for machines nowhere else."""
    known = [zone for region in platform.regions.values() for zone in region.zones]
    for at, rung in enumerate(capacity.rungs):
        for field, zones in (("zones", rung.zones), ("reservation_zones", rung.reservation_zones)):
            for zone in zones or ():
                if zone not in known:
                    where = join("capacity", name, "rungs", at, field)
                    message = f"must be among the zones of 'regions' ({', '.join(known)})"
                    yield InputError(where, message, zone)


def _check_rungs(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    """A rung that is wrong everywhere is reported once, for the first region that would use it."""
    regions = regions_using(platform, name)
    reported: set[str] = set()
    for region in regions or tuple(platform.regions):
        if not capacity.rungs_in(region) and regions:
            message = f"must have a rung in {region}, where a model runs on it"
            yield InputError(join("capacity", name, "rungs"), message, None)
        for at in capacity.rungs_in(region):
            problem = _rung_problem(platform, name, region, at)
            known = {join("rungs", at), "" if problem is None else problem.message}
            if problem is not None and not known & reported:
                reported |= known
                yield problem


def _rung_problem(platform: Platform, name: str, region: str, at: int) -> InputError | None:
    rung = platform.capacity[name].rungs[at]
    try:
        check_rung(
            rung_args(rung, region, platform.project),
            join("capacity", name, "rungs", at),
            region=region,
        )
    except InputError as error:
        return error
    return None


def _check_shapes(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    """One Deployment serves all rungs of a kind, so they must offer a pod the same chips."""
    for region in regions_using(platform, name):
        firsts: dict[str, tuple[int, Rung]] = {}
        seen: dict[Rung, int] = {}
        for at, rung in checked_rungs(platform, name, region).items():
            where = join("capacity", name, "rungs", at)
            if rung in seen:
                other = join("capacity", name, "rungs", seen[rung])
                yield InputError(where, f"must not repeat {other}", Bare(rung.label))
                return
            seen[rung] = at
            first_at, first = firsts.setdefault(rung.kind, (at, rung))
            if _shape(rung) != _shape(first):
                other = join("capacity", name, "rungs", first_at)
                message = f"must have the shape of {other} ({first.label})"
                note = ": one pod fits both; use two capacities"
                yield InputError(where, message, Bare(rung.label), note)
                return


def _check_slices(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    """A slice is a pool that GKE makes and that cannot be moved."""
    for region in regions_using(platform, name):
        for at, rung in checked_rungs(platform, name, region).items():
            if not rung.is_slice:
                continue
            why = f"{join('capacity', name, 'rungs', at)} is a slice of {rung.hosts} hosts"
            if capacity.move_back:
                yield InputError(join("capacity", name, "move_back"), f"must be false: {why}", True)
            if capacity.node_pools is not None:
                where = join("capacity", name, "node_pools")
                yield InputError(where, f"must be left out: {why}, and a pool of its own")
            return


def _shape(rung: Rung) -> tuple[int, int, str | None]:
    return rung.chips_per_node, rung.devices, rung.topology  # devices count all hosts


def _check_pools(platform: Platform, name: str, capacity: Capacity) -> Iterator[InputError]:
    pools = capacity.node_pools
    if pools is None:
        return
    where = ("capacity", name, "node_pools")
    if pools.min_nodes > pools.max_nodes:
        message = f"must be at most max_nodes ({pools.max_nodes})"
        yield InputError(join(*where, "min_nodes"), message, pools.min_nodes)
    for region in regions_using(platform, name):
        if platform.regions[region].mode is ClusterMode.AUTOPILOT:
            message = f"must be left out: {region} is autopilot, where GKE makes every pool"
            yield InputError(join(*where), message)

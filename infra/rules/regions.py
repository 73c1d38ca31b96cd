"""Rules about regions: zones, node pools and address ranges."""

from collections.abc import Iterator
from itertools import combinations

from gke_inference.catalogue.accelerators import region_of
from gke_inference.catalogue.input_error import Bare, InputError, shown
from gke_inference.catalogue.machine_types import general_machine_types, is_general
from gke_inference.catalogue.problems import join, repeated, suggest
from gke_inference.cluster.rules import (
    NOT_ON_AUTOPILOT,
    check_maintenance,
    check_mode,
    check_networks,
    check_overlaps,
    check_range,
    check_system_pool,
)
from infra.estimate.chip_limits import chips
from infra.plan import Plan
from infra.stack import ClusterMode, ClusterSpread, Layer, Platform, Region
from infra.stack.regions import SystemPool


def check_zones(platform: Platform) -> Iterator[InputError]:
    """Yield the zones of regions that are not theirs, and those listed twice."""
    for name, region in platform.regions.items():
        path = join("regions", name, "zones")
        others = {at: zone for at, zone in enumerate(region.zones) if region_of(zone) != name}
        if others:  # one mistake, even where it is in every zone, as in a copied region
            first, *more = others.values()
            value = Bare(", ".join(map(shown, others.values()))) if more else first
            yield InputError(join(path, min(others)), f"must be a zone of {name}", value)
        yield from repeated(path, region.zones, "a zone")


def check_regions(platform: Platform) -> Iterator[InputError]:
    """Yield the other problems of a platform's regions."""
    for name, region in platform.regions.items():
        yield from _check_mode(name, region)
        yield from _check_keys(name, region)
        if region.maintenance is not None:
            yield from check_maintenance(join("regions", name, "maintenance"), region.maintenance)
        for path, (use, cidr) in _ranges(name, region).items():
            yield from check_range(path, use, cidr)
        where = join("regions", name, "authorized_networks")
        yield from check_networks(where, region.authorized_networks)
    yield from _check_overlaps(platform)
    yield from _check_turns(platform)


def check_chip_limits(plan: Plan) -> Iterator[InputError]:
    """Yield limits that nothing would have, and those below what the models of a region request.

    Args:
        plan: A resolved stack without other problems.
    """
    platform = plan.platform
    for name, region in plan.regions.items():
        settings, least = region.settings.chip_limits, chips(region)
        for kind, given in (("gpu", settings.gpu), ("tpu", settings.tpu)):
            path = join("regions", name, "chip_limits", kind)
            if given is None:
                continue
            if not settings.enabled:
                yield InputError(path, "must not be set when enabled is false", given)
            elif platform.layer is not Layer.ALL:
                message = f"must not be set when layer is {platform.layer.value}"
                yield InputError(path, message, given)
            elif platform.existing.namespace is not None:
                yield InputError(path, "must not be set when existing.namespace is set", given)
            elif given < least[kind]:
                note = ", the chips of all replicas at replicas.max and in an update"
                yield InputError(path, f"must be at least {least[kind]}", given, note)


def _check_turns(platform: Platform) -> Iterator[InputError]:
    """On a protected platform, maintenance windows of regions must not overlap."""
    if not platform.protection:
        return
    hours = {
        name: platform.maintenance_of(name).hours_of_week
        for name, region in platform.regions.items()
        if region.existing.cluster is None  # its own window is managed elsewhere
    }
    for first, second in combinations(hours, 2):
        if hours[first] & hours[second]:
            named = second if platform.regions[second].maintenance is not None else first
            other = first if named == second else second
            message = f"must not overlap the window of {other} when protection is on"
            yield InputError(join("regions", named, "maintenance"), message)


def _check_mode(name: str, region: Region) -> Iterator[InputError]:
    where = ("regions", name)
    is_autopilot = region.mode is ClusterMode.AUTOPILOT
    if is_autopilot and region.cluster is ClusterSpread.ZONAL:
        message = "must be regional when mode is autopilot"
        yield InputError(join(*where, "cluster"), message, "zonal")
    given = {field: getattr(region, field) for field in NOT_ON_AUTOPILOT}
    yield from check_mode(join(*where), region.mode, given)
    pool = region.system_pool
    if pool is None:
        return
    yield from _check_machines(join(*where, "system_pool"), pool)
    yield from check_system_pool(join(*where, "system_pool"), pool)
    if pool.min_nodes <= pool.max_nodes < len(region.zones):
        message = f"must be at least {len(region.zones)}, as it starts with one node per zone"
        yield InputError(join(*where, "system_pool", "max_nodes"), message, pool.max_nodes)


def _check_machines(where: str, pool: SystemPool) -> Iterator[InputError]:
    given = {"machine_type": pool.machine_type}
    given |= {join("fallback", at): name for at, name in enumerate(pool.fallback)}
    for field, name in given.items():
        if not is_general(name):
            message = "must be a machine type without accelerators that exists"
            note = suggest(name, general_machine_types())
            yield InputError(join(where, field), message, name, note)


def _check_keys(name: str, region: Region) -> Iterator[InputError]:
    """A key encrypts only data in its own location (cloud.google.com/kms/docs/locations)."""
    for field in ("kms_key", "data_key"):
        key: str | None = getattr(region, field)
        if key is not None and key.split("/")[3] != name:
            yield InputError(join("regions", name, field), f"must be a key of {name}", key)


def _check_overlaps(platform: Platform) -> Iterator[InputError]:
    ranges = [
        (where, cidr)
        for name, region in platform.regions.items()
        for where, (_, cidr) in _ranges(name, region).items()
    ]
    lustre = platform.storage.lustre
    if lustre is not None and lustre.services_range:
        ranges.append((join("storage", "lustre", "services_range"), lustre.services_range))
    yield from check_overlaps(ranges)


def _ranges(name: str, region: Region) -> dict[str, tuple[str, str]]:
    """Return the purpose and value of each range of a region, by its path."""
    ranges: dict[str, tuple[str, str]] = {}
    if region.ranges is not None:
        for use, cidr in region.ranges.model_dump(exclude_none=True).items():
            ranges[join("regions", name, "ranges", use)] = (use, cidr)
    if region.existing.subnet is not None:
        where = join("regions", name, "existing", "subnet", "proxies")
        ranges[where] = ("proxies", region.existing.subnet.proxies)
    return ranges

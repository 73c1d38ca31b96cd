"""Rules about regions: zones, node pools and address ranges."""

import ipaddress
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gke_inference.catalogue.boot_disks import boot_disks
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.machine_types import general_machine_types, is_general
from infra.estimate.chip_limits import chips
from infra.plan import Plan
from infra.stack import ClusterMode, ClusterSpread, Layer, Platform, Region
from infra.stack.problems import join, suggest
from infra.stack.regions import SystemPool

_MAINTENANCE_HOURS: Final = 48
_PREFIXES: Final = {
    "nodes": (8, 29),
    "pods": (8, 24),
    "services": (8, 27),
    "proxies": (8, 26),
    "published": (8, 29),
    "accelerators": (8, 26),
}


def check_regions(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's regions."""
    for name, region in platform.regions.items():
        yield from _check_zones(name, region)
        yield from _check_mode(name, region)
        yield from _check_keys(name, region)
        yield from _check_maintenance(name, region)
        yield from _check_ranges(name, region)
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


def _check_zones(name: str, region: Region) -> Iterator[InputError]:
    for at, zone in enumerate(region.zones):
        if zone.rpartition("-")[0] != name:
            message = f"must be a zone of {name}"
            yield InputError(join("regions", name, "zones", at), message, zone)
    for zone in sorted({zone for zone in region.zones if region.zones.count(zone) > 1}):
        yield InputError(join("regions", name, "zones"), "must not repeat a zone", zone, " twice")


def _check_mode(name: str, region: Region) -> Iterator[InputError]:
    where = ("regions", name)
    is_autopilot = region.mode is ClusterMode.AUTOPILOT
    if is_autopilot and region.cluster is ClusterSpread.ZONAL:
        message = "must be regional when mode is autopilot"
        yield InputError(join(*where, "cluster"), message, "zonal")
    if is_autopilot and region.auto_provisioning_limits is not None:
        message = "must not be set when mode is autopilot: GKE creates every node"
        yield InputError(join(*where, "auto_provisioning_limits"), message)
    pool = region.system_pool
    if pool is None:
        return
    if is_autopilot:
        message = "must not be set when mode is autopilot: GKE manages those nodes"
        yield InputError(join(*where, "system_pool"), message)
    yield from _check_machines(join(*where, "system_pool"), pool)
    if pool.machine_type in pool.fallback or len(set(pool.fallback)) != len(pool.fallback):
        message = (
            f"must list distinct machine types that differ from machine_type ({pool.machine_type})"
        )
        listed = Bare(", ".join(pool.fallback))
        yield InputError(join(*where, "system_pool", "fallback"), message, listed)
    if pool.min_nodes > pool.max_nodes:
        message = f"must be at most max_nodes ({pool.max_nodes})"
        yield InputError(join(*where, "system_pool", "min_nodes"), message, pool.min_nodes)
    if pool.max_nodes < len(region.zones):
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
    taken, disk = boot_disks(pool.machine_type), pool.boot_disk_type
    if disk is not None and disk.value not in taken:
        message = f"must be a boot disk type of {pool.machine_type} ({', '.join(taken)})"
        yield InputError(join(where, "boot_disk_type"), message, disk.value)


def _check_keys(name: str, region: Region) -> Iterator[InputError]:
    """A key encrypts only data in its own location (cloud.google.com/kms/docs/locations)."""
    for field in ("kms_key", "data_key"):
        key: str | None = getattr(region, field)
        if key is not None and key.split("/")[3] != name:
            yield InputError(join("regions", name, field), f"must be a key of {name}", key)


def _check_maintenance(name: str, region: Region) -> Iterator[InputError]:
    """GKE needs 48 hours in every 32 days, which contain each weekday at least four times."""
    window = region.maintenance
    if window is None:
        return
    where = join("regions", name, "maintenance")
    hours = 4 * window.hours * len(set(window.days))
    if len(set(window.days)) != len(window.days):
        days = ", ".join(window.days)
        yield InputError(join(where, "days"), "must not repeat a day", Bare(days))
    elif hours < _MAINTENANCE_HOURS:
        message = f"must leave GKE {_MAINTENANCE_HOURS} hours in 32 days"
        yield InputError(where, message, hours)


def _check_ranges(name: str, region: Region) -> Iterator[InputError]:
    for where, (use, cidr) in _ranges(name, region).items():
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as error:
            yield InputError(
                where,
                "must be an IPv4 CIDR range without host bits, such as 10.0.0.0/20",
                Bare(error),
            )
            continue
        widest, narrowest = _PREFIXES[use]
        if not widest <= network.prefixlen <= narrowest:
            message = f"must be between /{widest} and /{narrowest}"
            yield InputError(where, message, cidr)
    for label, cidr in region.authorized_networks.items():
        try:
            ipaddress.IPv4Network(cidr)
        except ValueError as error:
            where = join("regions", name, "authorized_networks", label)
            yield InputError(
                where,
                "must be an IPv4 CIDR range without host bits, such as 10.0.0.0/20",
                Bare(error),
            )


def _check_overlaps(platform: Platform) -> Iterator[InputError]:
    ranges = [
        (where, cidr)
        for name, region in platform.regions.items()
        for where, (_, cidr) in _ranges(name, region).items()
        if _is_network(cidr)
    ]
    lustre = platform.storage.lustre
    if lustre is not None and lustre.services_range and _is_network(lustre.services_range):
        ranges.append((join("storage", "lustre", "services_range"), lustre.services_range))
    for (first, first_cidr), (second, second_cidr) in combinations(ranges, 2):
        if ipaddress.IPv4Network(first_cidr).overlaps(ipaddress.IPv4Network(second_cidr)):
            message = f"must not overlap {first} ({first_cidr})"
            yield InputError(second, message, second_cidr)


def _ranges(name: str, region: Region) -> dict[str, tuple[str, str]]:
    """Return the purpose and value of each range of a region, by its path."""
    found: dict[str, tuple[str, str]] = {}
    if region.ranges is not None:
        for use, cidr in region.ranges.model_dump(exclude_none=True).items():
            found[join("regions", name, "ranges", use)] = (use, cidr)
    if region.existing.subnet is not None:
        where = join("regions", name, "existing", "subnet", "proxies")
        found[where] = ("proxies", region.existing.subnet.proxies)
    return found


def _is_network(cidr: str) -> bool:
    try:
        ipaddress.IPv4Network(cidr)
    except ValueError:
        return False
    return True

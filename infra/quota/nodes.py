"""What nodes without accelerators, and weights on disks, ask of quotas."""

from collections.abc import Iterator

from gke_inference.catalogue.quotas import (
    Metric,
    boot_disk,
    cpu_metric,
    disk_metric,
    family_of,
    metric,
    vcpus_of,
)
from gke_inference.catalogue.system_pool import DISK_TYPE, MACHINE_TYPE, MOST_NODES, SURGE_NODES
from infra.quota.parts import Ask
from infra.stack import ClusterMode, Platform


def system_nodes(platform: Platform, region: str) -> int:
    """Return the system nodes of a region at most, with what an upgrade adds.

    0 in Autopilot: how many nodes GKE makes for what needs no accelerator is not known beforehand.
    """
    settings = platform.regions[region]
    if settings.mode is ClusterMode.AUTOPILOT:
        return 0
    pool = settings.system_pool
    return (pool.max_nodes if pool else MOST_NODES) + SURGE_NODES


def system_asks(platform: Platform, region: str) -> Iterator[Ask]:
    """Yield what system nodes, auto-provisioned ones and disks of weights ask for in a region."""
    settings = platform.regions[region]
    if settings.mode is ClusterMode.STANDARD:
        pool = settings.system_pool
        machine = pool.machine_type if pool else MACHINE_TYPE
        nodes = system_nodes(platform, region)
        vcpus = nodes * vcpus_of(machine)
        who = f"system nodes, {SURGE_NODES} more in an upgrade"
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            yield from _cpus(counted, region, who, vcpus)
        yield Ask(metric("INSTANCES"), region, "machine", who, nodes, zones=settings.zones)
        gib = boot_disk(machine)[1]
        yield Ask(disk_metric(DISK_TYPE), region, "disk", who, nodes * gib, zones=settings.zones)
        most = (settings.auto_provisioning_limits or {}).get("cpu", 0)
        if most > vcpus:
            yield from _cpus(metric("CPUS"), region, "auto-provisioned nodes", most - vcpus)
    yield from _weights(platform, region)


def _cpus(counted: Metric, region: str, who: str, vcpus: int) -> Iterator[Ask]:
    yield Ask(counted, region, "machine", who, vcpus)
    yield Ask(metric("CPUS_ALL_REGIONS"), None, "machine", f"{who} in {region}", vcpus)


def _weights(platform: Platform, region: str) -> Iterator[Ask]:
    """Yield the disks of weights, one in each of their zones."""
    for name, model in platform.models_in(region).items():
        disk = model.disk
        if disk is None:
            continue
        zones = tuple(zone for zone in disk.zones if zone in platform.regions[region].zones)
        size, rate = disk.size_gib * len(zones), disk.throughput_mib_per_second * len(zones)
        kind = disk_metric("hyperdisk-ml")
        yield Ask(kind, region, "disk", f"weights of {name}", size, zones=zones)
        flow = metric("HDML_TOTAL_THROUGHPUT")
        yield Ask(flow, region, "disk", f"weights of {name}", rate, zones=zones)

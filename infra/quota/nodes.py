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
from infra.plan import RegionPlan
from infra.quota.parts import Ask
from infra.stack import ClusterMode


def system_nodes(region: RegionPlan) -> int:
    """Return the system nodes of a region at most, with what an upgrade adds.

    0 in Autopilot: how many nodes GKE makes for what needs no accelerator is not known beforehand;
    and 0 in a cluster that exists, which has its own.
    """
    settings = region.settings
    if settings.mode is ClusterMode.AUTOPILOT or settings.existing.cluster is not None:
        return 0
    pool = settings.system_pool
    return (pool.max_nodes if pool else MOST_NODES) + SURGE_NODES


def system_asks(region: RegionPlan) -> Iterator[Ask]:
    """Yield what system nodes, auto-provisioned ones and disks of weights ask for in a region."""
    name = region.name
    settings = region.settings
    if settings.mode is ClusterMode.STANDARD and settings.existing.cluster is None:
        pool = settings.system_pool
        machine = pool.machine_type if pool else MACHINE_TYPE
        nodes = system_nodes(region)
        vcpus = nodes * vcpus_of(machine)
        who = f"system nodes, {SURGE_NODES} more in an upgrade"
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            yield from _cpus(counted, name, who, vcpus)
        yield from _fallback(region, nodes)
        yield Ask(metric("INSTANCES"), name, "machine", who, nodes, zones=settings.zones)
        gib = boot_disk(machine)[1]
        yield Ask(disk_metric(DISK_TYPE), name, "disk", who, nodes * gib, zones=settings.zones)
        most = (settings.auto_provisioning_limits or {}).get("cpu", 0)
        if most > vcpus:
            yield from _cpus(metric("CPUS"), name, "auto-provisioned nodes", most - vcpus)
    yield from _weights(region)


def _fallback(region: RegionPlan, nodes: int) -> Iterator[Ask]:
    """Yield what the system nodes ask of another family's quota where the first has no machines."""
    pool = region.settings.system_pool
    for machine in pool.fallback if pool else ():
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            who = "system nodes while others are out of stock"
            yield Ask(counted, region.name, "machine", who, nodes * vcpus_of(machine))


def _cpus(counted: Metric, region: str, who: str, vcpus: int) -> Iterator[Ask]:
    yield Ask(counted, region, "machine", who, vcpus)
    yield Ask(metric("CPUS_ALL_REGIONS"), None, "machine", f"{who} in {region}", vcpus)


def _weights(region: RegionPlan) -> Iterator[Ask]:
    """Yield the disks of weights, one in each of their zones."""
    for served in region.served:
        disk, zones = served.settings.disk, served.disk_zones
        if disk is None or zones is None:
            continue
        who = f"weights of {served.name}"
        size, rate = disk.size_gib * len(zones), disk.throughput_mib_per_second * len(zones)
        kind = disk_metric("hyperdisk-ml")
        yield Ask(kind, region.name, "disk", who, size, zones=zones)
        flow = metric("HDML_TOTAL_THROUGHPUT")
        yield Ask(flow, region.name, "disk", who, rate, zones=zones)

"""What nodes without accelerators, and weights on disks, ask of quotas."""

from collections.abc import Iterator

from gke_inference.catalogue.quotas import (
    Metric,
    cpu_metric,
    disk_metric,
    family_of,
    metric,
    vcpus_of,
)
from gke_inference.catalogue.system_pool import SURGE_NODES
from infra.plan import RegionPlan, SystemNodes
from infra.quota.parts import Ask


def system_nodes(region: RegionPlan) -> int:
    """Return the system nodes of a region at most, with what an upgrade adds.

    0 in Autopilot: how many nodes GKE makes for what needs no accelerator is not known beforehand;
    and 0 in a cluster that exists, which has its own.
    """
    return 0 if region.system_nodes is None else region.system_nodes.maximum + SURGE_NODES


def system_asks(region: RegionPlan) -> Iterator[Ask]:
    """Yield what system nodes, auto-provisioned ones and disks of weights ask for in a region."""
    name = region.name
    settings = region.settings
    pool = region.system_nodes
    if pool is not None:
        machine = pool.machine_type
        nodes = system_nodes(region)
        vcpus = nodes * vcpus_of(machine)
        who = f"system nodes, {SURGE_NODES} more in an upgrade"
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            yield from _cpus(counted, name, who, vcpus)
        yield from _fallback(pool, name, nodes)
        yield Ask(metric("INSTANCES"), name, "machine", who, nodes, zones=settings.zones)
        gib = nodes * pool.disk_gib
        yield Ask(disk_metric(pool.disk_type), name, "disk", who, gib, zones=settings.zones)
        most = (settings.auto_provisioning_limits or {}).get("cpu", 0)
        if most > vcpus:
            yield from _cpus(metric("CPUS"), name, "auto-provisioned nodes", most - vcpus)
    yield from _weights(region)


def _fallback(pool: SystemNodes, region: str, nodes: int) -> Iterator[Ask]:
    """Yield what the system nodes ask of another family's quota where the first has no machines."""
    for machine in pool.fallback:
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            who = "system nodes while others are out of stock"
            yield Ask(counted, region, "machine", who, nodes * vcpus_of(machine))


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

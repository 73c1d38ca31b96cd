"""Quota needs of nodes without accelerators and of weight disks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gke_inference.catalogue.quotas import (
    Metric,
    cpu_metric,
    disk_metric,
    family_of,
    metric,
    vcpus_of,
)
from gke_inference.catalogue.system_pool import SURGE_NODES
from gke_inference.pipelines.settings import DISK_GIB
from infra.plan import RegionPlan, SystemNodes


@dataclass(frozen=True)
class QuotaRequirement:
    """The maximum amount of one quota that one part of a stack can request."""

    metric: Metric
    region: str | None
    """None for a project-wide quota."""
    kind: str
    """`accelerator`, `machine`, `disk`, `address` or `network`."""
    who: str
    amount: int
    accelerator: str | None = None
    provisioning: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    most: int | None = None
    """Limit of node auto-provisioning."""

    def of(self, amount: int) -> "QuotaRequirement":
        """Return the same ask with a different amount."""
        return replace(self, amount=amount)

    def joined(self, other: "QuotaRequirement") -> "QuotaRequirement":
        """Return the other ask, with the provisioning models and zones of both."""
        return replace(
            other,
            provisioning=tuple(dict.fromkeys((*other.provisioning, *self.provisioning))),
            zones=tuple(dict.fromkeys((*other.zones, *self.zones))),
        )


def system_nodes(region: RegionPlan) -> int:
    """Return the maximum number of system nodes in a region, including upgrade surge.

    0 for Autopilot, where the number of nodes is not known in advance, and for an existing cluster,
    which has its own nodes.
    """
    return 0 if region.system_nodes is None else region.system_nodes.maximum + SURGE_NODES


def system_requirements(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a region's system nodes, auto-provisioned nodes and weight disks."""
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
        yield QuotaRequirement(
            metric("INSTANCES"), name, "machine", who, nodes, zones=settings.zones
        )
        gib = nodes * pool.disk_gib
        yield QuotaRequirement(
            disk_metric(pool.disk_type), name, "disk", who, gib, zones=settings.zones
        )
        most = (settings.auto_provisioning_limits or {}).get("cpu", 0)
        if most > vcpus:
            yield from _cpus(metric("CPUS"), name, "auto-provisioned nodes", most - vcpus)
    yield from _weights(region)


def pipeline_requirements(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a region's pipelines, whose workers are VMs of the project."""
    for pipeline in region.pipelines:
        workers, who = pipeline.settings.workers, f"workers of pipeline {pipeline.name}"
        counted = cpu_metric(family_of(workers.machine_type))
        if counted is not None:
            vcpus = workers.max * vcpus_of(workers.machine_type)
            yield from _cpus(counted, region.name, who, vcpus)
        yield QuotaRequirement(metric("INSTANCES"), region.name, "machine", who, workers.max)
        gib = workers.max * DISK_GIB
        yield QuotaRequirement(disk_metric("pd-standard"), region.name, "disk", who, gib)


def _fallback(pool: SystemNodes, region: str, nodes: int) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of the system nodes' fallback machine families."""
    for machine in pool.fallback:
        counted = cpu_metric(family_of(machine))
        if counted is not None:
            who = "system nodes while others are out of stock"
            yield QuotaRequirement(counted, region, "machine", who, nodes * vcpus_of(machine))


def _cpus(counted: Metric, region: str, who: str, vcpus: int) -> Iterator[QuotaRequirement]:
    yield QuotaRequirement(counted, region, "machine", who, vcpus)
    yield QuotaRequirement(metric("CPUS_ALL_REGIONS"), None, "machine", f"{who} in {region}", vcpus)


def _weights(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of weight disks, one disk per zone."""
    for served in region.served:
        disk, zones = served.settings.disk, served.disk_zones
        if disk is None or zones is None:
            continue
        who = f"weights of {served.name}"
        size, rate = disk.size_gib * len(zones), disk.throughput_mib_per_second * len(zones)
        kind = disk_metric("hyperdisk-ml")
        yield QuotaRequirement(kind, region.name, "disk", who, size, zones=zones)
        flow = metric("HDML_TOTAL_THROUGHPUT")
        yield QuotaRequirement(flow, region.name, "disk", who, rate, zones=zones)

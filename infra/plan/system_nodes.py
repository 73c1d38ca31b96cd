"""Nodes without accelerators in clusters that the stack creates."""

from dataclasses import dataclass

from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.system_pool import MACHINE_TYPE, MOST_NODES
from infra.stack import ClusterMode, Region


@dataclass(frozen=True)
class SystemNodes:
    """Nodes for pods without accelerators, across all zones."""

    machine_type: str
    fallback: tuple[str, ...]
    """Machine types of other families, used when the first is out of stock."""
    disk_type: str
    """Type of the boot disk."""
    disk_gib: int
    minimum: int
    maximum: int


def system_nodes(region: Region) -> SystemNodes | None:
    """Return the system nodes of a region's cluster.

    None for Autopilot, where GKE creates nodes as pods need them, and for an existing cluster,
    which has its own.
    """
    if region.mode is ClusterMode.AUTOPILOT or region.existing.cluster is not None:
        return None
    pool = region.system_pool
    machine = pool.machine_type if pool else MACHINE_TYPE
    given = pool.boot_disk_type if pool else None
    usual, gib = boot_disk(machine)
    return SystemNodes(
        machine_type=machine,
        fallback=pool.fallback if pool else (),
        disk_type=usual if given is None else given.value,
        disk_gib=gib,
        minimum=pool.min_nodes if pool else 1,
        maximum=pool.max_nodes if pool else MOST_NODES,
    )

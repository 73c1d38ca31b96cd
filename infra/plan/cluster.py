"""The resolved cluster of a region."""

from dataclasses import dataclass

from gke_inference.cluster.settings import Maintenance
from infra.plan.names import Names
from infra.plan.system_nodes import SystemNodes, system_nodes
from infra.stack import ClusterSpread, Platform


@dataclass(frozen=True)
class ClusterPlan:
    """The cluster of a region, created or existing."""

    location: str
    """Location of the cluster: the region, or the first zone for a zonal cluster."""
    name: str
    node_account: str
    """Service account ID of the nodes."""
    system_nodes: SystemNodes | None
    """None if the stack creates none: for an existing cluster, or in Autopilot."""
    maintenance: Maintenance
    """When GKE may upgrade."""
    holds_upgrades: bool
    """Whether node and minor version upgrades wait until the end of support."""
    has_traces: bool
    """Whether it has the collector of traces."""
    is_attested: bool
    """Whether it checks attestations of images."""


def resolve_cluster(platform: Platform, region: str, names: Names) -> ClusterPlan:
    """Return the cluster of a region."""
    settings = platform.regions[region]
    if settings.existing.cluster is not None:
        _, _, _, location, _, name = settings.existing.cluster.split("/")
    else:
        is_zonal = settings.cluster is ClusterSpread.ZONAL
        location, name = settings.zones[0] if is_zonal else region, names.cluster(region)
    return ClusterPlan(
        location=location,
        name=name,
        node_account=names.node_account(region),
        system_nodes=system_nodes(settings) if platform.has_clusters() else None,
        maintenance=platform.maintenance_of(region),
        holds_upgrades=platform.holds_upgrades(region),
        has_traces=platform.monitoring.traces is not None,
        is_attested=platform.images is not None and platform.images.is_attested,
    )

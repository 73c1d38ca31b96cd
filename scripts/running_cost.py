"""What the replicas of a stack cost on the twin at this moment."""

from infra.plan.names import Names
from infra.stack import Platform
from scripts.placements import placements
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


def running(platform: Platform) -> float | None:
    """Return the hourly cost of a stack's replicas on the twin; None if the stack is not up."""
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        return None
    own = {Names(platform).cluster(region) for region in platform.regions}
    if own.isdisjoint(ClusterSpec.load(folder).name for folder in clusters.folders(paths)):
        return None
    try:
        return sum(one.usd_per_hour or 0.0 for one in placements(paths) if one.cluster in own)
    except KubeError:
        return None

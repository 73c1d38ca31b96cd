"""The current cost of a stack's replicas on the twin."""

from infra.plan import Plan
from scripts.shared.clusters import of_twin
from scripts.shared.placements import placements
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


def running(plan: Plan) -> float | None:
    """Return the hourly cost of a stack's replicas on the twin; None if the stack is not up."""
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        return None
    own = {region.cluster_name for region in plan.regions.values()}
    if own.isdisjoint(ClusterSpec.load(folder).name for folder in clusters.folders(paths)):
        return None
    try:
        here = [one.usd_per_hour for one in placements(of_twin(paths)) if one.cluster in own]
        return sum(price.value for price in here if price is not None)
    except KubeError:
        return None

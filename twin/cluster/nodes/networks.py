"""Networks that GKE creates for the accelerators of nodes of compute classes, and their quota."""

from collections.abc import Iterable

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.capacity import Answer, World


def refused_networks(
    ctx: ClusterContext, shape: NodeShape, zone: str, coming: Iterable[tuple[NodeShape, str]]
) -> Answer | None:
    """Return the quota that the networks of a node's accelerators exceed, or None.

    The networks of a node pool made by hand are created with the pool (`check_network_quota`).

    Args:
        ctx: Cluster.
        shape: Shape of the node.
        zone: Zone of the node.
        coming: Shapes and zones of the requested nodes.
    """
    if not _has_networks(shape) or not ctx.paths.cloud_db.exists():
        return None
    from twin.world.network_quota import (  # noqa: PLC0415 - only such nodes need the store
        Profile,
        over_network_quota,
    )
    from twin.world.store import Store  # noqa: PLC0415 - as above

    label = catalogue_labels()["accelerator_network"]
    others = [(each.machine.name, place) for each, place in coming if _has_networks(each)]
    for node in ctx.kube.list("/api/v1/nodes", label_selector=label):
        labels = node["metadata"]["labels"]
        name, place = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
        others.append((labels[name], labels[place]))
    problem = over_network_quota(
        World.load(ctx.paths.capacity_file),
        Store(ctx.paths.cloud_db),
        ctx.spec.project,
        Profile(ctx.spec.name, zone, shape.machine.name),
        {Profile(ctx.spec.name, place, name) for name, place in others},
    )
    return None if problem is None else Answer("quota", "QUOTA_EXCEEDED", problem)


def _has_networks(shape: NodeShape) -> bool:
    return shape.auto_created and catalogue_labels()["accelerator_network"] in shape.labels

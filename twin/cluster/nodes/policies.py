"""Placement policies of nodes: the resource policies of the twin's cloud."""

from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes.node_objects import NodeShape
from twin.wire.kube import JsonObject
from twin.world.capacity import Answer


def resource_policy(ctx: ClusterContext, name: str) -> JsonObject | None:
    """Return a compute resource policy of the twin's cloud by name, or None."""
    from twin.world import store  # noqa: PLC0415 - only nodes with a placement policy need it

    kind, short = "gcp:compute/resourcePolicy:ResourcePolicy", name.rpartition("/")[2]
    return store.find_by_name(kind, short, ctx.paths)


def refused_placement(ctx: ClusterContext, shape: NodeShape) -> Answer | None:
    """Return why nodes that GKE creates cannot have their placement policy, or None.

    A node pool made by hand names its policy when it is created (`check_placement`).
    """
    name = shape.placement
    if not shape.auto_created or name is None or resource_policy(ctx, name) is not None:
        return None
    return Answer("not-found", "RESOURCE_NOT_FOUND", f"The resource policy '{name}' was not found")

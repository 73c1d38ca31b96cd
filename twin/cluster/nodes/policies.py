"""Placement policies of nodes: the resource policies of the twin's cloud."""

from collections.abc import Mapping, Sequence

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes.node_objects import NodeShape
from twin.wire.kube import JsonObject
from twin.world.capacity import Answer
from twin.world.machines import Machine, machine
from twin.world.node_placement import policy_problem


def resource_policy(ctx: ClusterContext, name: str) -> JsonObject | None:
    """Return a compute resource policy of the twin's cloud by name, or None."""
    from twin.world import store  # noqa: PLC0415 - only nodes with a placement policy need it

    kind, short = "gcp:compute/resourcePolicy:ResourcePolicy", name.rpartition("/")[2]
    return store.find_by_name(kind, short, ctx.paths)


def refused_placement(
    ctx: ClusterContext, shape: NodeShape, names: Sequence[str], coming: Mapping[str, Machine]
) -> Answer | None:
    """Return why nodes cannot have their placement policy, or None.

    Args:
        ctx: Cluster.
        shape: Shape of the nodes.
        names: Names of the nodes.
        coming: Machines of the requested nodes with the policy, by name.
    """
    name = shape.placement
    if name is None:
        return None
    # a node pool made by hand names its policy when it is created (`check_placement`)
    if shape.auto_created and resource_policy(ctx, name) is None:
        text = f"The resource policy '{name}' was not found"
        return Answer("not-found", "RESOURCE_NOT_FOUND", text)
    selector = f"{catalogue_labels()['placement_policy']}={name}"
    found = ctx.kube.list("/api/v1/nodes", label_selector=selector)
    members = dict(coming) | {node["metadata"]["name"]: machine_of(node) for node in found}
    others = [item for node, item in members.items() if node not in names]
    problem = policy_problem(name, shape.machine, others, len(names))
    return None if problem is None else Answer("refused", "INVALID_USAGE", problem)


def machine_of(node: JsonObject) -> Machine:
    """Return the machine type of a node."""
    return machine(node["metadata"]["labels"]["node.kubernetes.io/instance-type"])

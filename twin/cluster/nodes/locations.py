"""Where in a data center a node is: the labels by which pods are placed close to each other. Pure.

Rules: `placement.labels`, `placement.compact`.
"""

import hashlib

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.node_networks import network_of

_SUBBLOCKS = 4


def location_labels(
    shape: NodeShape, name: str, zone: str, together: str | None = None
) -> dict[str, str]:
    """Return the labels of a node's host, sub-block and block, or none where GKE sets none.

    Nodes of one placement policy, and nodes that Compute Engine created together for one request,
    are in one block. Every other node is in a block of its own, because nothing places it close to
    another.

    Args:
        shape: Shape of the node.
        name: Name of the node.
        zone: Zone of the node.
        together: Request that all nodes were created for, if they were created together.
    """
    if network_of(shape.machine) is None and shape.placement is None:
        return {}
    keys = catalogue_labels()
    block = _identifier(zone, shape.placement or together or name)
    spread = int(_identifier(name), 16) % _SUBBLOCKS
    return {
        keys["topology_block"]: block,
        keys["topology_subblock"]: _identifier(block, str(spread)),
        keys["topology_host"]: _identifier(block, name),
    }


def _identifier(*parts: str) -> str:
    return hashlib.md5("/".join(parts).encode(), usedforsecurity=False).hexdigest()

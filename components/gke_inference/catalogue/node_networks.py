"""Networks between the nodes of a GPU replica: RDMA, or TCP on the node's own interface.

GKE creates the networks of the RDMA interfaces for node pools of A3 Ultra and A4 machines, and pods
claim the interfaces (docs.cloud.google.com/kubernetes-engine/docs/how-to/
allocate-network-resources-dra, last updated 2026-04-10). GPUDirect-TCPX and TCPXO, the networks of
A3 High and A3 Mega, need a plug-in and a daemon in every pod. This package does not support them.
"""

from .accelerators import Machine, accelerator, rdma_accelerators
from .input_error import InputError

NETWORKS = ("rdma", "tcp")


def node_network(
    given: object, name: str, node: Machine, hosts: int, where: str = ""
) -> str | None:
    """Return the network of a rung's nodes: `rdma`, `tcp`, or None for one-node replicas and TPUs.

    Multi-node replicas without RDMA must set `tcp` explicitly, because the only symptom of a
    mistake would be low speed.

    Args:
        given: Value from the user, or None.
        name: Accelerator, as the user names it.
        node: Machine type of the rung.
        hosts: Number of nodes in one replica.
        where: Path of the rung in the user's input.

    Raises:
        InputError: The machine does not support the network. The path ends with `network`.
    """
    field = f"{where}.network" if where else "network"
    if accelerator(name).kind == "tpu":
        if given is not None:
            rule = f"must not be set for {name}: the hosts of a slice have their own links"
            raise InputError(field, rule, given)
        return None
    others = f"; {' and '.join(rdma_accelerators())} have it"
    if given is None and hosts > 1 and not node.has_rdma:
        rule = f"must be 'tcp' for {hosts} hosts of {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    if given is None:
        return "rdma" if hosts > 1 else None
    if given not in NETWORKS:
        raise InputError(field, f"must be {' or '.join(NETWORKS)}", given)
    if given == "rdma" and not node.has_rdma:
        rule = f"must be 'tcp' or unset for {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    return str(given)

"""Networks between the nodes of a GPU replica: RDMA, TCPXO, or TCP on the node's own interface.

GKE creates the networks of the RDMA interfaces for node pools of A3 Ultra and A4 machines, and pods
claim the interfaces (docs.cloud.google.com/kubernetes-engine/docs/how-to/
allocate-network-resources-dra, last updated 2026-04-10). GPUDirect-TCPXO, the network of A3 Mega,
needs a VPC network for each interface, and a plug-in and a daemon beside every engine
(docs.cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx). GPUDirect-TCPX,
the network of A3 High, is not supported: its plug-in has no release notes, so nobody publishes
which versions of NCCL it works with (GoogleCloudPlatform/container-engine-accelerators @992db81).
"""

from .accelerators import Machine, accelerator, accelerators_on, rdma_accelerators
from .input_error import InputError
from .versions import image

NETWORKS = ("rdma", "tcpxo", "tcp")

TCPXO_MTU = 8244
"""MTU of the networks of TCPXO in bytes (GoogleCloudPlatform/cluster-toolkit @1047080
examples/gke-a3-megagpu)."""
TCPXO_LIBRARIES = "/usr/local/nvidia/lib64"
"""Folder of the NVIDIA driver as containers see it. The installer copies NCCL's plug-in there."""


def interface_networks(nics: int) -> list[str]:
    """Return the names of the Network objects of a cluster, one for each interface of a node."""
    return [f"tcpxo-{at}" for at in range(1, nics + 1)]


def tcpxo_interfaces() -> int:
    """Return the number of interfaces of machines with TCPXO."""
    (name,) = accelerators_on("tcpxo")
    return next(each.network.nics for each in accelerator(name).machines if each.network)


def tcpxo_plugin_mark() -> str:
    """Return the path of the file that says that a node has the plug-in of this release.

    The installer creates it last, and the daemon of a pod waits for it. On a new node, both start
    at the same time, and an engine without the plug-in would send over the node's interface.
    """
    return f"{TCPXO_LIBRARIES}/.tcpxo-plugin-{image('tcpxo_plugin').tag}"


def node_network(
    given: object, name: str, node: Machine, hosts: int, where: str = ""
) -> str | None:
    """Return the network of a rung's nodes: a word of `NETWORKS`, or None.

    None is for one-node replicas and TPUs. Multi-node replicas without RDMA must set `tcp` or
    `tcpxo` explicitly, because the only symptom of a mistake would be low speed.

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
        ways = "'tcpxo' or 'tcp'" if node.has_tcpxo else "'tcp'"
        rule = f"must be {ways} for {hosts} hosts of {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    if given is None:
        return "rdma" if hosts > 1 else None
    if given not in NETWORKS:
        raise InputError(field, f"must be {', '.join(NETWORKS[:-1])} or {NETWORKS[-1]}", given)
    if given == "rdma" and not node.has_rdma:
        rule = f"must be 'tcp' or unset for {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    if given == "tcpxo":
        _check_tcpxo(field, node, hosts)
    return str(given)


def _check_tcpxo(field: str, node: Machine, hosts: int) -> None:
    if not node.has_tcpxo:
        ways = "'rdma' or 'tcp'" if node.has_rdma else "'tcp'"
        note = f"; {' and '.join(accelerators_on('tcpxo'))} has it"
        rule = f"must be {ways} or unset for {node.name}, which has no TCPXO"
        raise InputError(field, rule, "tcpxo", note)
    if hosts == 1:
        rule = "must be unset for one host: NCCL, which TCPXO is for, would send nothing"
        raise InputError(field, rule, "tcpxo")

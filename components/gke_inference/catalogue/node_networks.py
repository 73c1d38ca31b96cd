"""Networks between the nodes of a GPU replica: RDMA, TCPX, TCPXO, or TCP on the node's interface.

GKE creates the networks of the RDMA interfaces for node pools of A3 Ultra and A4 machines, and pods
claim the interfaces (docs.cloud.google.com/kubernetes-engine/docs/how-to/
allocate-network-resources-dra, last updated 2026-04-10). GPUDirect-TCPX, the network of A3 High,
and GPUDirect-TCPXO, that of A3 Mega, need a VPC network for each interface, and a plug-in and a
daemon beside every engine (docs.cloud.google.com/kubernetes-engine/docs/how-to/
gpu-bandwidth-gpudirect-tcpx). They differ in data alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from gke_inference.settings import Word

from .accelerators import Machine, accelerator, accelerators_on, rdma_accelerators
from .data_file import read_table
from .input_error import InputError
from .problems import one_of
from .versions import image

INTERFACE_NETWORKS: Final = ("tcpx", "tcpxo")
"""Networks whose interfaces a stack connects to VPC networks of its own."""
DEFAULT_INTERFACE_NETWORK: Final = "tcpxo"


class NodeNetwork(Word):
    """What connects the GPU nodes of a model."""

    RDMA = "rdma"
    TCPX = "tcpx"
    TCPXO = "tcpxo"
    TCP = "tcp"


DRIVER_LIBRARIES: Final = "/usr/local/nvidia/lib64"
"""Folder of the NVIDIA driver as containers see it. The installer copies NCCL's plug-in there."""

_FILE: Final = Path(__file__).parent / "data" / "gpudirect.yaml"


@dataclass(frozen=True)
class EngineFolder:
    """A folder that an engine needs beside the libraries."""

    of: str
    """`node`, or `pod` if its daemon shares it."""
    path: str
    variable: str
    """Variable that has the path."""
    volume: str


@dataclass(frozen=True)
class InterfaceDaemon:
    """The daemon beside an engine, which moves data between GPUs and interfaces."""

    start: str
    """Lines of a shell script."""
    ready: list[str]
    """Command that succeeds when it is initialized."""
    capabilities: list[str]
    environment: Mapping[str, str]
    devices: list[str]
    """Devices of the node, without `/dev/`."""


@dataclass(frozen=True)
class InterfaceNetwork:
    """What nodes and pods need so that NCCL uses the interfaces of their machines."""

    name: str
    """`tcpx` or `tcpxo`."""
    title: str
    """Google's name."""
    mtu: int
    """MTU of the networks in bytes."""
    interfaces: int
    """Interfaces of a machine, each in a network of its own."""
    daemon_image: str
    plugin_image: str
    built: str
    """Folder of the node into which the plug-in's image installs."""
    has_nccl: bool
    """Whether engines may find the release's own NCCL before that of their image."""
    node_setup_image: str | None
    """Image that runs a script on the node before the installation, if it needs one."""
    daemon: InterfaceDaemon
    folder: EngineFolder
    environment: Mapping[str, str]
    """Variables of the engine."""

    @property
    def networks(self) -> list[str]:
        """Names of the Network objects of a cluster, one for each interface of a node."""
        return [f"{self.name}-{at}" for at in range(1, self.interfaces + 1)]

    @property
    def machines(self) -> list[str]:
        """Machine types with the interfaces."""
        chips = map(accelerator, accelerators_on(self.name))
        return [
            each.name for chip in chips for each in chip.machines if each.technology == self.name
        ]

    @property
    def plugin_mark(self) -> str:
        """Path of the file that says that a node has the plug-in of this release.

        The installer creates it last, and the daemon of a pod waits for it. On a new node, both
        start at the same time, and an engine without the plug-in would send over the node's
        interface.
        """
        return f"{DRIVER_LIBRARIES}/.{self.name}-plugin-{image(self.plugin_image).tag}"


def check_interface_network(where: str, name: str) -> Iterator[InputError]:
    """Yield the problem of a word that is not in `INTERFACE_NETWORKS`."""
    if name not in INTERFACE_NETWORKS:
        yield one_of(where, name, INTERFACE_NETWORKS)


@cache
def interface_network(name: str) -> InterfaceNetwork:
    """Return what a network of `INTERFACE_NETWORKS` needs."""
    entry: dict[str, Any] = read_table(_FILE)["technologies"][name]
    (chip,) = accelerators_on(name)
    (machine,) = [each for each in accelerator(chip).machines if each.technology == name]
    return InterfaceNetwork(
        built=entry["built"],
        daemon=InterfaceDaemon(**entry["daemon"]),
        daemon_image=entry["images"]["daemon"],
        environment=entry["environment"],
        folder=EngineFolder(**entry["folder"]),
        has_nccl=entry["has_nccl"],
        interfaces=machine.network.nics if machine.network else 0,
        mtu=entry["mtu"],
        name=name,
        node_setup_image=entry["prepares"],
        plugin_image=entry["images"]["plugin"],
        title=entry["title"],
    )


def node_network(
    given: NodeNetwork | None, name: str, node: Machine, hosts: int, where: str = ""
) -> str | None:
    """Return the network of a rung's nodes, or None.

    None is for one-node replicas and TPUs. Multi-node replicas without RDMA must set `tcp` or
    the network of their machine, because the only symptom of a mistake would be low speed.

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
        rule = f"must be {_ways(node)} for {hosts} hosts of {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    if given is None:
        return "rdma" if hosts > 1 else None
    if given == "rdma" and not node.has_rdma:
        rule = f"must be 'tcp' or unset for {node.name}, which has no RDMA"
        raise InputError(field, rule, given, others)
    if given in INTERFACE_NETWORKS:
        _check_interfaces(field, given.value, node, hosts)
    return given.value


def _check_interfaces(field: str, given: str, node: Machine, hosts: int) -> None:
    title = given.upper()
    if node.technology != given:
        note = f"; {' and '.join(accelerators_on(given))} has it"
        rule = f"must be {_ways(node)} or unset for {node.name}, which has no {title}"
        raise InputError(field, rule, given, note)
    if hosts == 1:
        rule = f"must be unset for one host: NCCL, which {title} is for, would send nothing"
        raise InputError(field, rule, given)


def _ways(node: Machine) -> str:
    return "'tcp'" if node.technology is None else f"'{node.technology}' or 'tcp'"

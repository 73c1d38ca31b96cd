"""The hardware of one Deployment: the common properties of its rungs.

A Deployment has one pod template, so all of its rungs must offer the same number of chips (and, on
TPU, the same topology). Properties that differ, such as memory and vCPUs, are those of the smallest
rung.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.node_networks import INTERFACE_NETWORKS
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.host_memory import request_gib

# Assumed minimum for machines whose vCPUs and memory are not published.
_UNKNOWN_VCPUS = 8
_UNKNOWN_RAM_GIB = 32
# Share of a machine that a server may request; GKE's agents and DaemonSets use the rest.
_CPU_SHARE = 0.75


@dataclass(frozen=True)
class Hardware:
    """One type of node, and its compute class."""

    kind: str
    """One of `gke_inference.catalogue.hardware.KINDS`."""
    compute_class: str
    rungs: tuple[Rung, ...]
    chips: int
    """Chips or GPUs of the node, 0 for processors alone. The pod requests all of them."""
    hosts: int
    """Nodes per replica. More than one means a group of pods, one per node."""
    pipeline_parallel: int
    """Pipeline stages: one per GPU host, as the network between hosts is slow; one on TPU, whose
    chips are connected across all hosts of a slice."""
    tensor_parallel: int
    topology: str | None
    vcpus: int
    ram_gib: int
    network: str | None = None
    """`rdma`, `tcpx`, `tcpxo`, `tcp` or None, as of its rungs."""

    @property
    def has_rdma(self) -> bool:
        """Whether a pod claims the RDMA interfaces of its node."""
        return self.network == "rdma"

    @property
    def interface_network(self) -> str | None:
        """The network if a pod uses the GPUDirect interfaces of its node: `tcpx` or `tcpxo`."""
        return self.network if self.network in INTERFACE_NETWORKS else None

    @property
    def is_group(self) -> bool:
        """Whether a replica is a group of pods."""
        return self.hosts > 1

    @property
    def devices_per_node(self) -> int:
        """Devices that the engine sees on one node."""
        return self.tensor_parallel * self.pipeline_parallel // self.hosts

    @property
    def devices(self) -> dict[str, str]:
        """All devices of the node by extended resource, such as `nvidia.com/gpu`; none for CPU."""
        return {self.rungs[0].chip.resource: str(self.chips)} if self.chips else {}

    @property
    def has_arm(self) -> bool:
        """Whether some of its rungs have Arm processors."""
        return any(rung.is_arm for rung in self.rungs)

    def requests(self, cache_gib: int = 0) -> dict[str, str]:
        """Return the CPU and memory that an engine requests, which determine node and placement.

        Args:
            cache_gib: File cache in memory, which is requested for the sidecar.
        """
        cpu = max(1, int(self.vcpus * _CPU_SHARE))
        return {"cpu": str(cpu), "memory": f"{request_gib(self.ram_gib, cache_gib)}Gi"}

    def resources(self, cache_gib: int = 0, extra: Mapping[str, str] | None = None) -> Manifest:
        """Return the resources of an engine's container: its share of the node, and all devices.

        Processors alone have a limit of memory, which is all that the model has: an engine that
        exceeds its request is killed before the node is short. CPU has no limit, which would slow
        an engine down on a node of its own.

        Args:
            cache_gib: File cache in memory, which is requested for the sidecar.
            extra: Further requests.
        """
        own = self.requests(cache_gib)
        limits = self.devices or {"memory": own["memory"]}
        return {"limits": dict(limits), "requests": {**own, **(extra or {}), **self.devices}}


def hardware(kind: str, compute_class: str, rungs: list[Rung]) -> Hardware:
    """Return the common hardware of the rungs of one kind.

    Raises:
        InputError: They have too little in common for one pod.
    """
    mine = tuple(rung for rung in rungs if rung.kind == kind)
    if not mine:
        labels = ", ".join(rung.label for rung in rungs)
        raise InputError("rungs", f"must have a {kind} rung", Bare(labels))
    first = mine[0]
    for rung in mine[1:]:
        if rung.shape != first.shape:
            rule = "must all have the same chips, topology and network for one kind of hardware"
            labels = Bare(f"{first.label} and {rung.label}")
            raise InputError("rungs", rule, labels, ": use two capacities")
    machines = [rung.machine for rung in mine]
    return Hardware(
        chips=first.chips_per_node,
        compute_class=compute_class,
        hosts=first.hosts,
        kind=kind,
        network=first.network,
        pipeline_parallel=1 if kind == "tpu" else first.hosts,
        ram_gib=min(entry.ram_gib or _UNKNOWN_RAM_GIB for entry in machines),
        rungs=mine,
        tensor_parallel=first.devices if kind == "tpu" else first.devices // first.hosts,
        topology=first.topology,
        vcpus=min(entry.vcpus or _UNKNOWN_VCPUS for entry in machines),
    )

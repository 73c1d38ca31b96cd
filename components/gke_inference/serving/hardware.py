"""The hardware of one Deployment: what all its rungs have in common.

A Deployment has one pod template, so every rung it may land on must offer the same number of chips
(and, on TPU, the same topology). What differs, such as memory and vCPUs, is taken from the
smallest.
"""

from dataclasses import dataclass

from gke_inference.catalogue.accelerators import accelerator, machine
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung

# What a machine whose vCPUs and memory are not published is taken to have at least.
_UNKNOWN_VCPUS = 8
_UNKNOWN_RAM_GIB = 32
# Share of a machine one server may ask for; GKE's agents and DaemonSets have the rest.
_CPU_SHARE = 0.75
_RAM_SHARE = 0.7


@dataclass(frozen=True)
class Hardware:
    """One kind of node, and the class that finds it."""

    kind: str
    """`tpu` or `gpu`."""
    compute_class: str
    rungs: tuple[Rung, ...]
    chips: int
    """Chips or GPUs of the node; the pod asks for all of them."""
    hosts: int
    """Nodes of one replica: more than one is a group of pods, one on each."""
    pipeline_parallel: int
    """Stages the model is cut into: one for each GPU host, as the network between hosts is slow;
    one on TPU, whose chips are linked over all hosts of a slice."""
    tensor_parallel: int
    topology: str | None
    vcpus: int
    ram_gib: int

    @property
    def is_group(self) -> bool:
        """Whether a replica is a group of pods."""
        return self.hosts > 1

    @property
    def devices_per_node(self) -> int:
        """Devices the engine sees on one node."""
        return self.tensor_parallel * self.pipeline_parallel // self.hosts

    @property
    def resource(self) -> str:
        """The extended resource: `google.com/tpu` or `nvidia.com/gpu`."""
        return accelerator(self.rungs[0].accelerator).resource

    @property
    def requests(self) -> dict[str, str]:
        """CPU and memory the pod asks for; a node is sized, and filled, by requests."""
        cpu = max(1, int(self.vcpus * _CPU_SHARE))
        return {"cpu": str(cpu), "memory": f"{int(self.ram_gib * _RAM_SHARE)}Gi"}


def hardware(kind: str, compute_class: str, rungs: list[Rung]) -> Hardware:
    """Returns what the rungs of one kind have in common.

    Raises:
        InputError: They have too little in common for one pod.
    """
    mine = tuple(rung for rung in rungs if rung.kind == kind)
    if not mine:
        labels = ", ".join(rung.label for rung in rungs)
        raise InputError("rungs", f"must have a {kind} rung", Bare(labels))
    first = mine[0]
    for rung in mine[1:]:
        if _shape(rung) != _shape(first):
            rule = "must all have the same chips and topology for one kind of accelerator"
            labels = Bare(f"{first.label} and {rung.label}")
            raise InputError("rungs", rule, labels, ": use two capacities")
    machines = [machine(rung.accelerator, rung.machine_type) for rung in mine]
    return Hardware(
        chips=first.chips_per_node,
        compute_class=compute_class,
        hosts=first.hosts,
        kind=kind,
        pipeline_parallel=1 if kind == "tpu" else first.hosts,
        ram_gib=min(entry.ram_gib or _UNKNOWN_RAM_GIB for entry in machines),
        rungs=mine,
        tensor_parallel=first.devices if kind == "tpu" else first.devices // first.hosts,
        topology=first.topology,
        vcpus=min(entry.vcpus or _UNKNOWN_VCPUS for entry in machines),
    )


def _shape(rung: Rung) -> tuple[int, int, str | None]:
    return rung.chips_per_node, rung.devices, rung.topology

"""The accelerator of a node, from GKE's labels, and the accelerator that a container needs."""

from collections.abc import Callable
from dataclasses import dataclass

from twin.cluster.nodes.node_objects import promised_devices
from twin.wire.kube import JsonObject, Kube, KubeError

_TPU_LABEL = "cloud.google.com/gke-tpu-accelerator"
_GPU_LABEL = "cloud.google.com/gke-accelerator"
_COUNT_LABEL = "cloud.google.com/gke-accelerator-count"
_TOLD = "--hardware="
_RESOURCES = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}


@dataclass(frozen=True)
class NodeHardware:
    """The accelerators of a node."""

    kind: str
    """`tpu`, `gpu` or `cpu`."""
    accelerator: str
    """GKE's label value, or `cpu`."""
    chips: int
    network: str = "tcp"
    """`rdma` for a pod that has claimed the node's RDMA interfaces; `tcpx` or `tcpxo` for one whose
    daemon drives such interfaces of the node."""
    has_driver: bool = True
    """Whether the driver is installed, so that a container sees the devices."""


def of_node(node: JsonObject) -> NodeHardware:
    """Return the accelerators of a node."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    capacity: dict[str, str] = node.get("status", {}).get("capacity", {})
    for kind, label in (("tpu", _TPU_LABEL), ("gpu", _GPU_LABEL)):
        if label in labels:
            chips = capacity.get(_RESOURCES[kind]) or labels.get(_COUNT_LABEL, "1")
            has_driver = not promised_devices(node)
            return NodeHardware(kind, labels[label], int(chips), has_driver=has_driver)
    return NodeHardware("cpu", "cpu", 1)


def driver_check(kube: Kube, node: JsonObject) -> Callable[[], bool]:
    """Return a function that returns whether the driver of a node is installed by now."""
    path = f"/api/v1/nodes/{node['metadata']['name']}"

    def is_installed() -> bool:
        if not promised_devices(node):
            return True
        try:
            return not promised_devices(kube.get(path))
        except KubeError:
            return False

    return is_installed


def requested(container: JsonObject) -> tuple[str, int] | None:
    """Return (kind, chips) that a container requests, or None if it requests none."""
    resources: JsonObject = container.get("resources", {})
    for kind, name in _RESOURCES.items():
        for section in ("limits", "requests"):
            if name in resources.get(section, {}):
                return kind, int(resources[section][name])
    return None


def made_for(container: JsonObject) -> str:
    """Return the kind of hardware that an engine container runs on.

    The resource request determines the kind, or what the platform's launcher is told. A container
    of a dual-container pod has neither, so its image determines the kind: vLLM's TPU images have
    `tpu` in their name, CPU images `cpu`.
    """
    asked = requested(container)
    if asked is not None:
        return asked[0]
    for word in container.get("command", []):
        if word.startswith(_TOLD):
            return str(word.removeprefix(_TOLD))
    image = str(container["image"]).rsplit("/", 1)[-1]
    return next((kind for kind in ("tpu", "cpu") if kind in image), "gpu")


def chips_for(container: JsonObject, node: NodeHardware) -> int:
    """Return the number of chips of a container: its request, or all chips of the node."""
    asked = requested(container)
    return asked[1] if asked is not None else node.chips

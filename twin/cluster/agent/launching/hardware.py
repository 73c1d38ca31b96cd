"""Which accelerator a node has, from GKE's labels, and which one a container is made for."""

from dataclasses import dataclass

from twin.wire.kube import JsonObject

_TPU_LABEL = "cloud.google.com/gke-tpu-accelerator"
_GPU_LABEL = "cloud.google.com/gke-accelerator"
_COUNT_LABEL = "cloud.google.com/gke-accelerator-count"
_RESOURCES = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}


@dataclass(frozen=True)
class NodeHardware:
    """The accelerators of a node."""

    kind: str
    """`tpu`, `gpu` or `cpu`."""
    accelerator: str
    """GKE's label value; `cpu` where there is none."""
    chips: int


def of_node(node: JsonObject) -> NodeHardware:
    """Return the accelerators of a node."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    capacity: dict[str, str] = node.get("status", {}).get("capacity", {})
    for kind, label in (("tpu", _TPU_LABEL), ("gpu", _GPU_LABEL)):
        if label in labels:
            chips = capacity.get(_RESOURCES[kind]) or labels.get(_COUNT_LABEL, "1")
            return NodeHardware(kind, labels[label], int(chips))
    return NodeHardware("cpu", "cpu", 1)


def requested(container: JsonObject) -> tuple[str, int] | None:
    """Return (kind, chips) that a container asks for, or None where it asks for none."""
    resources: JsonObject = container.get("resources", {})
    for kind, name in _RESOURCES.items():
        for section in ("limits", "requests"):
            if name in resources.get(section, {}):
                return kind, int(resources[section][name])
    return None


def made_for(container: JsonObject) -> str:
    """Return the kind of accelerator that an engine container runs on.

    What it asks for decides; a container of a dual-container pod asks for nothing, and its image
    says: TPU images of vLLM carry `tpu` in their name, CPU images `cpu`.
    """
    asked = requested(container)
    if asked is not None:
        return asked[0]
    image = str(container["image"]).rsplit("/", 1)[-1]
    return next((kind for kind in ("tpu", "cpu") if kind in image), "gpu")


def chips_for(container: JsonObject, node: NodeHardware) -> int:
    """Return the chips a container gets: what it asks for, or all of the node's."""
    asked = requested(container)
    return asked[1] if asked is not None else node.chips

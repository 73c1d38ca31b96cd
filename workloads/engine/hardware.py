"""Detection of the accelerator, by the devices of the node, then by GKE's labels."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from . import node

ROOT_VARIABLE = "GKE_INFERENCE_ROOT"
"""Environment variable with the folder to use as `/` when looking for devices and weights."""

_DEVICES = {
    "tpu": (("dev/vfio", r"\d+"), ("dev", r"accel\d+")),  # v6e and newer; v5e and older
    "gpu": (("dev", r"nvidia\d+"),),
}
_NVIDIA_TOOL = "usr/local/nvidia/bin/nvidia-smi"  # where GKE mounts the driver
_LABELS = {"tpu": "cloud.google.com/gke-tpu-accelerator", "gpu": "cloud.google.com/gke-accelerator"}
_TPU_VARIABLES = ("TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY", "TPU_WORKER_ID")


@dataclass(frozen=True)
class Found:
    """The accelerator of the node."""

    kind: str
    """`tpu`, `gpu`, or `cpu` if the node has no accelerator."""
    devices: int
    """Number of visible devices; 0 if only a label indicates the accelerator."""
    how: str
    """Description of how it was detected."""


def root() -> Path:
    """Return the folder to use as `/`."""
    return Path(os.environ.get(ROOT_VARIABLE, "/"))


def find() -> Found:
    """Return the accelerator of this node.

    Devices take precedence over GKE's labels. A new node has its label before its driver is
    installed, and is found with 0 devices. Variables such as TPU_TOPOLOGY are ignored, because a
    pod with a container for each kind of hardware sets them on every node.
    """
    base = root()
    for kind, places in _DEVICES.items():
        for folder, pattern in places:
            count = _count(base / folder, pattern)
            if count:
                return Found(kind, count, f"{count} devices in /{folder}")
    if has_driver():
        return Found("gpu", 0, f"/{_NVIDIA_TOOL}")
    here = node.read(base)
    labels = {} if here is None else here.labels
    for kind, label in _LABELS.items():
        if label in labels:
            return Found(kind, 0, f"node label {label}={labels[label]}")
    return Found("cpu", os.cpu_count() or 1, "no accelerator")


def has_driver() -> bool:
    """Return whether the driver of an NVIDIA GPU is installed on the node."""
    return os.access(root() / _NVIDIA_TOOL, os.X_OK)


def variables() -> "dict[str, str]":
    """Return the variables that the TPU device plugin set in this container, for the log."""
    return {name: os.environ[name] for name in _TPU_VARIABLES if name in os.environ}


def _count(folder: Path, pattern: str) -> int:
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    return sum(1 for name in names if re.fullmatch(pattern, name))

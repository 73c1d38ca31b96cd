"""The RDMA interface of each GPU, for DeepEP, each of whose processes sends through one.

NVSHMEM takes the nearest interface by default. Where two GPUs and two interfaces share a PCIe
switch, as on A3 Ultra and A4 machines, both GPUs get the same one, and half of the interfaces stay
idle. DeepEP has no setting for it: its pull request 466, whose variable llm-d's own image reads, is
not merged (deepseek-ai/DeepEP main at dd758ca). vLLM sets a variable in each of its workers when it
knows the pairs (vllm-project/vllm pull request 42083, `vllm/v1/executor/vllm_net_devices.py`). Not
tested on real machines.
"""

import os
import re
from pathlib import Path

from . import hardware
from .log import say
from .spec import Serving

_DEEP_EP = "deepep_"
_PORT = ":1"
_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # class of GPUs: VGA, or 3D controller
_NAME = re.compile(r"mlx5_(\d+)")


def environment(serving: Serving) -> "dict[str, str]":
    """Return the variables by which each process of an engine uses the interface of its GPU.

    A GPU and an interface with the same number are a pair (llm-d guides/wide-ep-lws, overlay gke).
    Nothing is returned for engines that do not use DeepEP over several hosts, and where the
    numbers of GPUs and interfaces differ.
    """
    if serving.hosts == 1 or not (serving.all2all or "").startswith(_DEEP_EP):
        return {}
    gpus, interfaces = _gpus(hardware.root()), _interfaces(hardware.root())
    if len(gpus) != len(interfaces):
        say(
            "WARNING",
            f"{len(gpus)} GPUs and {len(interfaces)} RDMA interfaces: NVSHMEM chooses for each GPU",
        )
        return {}
    if not gpus:
        return {}
    pairs = zip(gpus, interfaces, strict=True)
    return {
        # otherwise NVSHMEM ignores the list
        "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
        "VLLM_GPU_NIC_PCIE_MAPPING": ",".join(f"{gpu}={other}" for gpu, other in pairs),
        "VLLM_NIC_SELECTION_VARS": f"NVSHMEM_HCA_LIST{_PORT}",
    }


def _gpus(base: Path) -> list[str]:
    """Return the PCI addresses of all GPUs, in the order in which the driver numbers them."""
    devices = base / "sys/bus/pci/devices"
    return sorted(name for name in _names(devices) if _is_gpu(devices / name))


def _is_gpu(device: Path) -> bool:
    try:
        vendor, kind = ((device / name).read_text() for name in ("vendor", "class"))
    except OSError:
        return False
    return vendor.strip() == _NVIDIA and kind.startswith(_DISPLAY)


def _interfaces(base: Path) -> list[str]:
    """Return the PCI addresses of all RDMA interfaces, by their number."""
    devices = base / "sys/class/infiniband"
    found = {int(match[1]): match[0] for match in map(_NAME.fullmatch, _names(devices)) if match}
    return [(devices / name / "device").resolve().name for _, name in sorted(found.items())]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []

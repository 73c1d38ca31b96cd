"""Processes that serve one model on several GPUs have enough shared memory."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.accelerators import GPU
from policies.objects.engines import engines
from policies.objects.world import World

_PATH = "/dev/shm"  # noqa: S108 (a mount point, not a file that is written)
_LEAST_MIB = 1024
_UNITS = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024**2, "M": 0.954, "G": 954, "": 1 / 2**20}


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        container = server.container
        devices = container.amount(GPU) or 0
        if devices < 2:
            continue
        mount = container.mount_of(_PATH)
        volume = container.pod.volumes.get(str(mount.get("name"))) if mount else None
        field = f"{container.path}.volumeMounts"
        if volume is None or str(mount and mount.get("mountPath")).rstrip("/") != _PATH:
            yield broken(
                container.pod.obj,
                field,
                None,
                f"{devices} GPUs exchange data through {_PATH}, which has 64 MiB by default",
                f"mount an emptyDir with medium: Memory at {_PATH}",
            )
            continue
        size = _mib(str(at(volume, "emptyDir", "sizeLimit") or ""))
        if at(volume, "emptyDir") is not None and at(volume, "emptyDir", "medium") != "Memory":
            yield broken(
                container.pod.obj,
                field,
                at(volume, "name"),
                f"{_PATH} is a folder on the node's disk",
                "set medium: Memory",
            )
        elif size is not None and size < _LEAST_MIB:
            yield broken(
                container.pod.obj,
                field,
                at(volume, "emptyDir", "sizeLimit"),
                f"{_PATH} has {size:.0f} MiB for {devices} GPUs",
                "set at least 1Gi",
            )


def _mib(quantity: str) -> float | None:
    match = re.fullmatch(r"([0-9.]+)([KMGT]i|[MG]|)", quantity)
    return float(match[1]) * _UNITS[match[2]] if match else None


RULE = Invariant(
    name="shared-memory",
    description="Pods with several GPUs mount at least 1 GiB of memory at /dev/shm.",
    reference="vLLM: docker and Kubernetes deployment (tensor parallelism and NCCL need it)",
    check=_check,
)

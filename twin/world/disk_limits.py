"""How many disks a machine can attach beside its boot disk. Pure.

Source: kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, `getVolumeLimits` in
pkg/gce-pd-csi-driver/node.go and pkg/constants/constants.go (2026-08-18): the limit that the driver
reports for a node.
"""

from typing import Final

_MOST: Final = 127
_SHARED_CORE: Final = ("e2-medium", "e2-micro", "e2-small", "f1-micro", "g1-small")
_SHARED_CORE_LIMIT: Final = 15
_BY_VCPUS: Final = {
    "c4": ((2, 7), (4, 15), (24, 31), (48, 63), (96, 127)),
    "c4a": ((2, 7), (8, 15), (48, 31), (72, 63)),
    "c4d": ((2, 3), (4, 7), (8, 15), (96, 31), (192, 63), (384, 127)),
    "n4": ((8, 15), (80, 31)),
    "n4a": ((8, 15), (64, 31)),
    "n4d": ((8, 15), (96, 31)),
}
"""(vCPUs, limit) of a series: the first entry with at least the machine's vCPUs, or the last."""
_BY_GPUS: Final = ((1, 63), (2, 127))
_A4X: Final = "a4x"


def attach_limit(machine_type: str) -> int:
    """Return the number of volumes of the Persistent Disk driver that a node can have.

    Args:
        machine_type: Name of the machine type.
    """
    if machine_type in _SHARED_CORE:
        return _SHARED_CORE_LIMIT
    series, _, rest = machine_type.partition("-")
    size = rest.partition("-")[2].partition("-")[0]
    if series == _A4X:
        return 31 if size == "metal" else _step(_BY_GPUS, size.removesuffix("g"))
    if series in _BY_VCPUS:
        return _step(_BY_VCPUS[series], size)
    if series == "x4":
        return 39
    return 15 if series == "c3" and machine_type.endswith("-metal") else _MOST


def _step(steps: tuple[tuple[int, int], ...], size: str) -> int:
    if not size.isdecimal():
        return _MOST
    return next((limit for most, limit in steps if int(size) <= most), steps[-1][1])

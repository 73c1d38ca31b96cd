"""Boot disk types that a machine supports, where known.

2026-11-22: GoogleCloudPlatform/cluster-toolkit sets `hyperdisk-balanced` in each of its v6e
blueprints. The others are assumed from Compute Engine's pages on machine families. For machines not
listed here, all types are allowed.
"""

from typing import Final

TYPES: Final = ("pd-balanced", "pd-standard", "pd-ssd", "hyperdisk-balanced")
"""Types that a compute class can request (CRD ComputeClass, storage.bootDiskType)."""

_TAKEN: Final = {
    "a3-ultragpu-": ("hyperdisk-balanced",),
    "a4-": ("hyperdisk-balanced",),
    "ct6e-": ("hyperdisk-balanced",),
    "g2-": ("pd-balanced", "pd-ssd"),
    "tpu7x-": ("hyperdisk-balanced",),
}


def boot_disks(machine_type: str) -> tuple[str, ...]:
    """Return the boot disk types of a machine, or all types if not known."""
    known = (types for prefix, types in _TAKEN.items() if machine_type.startswith(prefix))
    return next(known, TYPES)

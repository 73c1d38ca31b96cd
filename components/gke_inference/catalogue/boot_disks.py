"""Which boot disks a machine takes, where that is known.

2026-11-22: GoogleCloudPlatform/cluster-toolkit sets `hyperdisk-balanced` in each of its v6e
blueprints. The others are assumed from Compute Engine's pages about machine families. Of machines
that are not here nothing is known, and nothing is refused.
"""

from typing import Final

TYPES: Final = ("pd-balanced", "pd-standard", "pd-ssd", "hyperdisk-balanced")
"""Types that a compute class can ask for (CRD ComputeClass, storage.bootDiskType)."""

_TAKEN: Final = {
    "a3-ultragpu-": ("hyperdisk-balanced",),
    "a4-": ("hyperdisk-balanced",),
    "ct6e-": ("hyperdisk-balanced",),
    "g2-": ("pd-balanced", "pd-ssd"),
    "tpu7x-": ("hyperdisk-balanced",),
}


def boot_disks(machine_type: str) -> tuple[str, ...]:
    """Return the types that a machine takes; all of them where nothing is known."""
    known = (types for prefix, types in _TAKEN.items() if machine_type.startswith(prefix))
    return next(known, TYPES)

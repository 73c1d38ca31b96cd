"""Boot disk types that a machine supports, where known.

What boots only from Hyperdisk, or never, is in data/quotas.yaml. That G2 does not boot from
`pd-standard` is assumed from Compute Engine's page on machine families. Machines not listed can
have all types.
"""

from typing import Final

from .quotas import boots_never_from_hyperdisk, boots_only_from_hyperdisk

TYPES: Final = ("pd-balanced", "pd-standard", "pd-ssd", "hyperdisk-balanced")
"""Types that a compute class can request (CRD ComputeClass, storage.bootDiskType)."""


def boot_disks(machine_type: str) -> tuple[str, ...]:
    """Return the boot disk types of a machine, or all types if not known."""
    if boots_only_from_hyperdisk(machine_type):
        return ("hyperdisk-balanced",)
    if machine_type.startswith("g2-"):
        return ("pd-balanced", "pd-ssd")
    return TYPES[:-1] if boots_never_from_hyperdisk(machine_type) else TYPES

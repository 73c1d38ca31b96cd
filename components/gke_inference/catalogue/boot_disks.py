"""Boot disk types that a machine supports, where known.

What boots only from Hyperdisk, or never, is in data/quotas.yaml. That G2 does not boot from
`pd-standard` is assumed from Compute Engine's page on machine families. Machines not listed can
have all types.
"""

from typing import Final

from gke_inference.settings.fields import BootDisk

from .quotas import boots_never_from_hyperdisk, boots_only_from_hyperdisk

TYPES: Final = tuple(each.value for each in BootDisk)
"""Types that a compute class can request (CRD ComputeClass, storage.bootDiskType)."""


def boot_disks(machine_type: str) -> tuple[str, ...]:
    """Return the boot disk types of a machine, or all types if not known."""
    if boots_only_from_hyperdisk(machine_type):
        return (BootDisk.HYPERDISK.value,)
    if machine_type.startswith("g2-"):
        return (BootDisk.BALANCED.value, BootDisk.SSD.value)
    if boots_never_from_hyperdisk(machine_type):
        return tuple(each for each in TYPES if each != BootDisk.HYPERDISK.value)
    return TYPES

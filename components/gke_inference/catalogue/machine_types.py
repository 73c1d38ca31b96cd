"""Machine types without accelerators. Facts are in data/machine_types.yaml, with their source."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.quotas import boots_never_from_hyperdisk, boots_only_from_hyperdisk
from gke_inference.settings.fields import BootDisk

TYPES: Final = tuple(each.value for each in BootDisk)
"""Boot disks that a compute class can request (CRD ComputeClass, storage.bootDiskType)."""
_FILE = Path(__file__).parent / "data" / "machine_types.yaml"


@cache
def general_machine_types() -> tuple[str, ...]:
    """Return the predefined machine types without accelerators."""
    found: list[str] = []
    for family, shapes in _document()["families"].items():
        for shape, sizes in shapes.items():
            start = family if shape == "sizes" else f"{family}-{shape}"
            found += [f"{start}-{size}" for size in sizes]
    return tuple(found)


def is_general(machine_type: str) -> bool:
    """Return whether a machine type without accelerators exists, predefined or custom."""
    families = "|".join(_document()["custom"])
    custom = rf"(?:(?:{families})-)?custom-(?:\d+|micro|small|medium)-\d+(?:-ext)?"
    return machine_type in general_machine_types() or re.fullmatch(custom, machine_type) is not None


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)


def boot_disks(machine_type: str) -> tuple[str, ...]:
    """Return the boot disk types of a machine, or all types if not known.

    That G2 does not boot from `pd-standard` is assumed from Compute Engine's page on machine
    families.
    """
    if boots_only_from_hyperdisk(machine_type):
        return (BootDisk.HYPERDISK.value,)
    if machine_type.startswith("g2-"):
        return (BootDisk.BALANCED.value, BootDisk.SSD.value)
    if boots_never_from_hyperdisk(machine_type):
        return tuple(each for each in TYPES if each != BootDisk.HYPERDISK.value)
    return TYPES

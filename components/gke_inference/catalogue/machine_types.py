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
    families: str = "|".join(_document()["custom"])
    custom = rf"(?:(?:{families})-)?custom-(?:\d+|micro|small|medium)-\d+(?:-ext)?"
    return machine_type in general_machine_types() or re.fullmatch(custom, machine_type) is not None


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)


def memory_gib(machine_type: str) -> float | None:
    """Return the memory of a predefined machine type without local SSDs, or None if not known."""
    family, _, rest = machine_type.partition("-")
    shape, _, size = rest.partition("-")
    known = _document()["memory"].get(family, {})
    sizes = _document()["families"].get(family, {}).get(shape, ())
    if shape not in known.get("per_vcpu", {}) or not size.isdigit() or int(size) not in sizes:
        return None
    return float(known.get("sizes", {}).get(rest) or int(size) * known["per_vcpu"][shape])


def sized_machine_types(family: str) -> tuple[str, ...]:
    """Return the machine types of a family whose memory is known."""
    shapes = _document()["families"].get(family, {})
    named = (f"{family}-{shape}-{size}" for shape, sizes in shapes.items() for size in sizes)
    return tuple(name for name in named if memory_gib(name) is not None)


def rung_families() -> tuple[str, ...]:
    """Return the machine families that a rung without an accelerator may have."""
    return tuple(_document()["rungs"])


def family_regions(family: str) -> tuple[str, ...]:
    """Return the regions that have one of `rung_families`."""
    return tuple(_document()["rungs"][family]["regions"])


def is_arm(family: str) -> bool:
    """Return whether nodes of a family have Arm processors, and GKE's taint for them."""
    return _document()["rungs"].get(family, {}).get("arch") == "arm64"


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

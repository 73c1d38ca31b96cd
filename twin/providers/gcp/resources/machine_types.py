"""Existing machine types, as far as the twin knows.

They are those in the catalog of the components. Without the components, only the format of the
name is checked.
"""

import importlib
import importlib.util
import re
from functools import cache
from typing import Any

from twin.wire.property_values import CloudError, Json, get_path

_FAMILY = re.compile(r"^(?P<family>[a-z]+\d+[a-z]*)-")
_GENERAL = re.compile(
    r"^(?:custom-\d+-\d+"
    r"|(?:a2|c2|c2d|c3|c3d|c4|c4a|c4d|e2|f1|g1|h3|h4d|m1|m2|m3|m4|n1|n2|n2d|n4|n4a|n4d|t2a|t2d|x4|z3)"
    r"-(?:standard|highmem|highcpu|ultramem|megamem|hypermem|custom|micro|small|medium)"
    r"(?:-[a-z0-9]+)*)$"
)


@cache
def _catalogue() -> dict[str, frozenset[str]]:
    """Return the machine types of each family with accelerators."""
    accelerators: Any = _module("accelerators")
    if accelerators is None:
        return {}
    found: dict[str, set[str]] = {}
    for name in accelerators.accelerator_names():
        for machine in accelerators.accelerator(name).machines:
            match = _FAMILY.match(machine.name)
            if match is not None:
                found.setdefault(match["family"], set()).add(machine.name)
    return {family: frozenset(names) for family, names in found.items()}


def is_machine_type(name: str) -> bool:
    """Return whether a machine type can exist."""
    match = _FAMILY.match(name)
    known = _catalogue().get(match["family"]) if match else None
    if known:
        return name in known
    general: Any = _module("machine_types")
    return general.is_general(name) if general else _GENERAL.match(name) is not None


def check_boot_disk(inputs: Json, name: str) -> None:
    """Reject a boot disk that a pool's machines do not have (rule cloud.boot-disk)."""
    disks: Any = _module("machine_types")
    disk = get_path(inputs, "nodeConfig.diskType")
    if disks is None or not isinstance(disk, str) or not disk:
        return
    if disk not in disks.boot_disks(name):
        message = f"[{disk}, {name}] features are not compatible for creating instance."
        raise CloudError(400, message, "badRequest")


def _module(name: str) -> object:
    """Return a module of the catalog, or None: the twin works without the components."""
    if importlib.util.find_spec("gke_inference") is None:
        return None
    return importlib.import_module(f"gke_inference.catalogue.{name}")

"""What the nodes of a rung have: the chips of an accelerator, or processors alone.

A rung without an accelerator is named by its machine family, such as `c3`, where others have the
name of their accelerator. Its record has no chips, so that nothing is requested, counted or paid
for as one. Machine families are in data/machine_types.yaml.
"""

from functools import cache
from typing import Final

from .accelerators import Accelerator, Machine, Provisioning, Quota, accelerator, zones_of
from .accelerators import machine as machine_with_chips
from .machine_types import family_regions, memory_gib, rung_families, sized_machine_types
from .quotas import vcpus_of

CPU: Final = "cpu"
"""Kind of hardware without an accelerator."""
KINDS: Final = ("tpu", "gpu", CPU)
"""Kinds of hardware, in the order in which a paired model prefers them."""
_SOLD_AS: Final = (Provisioning.RESERVATION, Provisioning.ON_DEMAND, Provisioning.SPOT)
"""Flex-start and calendar mode are for accelerators, and for H4D, which no rung has
(docs.cloud.google.com/compute/docs/instances/provisioning-models, known, not re-read)."""


def hardware(name: str) -> Accelerator:
    """Return an accelerator, or the record of a machine family, which has no chips.

    Raises:
        UnknownAcceleratorError: There is neither of that name.
    """
    return _family(name) if name in rung_families() else accelerator(name)


def node_machine(name: str, machine_type: str) -> Machine:
    """Return a machine type of an accelerator or of a machine family.

    Raises:
        ValueError: It has no such machine type.
    """
    if name not in rung_families():
        return machine_with_chips(name, machine_type)
    for entry in _family(name).machines:
        if entry.name == machine_type:
            return entry
    known = ", ".join(entry.name for entry in _family(name).machines)
    raise ValueError(f"must be a machine type of {name} ({known}), got {machine_type!r}")


def node_zones(name: str, region: str, provisioning: str | None = None) -> tuple[str, ...] | None:
    """Return the zones of a region that offer an accelerator or a machine family.

    Returns:
        None if it is offered but its zones are not listed, as for every machine family.
    """
    if name not in rung_families():
        return zones_of(name, region, provisioning)
    return None if region in family_regions(name) else ()


@cache
def _family(name: str) -> Accelerator:
    return Accelerator(
        bandwidth_gb_per_s=0,
        compact=None,
        confidence="repository",
        cuda=None,
        devices_per_chip=1,
        gke_minimum={},
        gke_type=name,
        kind=CPU,
        link_gb_per_s=0,
        machines=tuple(_machine(each) for each in sized_machine_types(name)),
        memory_gib=0,
        name=name,
        program_gib=0.0,
        quota=Quota("", None, None, ""),
        restricted_zones={},
        slice_placement=None,
        slices=(),
        tflops={},
        title=f"{name.upper()} processors",
        zones=dict.fromkeys(family_regions(name), ()),
        zones_by_provisioning={},
    )


def _machine(machine_type: str) -> Machine:
    memory = memory_gib(machine_type)
    return Machine(
        chips=0,
        name=machine_type,
        ram_gib=None if memory is None else int(memory),
        sold_as=tuple(way.value for way in _SOLD_AS),
        vcpus=vcpus_of(machine_type),
    )

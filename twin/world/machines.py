"""Machine types: vCPUs, memory, accelerators, and the types of each family.

All of them come from the catalog of the components.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gke_inference.catalogue.accelerators import (
    Accelerator,
    accelerator,
    accelerator_names,
    zones_of,
)
from gke_inference.catalogue.accelerators import machine as entry_of
from gke_inference.catalogue.machine_types import memory_gib, sized_machine_types

Provisioning = Literal["on-demand", "spot", "flex-start", "reservation"]
"""The provisioning model of a machine, which affects its availability."""

_SHARED_CORE = {"e2-micro": (2, 1.0), "e2-small": (2, 2.0), "e2-medium": (2, 4.0)}


class UnknownMachineError(ValueError):
    """The machine type is unknown."""


@dataclass(frozen=True)
class Machine:
    """One machine type."""

    name: str
    vcpus: int
    memory_gib: float
    accelerator: str | None = None
    """Catalog name, such as `tpu-v6e`; None for a general-purpose machine."""
    chips: int = 0
    local_ssds: int = 0

    @property
    def family(self) -> str:
        """Machine family, such as `ct6e`."""
        return self.name.split("-", 1)[0]

    @property
    def kind(self) -> str:
        """`tpu`, `gpu` or `cpu`, which decides how long a node takes to start."""
        return accelerator(self.accelerator).kind if self.accelerator else "cpu"

    @property
    def details(self) -> Accelerator | None:
        """Catalog entry of the accelerator."""
        return accelerator(self.accelerator) if self.accelerator else None


@cache
def _accelerated() -> dict[str, Machine]:
    found: dict[str, Machine] = {}
    for name in accelerator_names():
        for entry in accelerator(name).machines:
            # not documented and therefore not in the catalog: TPU7x hosts with one chip
            vcpus = entry.vcpus if entry.vcpus is not None else 56 * entry.chips
            memory = entry.ram_gib if entry.ram_gib is not None else 240 * entry.chips
            found[entry.name] = Machine(
                entry.name, vcpus, float(memory), name, entry.chips, entry.local_ssds
            )
    return found


def machine(name: str) -> Machine:
    """Return a machine type by its name.

    Raises:
        UnknownMachineError: the catalog does not have the machine type.
    """
    if name in _accelerated():
        return _accelerated()[name]
    if name in _SHARED_CORE:
        vcpus, memory = _SHARED_CORE[name]
        return Machine(name, vcpus, memory)
    family, _, rest = name.partition("-")
    kind, _, size = rest.partition("-")
    if family == "e2" and kind == "custom":
        family, kind, size = "e2", "standard", size.split("-")[0]
    memory = memory_gib(f"{family}-{kind}-{size}")
    if memory is not None:
        return Machine(name, int(size), memory)
    known = [each for each in sized_machine_types(family) if each.startswith(f"{family}-{kind}-")]
    if not known or not size.isdigit():
        raise UnknownMachineError(f"machine type {name!r} is not known")
    raise UnknownMachineError(f"machine type {name!r} does not exist; there are {', '.join(known)}")


def machines_of_family(family: str) -> list[Machine]:
    """Return the machine types of a family, smallest first."""
    accelerated = [item for item in _accelerated().values() if item.family == family]
    if accelerated:
        return sorted(accelerated, key=lambda item: (item.vcpus, item.memory_gib))
    general = [machine(name) for name in sized_machine_types(family)]
    return sorted(general, key=lambda item: (item.vcpus, item.memory_gib))


def machines_with_gpu(gke_type: str, count: int) -> Iterator[Machine]:
    """Yield the machine types with `count` GPUs of Google's type, the catalog's default first."""
    for item in _accelerated().values():
        details = item.details
        is_gpu = details is not None and details.kind == "gpu" and details.gke_type == gke_type
        if is_gpu and item.chips == count:
            yield item


def machine_with_tpu(gke_type: str, count: int, topology: str) -> Machine | None:
    """Return the machine type with `count` chips for a TPU topology."""
    for name in accelerator_names():
        entry = accelerator(name)
        if entry.kind != "tpu" or entry.gke_type != gke_type:
            continue
        for form in entry.slices:
            if form.topology == topology and form.chips_per_host == count:
                return machine(form.machine_type)
    return None


def slice_hosts(item: Machine, topology: str | None) -> int:
    """Return the number of machines of this type in a TPU slice; 1 for other machines.

    Raises:
        UnknownMachineError: the topology is not possible with this machine type.
    """
    details = item.details
    if topology is None or details is None or details.kind != "tpu":
        return 1
    for form in details.slices:
        if form.topology == topology and form.machine_type == item.name:
            return form.hosts
    known = ", ".join(f.topology for f in details.slices if f.machine_type == item.name)
    raise UnknownMachineError(f"topology {topology!r} cannot be made of {item.name} ({known})")


def single_host_topology(item: Machine) -> str | None:
    """Return the topology of a single TPU machine; None for other machines."""
    details = item.details
    if details is None or details.kind != "tpu":
        return None
    for form in details.slices:
        if form.machine_type == item.name and form.hosts == 1:
            return form.topology
    return None


def offered_in(item: Machine, zone: str, provisioning: Provisioning) -> bool:
    """Return whether a zone sells a machine with a provisioning model.

    A region without a listed zone has it in every zone. Rules: capacity.zones,
    capacity.zones.seen.
    """
    details = item.details
    if details is None:
        return True
    if provisioning not in entry_of(details.name, item.name).sold_as:
        return False
    zones = zones_of(details.name, zone.rpartition("-")[0], provisioning)
    return zones is None or zone in zones

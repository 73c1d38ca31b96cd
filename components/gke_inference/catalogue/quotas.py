"""Which quotas of Compute Engine a machine, a disk or an accelerator draws on, by their real names.

Facts are in data/quotas.yaml, with sources and a date, and the names of accelerators' quotas in
data/accelerators.yaml.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

from .accelerators import PROVISIONING, accelerator, accelerator_names

NAT_PORTS_PER_NODE = 4096
"""Most ports of external addresses that `Network` lets one node hold."""

_FILE = Path(__file__).parent / "data" / "quotas.yaml"
_SHARED_CORE_VCPUS = 2
_SIZE = re.compile(r"-(?:custom-)?(\d+)(?=-|$)|^custom-(\d+)-")


@dataclass(frozen=True, order=True)
class Metric:
    """One quota, without its region."""

    name: str
    """As error messages and `regions.get` spell it, such as `NVIDIA_L4_GPUS`."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """What selects its value beside the region, such as `gpu_family` and `NVIDIA_H100`."""
    scope: str = "region"
    """`region`, or `project` for one value over all regions."""
    unit: str = ""
    title: str = ""
    """What it counts, for people."""
    given_id: str | None = None

    @property
    def id(self) -> str:
        """What Cloud Quotas calls it, such as `NVIDIA-L4-GPUS-per-project-region`."""
        if self.given_id is not None:
            return self.given_id
        suffix = "-per-project-region" if self.scope == "region" else "-per-project"
        return self.name.replace("_", "-") + suffix

    @property
    def label(self) -> str:
        """The name with what selects its value: `GPUS_PER_GPU_FAMILY NVIDIA_H100`."""
        return " ".join([self.name, *(value for _, value in self.dimensions)])


def metric(name: str, value: str | None = None) -> Metric:
    """Returns a quota of data/quotas.yaml; `value` is that of its dimension, where it has one.

    Raises:
        KeyError: There is none of that name.
    """
    entry = _document()["metrics"][name]
    dimension = entry.get("dimension")
    return Metric(
        name=name,
        dimensions=((dimension, value),) if dimension and value else (),
        scope=entry["scope"],
        unit=entry["unit"],
        title=entry["title"],
        given_id=entry.get("id"),
    )


def accelerator_metric(name: str, provisioning: str) -> Metric | None:
    """Returns the quota an accelerator's chips count against; `None` for one that takes none.

    Args:
        name: The user's word, such as `tpu-v6e`.
        provisioning: The way it is bought, such as `spot`.
    """
    if provisioning not in PROVISIONING:
        raise ValueError(f"must be one of {', '.join(PROVISIONING)}, got {provisioning!r}")
    chip = accelerator(name)
    kind = _document()["provisioning"][provisioning]
    if kind == "none":
        return None
    unit = "chips" if chip.kind == "tpu" else "GPUs"
    if kind == "preemptible":
        title = f"{chip.title}, spot and flex-start"
        return Metric(chip.quota.preemptible, unit=unit, title=title)
    if chip.quota.dimension and chip.quota.value:
        chosen = ((chip.quota.dimension, chip.quota.value),)
        return Metric(chip.quota.metric, chosen, unit=unit, title=chip.title)
    return Metric(chip.quota.metric, unit=unit, title=chip.title)


def cpu_metric(family: str) -> Metric | None:
    """Returns the quota vCPUs of a machine family count against; `None` for accelerators' own."""
    if family in _accelerator_families():
        return None
    known = _document()["cpus"]
    if family in known["shared"]:
        return metric("CPUS")
    if family in known["own"]:
        title = f"vCPUs of {family.upper()} machines"
        return Metric(f"{family.upper()}_CPUS", unit="vCPUs", title=title)
    return metric("CPUS_PER_VM_FAMILY", family.upper())


def cpu_families() -> frozenset[str]:
    """Returns the machine families whose quota is not that of `CPUS_PER_VM_FAMILY`."""
    known = _document()["cpus"]
    return frozenset((*known["shared"], *known["own"]))


@dataclass(frozen=True)
class Selection:
    """What has to be said beside a quota's name, so that it has one value."""

    is_regional: bool
    dimension: str | None
    """Such as `gpu_family`; None where the name and the region say it all."""
    values: tuple[str, ...] = ()
    """Values of the dimension that the catalogue of accelerators has."""


def selection(name: str) -> Selection:
    """Returns what selects the value of a quota; one that no file of ours has is regional."""
    entry = _document()["metrics"].get(name) or {"scope": "region"}
    chips = (accelerator(each).quota for each in accelerator_names())
    values = {quota.value for quota in chips if quota.metric == name and quota.value}
    return Selection(entry["scope"] == "region", entry.get("dimension"), tuple(sorted(values)))


@cache
def metric_names() -> frozenset[str]:
    """Returns the names of all quotas that data/quotas.yaml and data/accelerators.yaml know."""
    chips = [accelerator(name).quota for name in accelerator_names()]
    own = (f"{family.upper()}_CPUS" for family in _document()["cpus"]["own"])
    of_chips = (name for quota in chips for name in (quota.metric, quota.preemptible))
    return frozenset((*_document()["metrics"], *own, *of_chips))


def vcpus_of(machine_type: str) -> int:
    """Returns the vCPUs in the name of a general machine type: 8 for `e2-standard-8`."""
    found = _SIZE.search(machine_type)
    return int(found[1] or found[2]) if found else _SHARED_CORE_VCPUS


def family_of(machine_type: str) -> str:
    """Returns the family of a machine type: `e2` for `e2-standard-8`."""
    return machine_type.partition("-")[0]


def disk_metric(disk_type: str) -> Metric:
    """Returns the quota that gigabytes of a disk type count against.

    Raises:
        KeyError: data/quotas.yaml does not have the type.
    """
    return metric(str(_document()["disks"][disk_type]))


def boot_disk(machine_type: str) -> tuple[str, int]:
    """Returns type and size in GiB of the boot disk GKE gives a node that asks for none."""
    disks = _document()["boot_disks"]
    kind = disks["type_by_family"].get(family_of(machine_type), disks["type"])
    return str(kind), int(disks["gib"])


def made_by_google(what: str) -> int:
    """Returns how many of something Google makes beside what a program names.

    Raises:
        KeyError: data/quotas.yaml does not say.
    """
    return int(_document()["made_by_google"][what])


def quotas_service() -> str:
    """Returns the service the quotas belong to."""
    return str(_document()["service"])


@cache
def _accelerator_families() -> frozenset[str]:
    return frozenset(
        family_of(machine.name)
        for name in accelerator_names()
        for machine in accelerator(name).machines
    )


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)

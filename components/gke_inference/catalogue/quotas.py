"""Compute Engine quotas of machines, disks and accelerators, by their official names.

Facts are in data/quotas.yaml, with sources and a date. Names of accelerator quotas are in
data/accelerators.yaml.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

from .accelerators import PROVISIONING, AcceleratorNetwork, accelerator, accelerator_names

NAT_PORTS_PER_NODE = 4096
"""Maximum external ports per node that `Network` allows."""

_FILE = Path(__file__).parent / "data" / "quotas.yaml"
_SHARED_CORE_VCPUS = 2
_SIZE = re.compile(r"-(?:custom-)?(\d+)(?=-|$)|^custom-(\d+)-")


@dataclass(frozen=True, order=True)
class Metric:
    """One quota, without its region."""

    name: str
    """Name as in error messages and `regions.get`, such as `NVIDIA_L4_GPUS`."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """Dimensions in addition to the region, such as `gpu_family` and `NVIDIA_H100`."""
    scope: str = "region"
    """`region`, or `project` for one value across all regions."""
    unit: str = ""
    title: str = ""
    """Display name."""
    given_id: str | None = None
    service: str = "compute.googleapis.com"
    """Service that the quota belongs to."""

    @property
    def id(self) -> str:
        """ID in the Cloud Quotas API, such as `NVIDIA-L4-GPUS-per-project-region`."""
        if self.given_id is not None:
            return self.given_id
        suffix = "-per-project-region" if self.scope == "region" else "-per-project"
        return self.name.replace("_", "-") + suffix

    @property
    def label(self) -> str:
        """Name with its dimensions: `GPUS_PER_GPU_FAMILY NVIDIA_H100`."""
        return " ".join([self.name, *(value for _, value in self.dimensions)])


def metric(name: str, value: str | None = None) -> Metric:
    """Return a quota of data/quotas.yaml. `value` is that of its dimension, if it has one.

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
    """Return the quota that an accelerator's chips count against, or `None`.

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


def rung_metric(name: str, provisioning: str, machine_type: str) -> Metric | None:
    """Return the quota that a rung's chips count against, or its vCPUs if it has no accelerator.

    Spot VMs use the quota of standard ones in a project without one for preemptible vCPUs, which
    it has only on request (docs.cloud.google.com/compute/docs/instances/spot, known, not re-read).

    Args:
        name: Accelerator, or machine family of a rung without one.
        provisioning: Provisioning model.
        machine_type: Machine type.
    """
    if name in accelerator_names():
        return accelerator_metric(name, provisioning)
    return cpu_metric(family_of(machine_type))


def cpu_metric(family: str) -> Metric | None:
    """Return the vCPU quota of a machine family, or `None` for accelerator families."""
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
    """Return the machine families with a quota other than `CPUS_PER_VM_FAMILY`."""
    known = _document()["cpus"]
    return frozenset((*known["shared"], *known["own"]))


@dataclass(frozen=True)
class Selection:
    """Dimension that selects a quota's value, in addition to the name."""

    is_regional: bool
    dimension: str | None
    """Such as `gpu_family`, or None if name and region are sufficient."""
    values: tuple[str, ...] = ()
    """Values of the dimension in the accelerator catalog."""


def selection(name: str) -> Selection:
    """Return the dimension of a quota. Quotas that are not in our files are regional."""
    entry = _document()["metrics"].get(name) or {"scope": "region"}
    chips = (accelerator(each).quota for each in accelerator_names())
    values = {quota.value for quota in chips if quota.metric == name and quota.value}
    return Selection(entry["scope"] == "region", entry.get("dimension"), tuple(sorted(values)))


@cache
def metric_names() -> frozenset[str]:
    """Return all quota names in data/quotas.yaml and data/accelerators.yaml."""
    chips = [accelerator(name).quota for name in accelerator_names()]
    own = (f"{family.upper()}_CPUS" for family in _document()["cpus"]["own"])
    of_chips = (name for quota in chips for name in (quota.metric, quota.preemptible))
    return frozenset((*_document()["metrics"], *own, *of_chips))


def vcpus_of(machine_type: str) -> int:
    """Return the vCPUs in the name of a general-purpose machine type: 8 for `e2-standard-8`."""
    found = _SIZE.search(machine_type)
    return int(found[1] or found[2]) if found else _SHARED_CORE_VCPUS


def family_of(machine_type: str) -> str:
    """Return the family of a machine type: `e2` for `e2-standard-8`."""
    return machine_type.partition("-")[0]


def disk_metric(disk_type: str) -> Metric:
    """Return the quota that the capacity of a disk type counts against.

    Raises:
        KeyError: data/quotas.yaml does not have the type.
    """
    return metric(str(_document()["disks"][disk_type]))


def boot_disk(machine_type: str) -> tuple[str, int]:
    """Return the default type and size in GiB of a GKE node's boot disk."""
    disks = _document()["boot_disks"]
    kind = "hyperdisk-balanced" if boots_only_from_hyperdisk(machine_type) else disks["type"]
    return str(kind), int(disks["gib"])


def boots_only_from_hyperdisk(machine_type: str) -> bool:
    """Report whether no Persistent Disk can be a machine's boot disk, where known."""
    return _starts(machine_type, "hyperdisk_only")


def boots_never_from_hyperdisk(machine_type: str) -> bool:
    """Report whether Hyperdisk Balanced cannot be a machine's boot disk, where known."""
    return _starts(machine_type, "hyperdisk_never")


def _starts(machine_type: str, group: str) -> bool:
    return machine_type.startswith(tuple(f"{start}-" for start in _document()["boot_disks"][group]))


def made_by_google(what: str) -> int:
    """Return how many of a resource Google creates in addition to a program's.

    Raises:
        KeyError: data/quotas.yaml does not say.
    """
    return int(_document()["made_by_google"][what])


def profile_networks(network: AcceleratorNetwork) -> dict[str, int]:
    """Return what GKE creates for an accelerator network profile, by the name of its quota."""
    if network.technology != "rdma":  # TCPX and TCPXO have a network for each interface
        return {"NETWORKS": network.nics, "SUBNETWORKS": network.nics}
    return {
        "NETWORKS": made_by_google("networks_per_profile"),
        "SUBNETWORKS": made_by_google("host_subnetworks_per_profile") + network.nics,
    }


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

"""What accelerators exist: chips, machine types, slice topologies, memory, zones, quotas.

Everything is read from data/accelerators.yaml, which carries its sources and its date; nothing else
in this repository repeats those numbers. Names are the user's words (`tpu-v6e`, `nvidia-l4`).

Raises throughout: `UnknownAcceleratorError` for a name that is not in the catalogue, `ValueError`
for a shape that does not exist; both messages list what does.
"""

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

_FILE = Path(__file__).parent / "data" / "accelerators.yaml"

PROVISIONING = ("reservation", "on-demand", "flex-start", "spot", "calendar")
"""The ways an accelerator is bought."""


class UnknownAcceleratorError(ValueError):
    """The catalogue has no accelerator of that name; the message suggests near ones."""


@dataclass(frozen=True)
class Machine:
    """One machine type that carries the accelerator."""

    name: str
    chips: int
    vcpus: int | None
    ram_gib: int | None
    local_ssds: int = 0
    """Local SSDs of 375 GB or 3 TB that the type always has; 0 when they are optional or absent."""
    sold_as: tuple[str, ...] = PROVISIONING
    """The ways to buy it."""


@dataclass(frozen=True)
class Slice:
    """A TPU topology on one of the machine types it can be made of."""

    topology: str
    machine_type: str
    hosts: int
    chips: int

    @property
    def chips_per_host(self) -> int:
        """Chips of one node, the number a pod asks for."""
        return self.chips // self.hosts


@dataclass(frozen=True)
class Quota:
    """Names of the quotas an accelerator draws from; `quotas.accelerator_metric` chooses one."""

    metric: str
    """Name of the regional quota, as error messages have it."""
    dimension: str | None
    """Name of the dimension beside `region`, where several accelerators share the quota's name."""
    value: str | None
    preemptible: str
    """Name of the quota that spot and flex-start draw from; it has no other dimension."""


@dataclass(frozen=True)
class Accelerator:
    """One kind of TPU or GPU."""

    name: str
    kind: str
    """`tpu` or `gpu`."""
    title: str
    gke_type: str
    """Google's word: the value of the node label and of `guest_accelerators[].type`."""
    memory_gib: int
    """Per chip, on the data sheet."""
    program_gib: float
    """Per chip, what a program may have: as on the data sheet, or less where that is known."""
    bandwidth_gb_per_s: int
    """Of the chip's memory."""
    tflops: dict[str, float | None]
    """Dense, by number format: `bf16`, `fp8`, `int8`; `None` where the chip has no such unit."""
    devices_per_chip: int
    """Devices JAX and vLLM see per chip; tensor parallelism counts these."""
    link_gb_per_s: int
    """Between the chips of one node, one way, per chip."""
    machines: tuple[Machine, ...]
    slices: tuple[Slice, ...]
    """TPU only; a topology that two machine types can make is listed twice, the default first."""
    slice_placement: str | None
    """How a multi-host slice is asked for: `compact` or `workload-policy`; `None` for a GPU."""
    gke_minimum: dict[str, str]
    """Oldest GKE version by mode (`standard`, `autopilot`); empty where any supported one does."""
    quota: Quota
    zones: dict[str, tuple[str, ...]]
    """Zones by region, for every customer. An empty tuple: offered there, zones not listed."""
    restricted_zones: dict[str, tuple[str, ...]]
    """Zones that are not for everybody, such as single-tenant ones: the ways to buy it there."""
    flex_start_zones: tuple[str, ...] | None
    """The only zones with flex-start; `None` where every zone may have it."""
    confidence: str

    @property
    def label_key(self) -> str:
        """The node label GKE puts the type in."""
        return catalogue_labels()[f"{self.kind}_accelerator"]

    @property
    def resource(self) -> str:
        """The extended resource a pod asks for: `google.com/tpu` or `nvidia.com/gpu`."""
        return str(_document()["resources"][self.kind])


def accelerator(name: str) -> Accelerator:
    """Returns one accelerator by the user's name for it, such as `tpu-v6e`."""
    entries = _accelerators()
    if name not in entries:
        known = ", ".join(sorted(entries))
        near = difflib.get_close_matches(str(name), entries, n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownAcceleratorError(f"must be one of {known}, got {name!r}{hint}")
    return entries[name]


def accelerator_names() -> tuple[str, ...]:
    """Returns every name `accelerator` knows, sorted."""
    return tuple(sorted(_accelerators()))


def tpu_slice(name: str, topology: str, machine_type: str | None = None) -> Slice:
    """Returns a TPU topology, on `machine_type` or else on its default machine type."""
    chip = accelerator(name)
    if chip.kind != "tpu":
        raise ValueError(f"must be left out for {name}, which is a GPU, got {topology!r}")
    made_of = [entry for entry in chip.slices if entry.topology == topology]
    if not made_of:
        known = ", ".join(dict.fromkeys(entry.topology for entry in chip.slices))
        raise ValueError(f"must be a topology of {name} ({known}), got {topology!r}")
    if machine_type is None:
        return made_of[0]
    for entry in made_of:
        if entry.machine_type == machine_type:
            return entry
    known = " or ".join(entry.machine_type for entry in made_of)
    raise ValueError(f"must be {known} for {name} {topology}, got {machine_type!r}")


def gpu_machine(name: str, count: int, machine_type: str | None = None) -> Machine:
    """Returns the machine type with `count` GPUs: `machine_type`, or else the usual one."""
    chip = accelerator(name)
    if chip.kind != "gpu":
        raise ValueError(f"must be left out for {name}, which is a TPU, got {count}")
    if machine_type is not None:
        found = machine(name, machine_type)
        if found.chips != count:
            raise ValueError(f"must be {found.chips}, the GPUs of a {machine_type}, got {count}")
        return found
    for entry in chip.machines:
        if entry.chips == count:
            return entry
    known = ", ".join(str(number) for number in gpu_counts(name))
    raise ValueError(f"must be a number of GPUs a node of {name} can have ({known}), got {count}")


def gpu_counts(name: str) -> tuple[int, ...]:
    """Returns how many chips one node can have, ascending."""
    return tuple(sorted({entry.chips for entry in accelerator(name).machines}))


def machine(name: str, machine_type: str) -> Machine:
    """Returns one machine type of an accelerator."""
    chip = accelerator(name)
    for entry in chip.machines:
        if entry.name == machine_type:
            return entry
    known = ", ".join(entry.name for entry in chip.machines)
    raise ValueError(f"must be a machine type of {name} ({known}), got {machine_type!r}")


def regions_of(name: str) -> tuple[str, ...]:
    """Returns the regions where every customer is offered the accelerator, sorted."""
    return tuple(sorted(accelerator(name).zones))


def zones_of(name: str, region: str, provisioning: str | None = None) -> tuple[str, ...] | None:
    """Returns the zones of a region where an accelerator can be had.

    Args:
        name: Accelerator, in the user's word.
        region: Where.
        provisioning: The way to buy it. Default: any that every customer has.

    Returns:
        None where the accelerator is offered but no zone is listed, so that any zone may have it.
    """
    chip = accelerator(name)
    if provisioning == "flex-start" and chip.flex_start_zones is not None:
        return tuple(zone for zone in chip.flex_start_zones if region_of(zone) == region)
    listed = chip.zones.get(region, ())
    if region in chip.zones and not listed:
        return None
    restricted = (
        zone
        for zone, ways in chip.restricted_zones.items()
        if region_of(zone) == region and provisioning in ways
    )
    return (*listed, *restricted)


def is_sold(name: str, machine_type: str, region: str, provisioning: str) -> bool:
    """Returns whether a machine type can be bought in a region in one way."""
    ways = machine(name, machine_type).sold_as
    return provisioning in ways and zones_of(name, region, provisioning) != ()


def all_zones(name: str, provisioning: str) -> tuple[str, ...]:
    """Returns every zone that is listed for one way to buy an accelerator, sorted."""
    chip = accelerator(name)
    regions = {*chip.zones, *(region_of(zone) for zone in chip.restricted_zones)}
    found = (zone for region in regions for zone in zones_of(name, region, provisioning) or ())
    return tuple(sorted(found))


def region_of(zone: str) -> str:
    """Returns the region a zone is in: `us-east5` for `us-east5-a` and `us-east5-ai1b`."""
    return zone.rpartition("-")[0]


def catalogue_labels() -> dict[str, str]:
    """Returns GKE's node label keys by what they say, such as `tpu_topology`."""
    return dict(_document()["labels"])


def catalogue_taints() -> dict[str, dict[str, str]]:
    """Returns the taints GKE puts on nodes (`gpu`, `tpu`, `spot`): key and value."""
    return {name: dict(taint) for name, taint in _document()["taints"].items()}


def catalogue_resources() -> dict[str, str]:
    """Returns the extended resource that pods ask for, by kind: `gpu` and `tpu`."""
    return dict(_document()["resources"])


def catalogue_date() -> str:
    """Returns the day the catalogue was compiled, such as `2026-11-21`."""
    return str(_document()["date"])


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)


@cache
def _accelerators() -> dict[str, Accelerator]:
    return {name: _parse(name, entry) for name, entry in _document()["accelerators"].items()}


def _parse(name: str, entry: dict[str, Any]) -> Accelerator:
    return Accelerator(
        name=name,
        kind=entry["kind"],
        title=entry["title"],
        gke_type=entry["gke_type"],
        memory_gib=entry["memory_gib"],
        program_gib=float(entry.get("program_gib", entry["memory_gib"])),
        bandwidth_gb_per_s=entry["bandwidth_gb_per_s"],
        tflops=entry["tflops"],
        devices_per_chip=entry["devices_per_chip"],
        link_gb_per_s=entry["link_gb_per_s"],
        machines=tuple(_machine(key, body) for key, body in entry["machine_types"].items()),
        slices=_slices(entry.get("topologies", {})),
        slice_placement=entry.get("slice_placement"),
        gke_minimum=entry.get("gke_minimum", {}),
        quota=Quota(**{key: value for key, value in entry["quota"].items() if key != "confidence"}),
        zones={
            region: tuple(f"{region}-{suffix}" for suffix in suffixes)
            for region, suffixes in entry["zones"].items()
        },
        restricted_zones={
            zone: tuple(ways) for zone, ways in entry.get("restricted_zones", {}).items()
        },
        flex_start_zones=tuple(entry["flex_start_zones"]) if "flex_start_zones" in entry else None,
        confidence=entry["confidence"],
    )


def _machine(name: str, body: dict[str, Any]) -> Machine:
    rest: dict[str, Any] = {**body, "sold_as": tuple(body.get("sold_as", PROVISIONING))}
    return Machine(name=name, **rest)


def _slices(topologies: dict[str, dict[str, Any]]) -> tuple[Slice, ...]:
    found: list[Slice] = []
    for topology, body in topologies.items():
        forms = [body, body["alternative"]] if "alternative" in body else [body]
        found += [
            Slice(topology, form["machine_type"], form["hosts"], body["chips"]) for form in forms
        ]
    return tuple(found)

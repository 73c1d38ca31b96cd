"""The accelerator catalog: chips, machine types, slice topologies, memory, zones, quotas.

All data comes from data/accelerators.yaml, which lists its sources and date; no other file in this
repository repeats it. Names are catalog names (`tpu-v6e`, `nvidia-l4`).

Functions raise `UnknownAcceleratorError` for a name that is not in the catalog, and `ValueError`
for a shape that does not exist. Both messages list valid values.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.problems import suggest
from gke_inference.settings import Word

_FILE = Path(__file__).parent / "data" / "accelerators.yaml"

TPU_GENERATIONS = {"tpu-v5e": "v5litepod", "tpu-v6e": "v6e"}
"""What libtpu and the TPU driver for DRA call a TPU; the driver knows no TPU7x (v0.2.0)."""


class Provisioning(Word):
    """How the VMs of a rung are purchased."""

    RESERVATION = "reservation"
    ON_DEMAND = "on-demand"
    FLEX_START = "flex-start"
    SPOT = "spot"
    CALENDAR = "calendar"

    @property
    def is_reserved(self) -> bool:
        """Whether the rung consumes a named reservation."""
        return self in {Provisioning.RESERVATION, Provisioning.CALENDAR}


PROVISIONING = tuple(word.value for word in Provisioning)
"""Provisioning models of accelerators."""


class UnknownAcceleratorError(ValueError):
    """The catalog has no accelerator of that name. The message suggests similar names."""


@dataclass(frozen=True)
class AcceleratorNetwork:
    """The network interfaces of a machine that are for its accelerators alone."""

    technology: str
    """`rdma`, `tcpxo` or `tcpx`."""
    nics: int
    gbit_per_s: int
    """Bandwidth of one interface, in 10^9 bits per second."""


@dataclass(frozen=True)
class CompactPlacement:
    """Nodes that Compute Engine places close to each other on request."""

    most_nodes: int
    """Maximum number of nodes of one placement policy."""
    flex_start: bool = False
    """Whether flex-start VMs can have it."""


@dataclass(frozen=True)
class Cuda:
    """A GPU as CUDA describes it."""

    architecture: str
    """Name of the architecture, such as `Hopper`."""
    compute_capability: str
    """Version of the instructions, such as `9.0`."""


@dataclass(frozen=True)
class Machine:
    """One machine type with the accelerator."""

    name: str
    chips: int
    vcpus: int | None
    ram_gib: int | None
    local_ssds: int = 0
    """Local SSDs of 375 GB or 3 TB that the type always has, or 0 if they are optional or
    unavailable."""
    sold_as: tuple[str, ...] = PROVISIONING
    """Its provisioning models."""
    network: AcceleratorNetwork | None = None
    """Interfaces for its accelerators alone. None if they share the interface of the machine."""

    @property
    def technology(self) -> str | None:
        """How its GPUs reach those of other machines over these interfaces."""
        return None if self.network is None else self.network.technology

    @property
    def has_rdma(self) -> bool:
        """Whether its GPUs reach GPUs of other machines by RDMA."""
        return self.technology == "rdma"


@dataclass(frozen=True)
class Slice:
    """A TPU topology on one of its machine types."""

    topology: str
    machine_type: str
    hosts: int
    chips: int

    @property
    def chips_per_host(self) -> int:
        """Chips per node, which is the number that a pod requests."""
        return self.chips // self.hosts


@dataclass(frozen=True)
class Quota:
    """Names of an accelerator's quotas. `quotas.accelerator_metric` selects one."""

    metric: str
    """Name of the regional quota, as in error messages."""
    dimension: str | None
    """Name of the dimension in addition to `region`, if several accelerators share the quota's
    name."""
    value: str | None
    preemptible: str
    """Name of the quota for Spot and flex-start, which has no other dimension."""


@dataclass(frozen=True)
class Accelerator:
    """One kind of TPU or GPU."""

    name: str
    kind: str
    """`tpu` or `gpu`."""
    title: str
    gke_type: str
    """GKE's name: the value of the node label and of `guest_accelerators[].type`."""
    memory_gib: int
    """Memory per chip, as in the data sheet."""
    program_gib: float
    """Memory per chip that a program may use: as in the data sheet, or less where known."""
    bandwidth_gb_per_s: int
    """Memory bandwidth of the chip."""
    tflops: dict[str, float | None]
    """Dense TFLOPS by number format: `bf16`, `fp8`, `int8`; `None` if the chip has no such unit."""
    devices_per_chip: int
    """Devices per chip that JAX and vLLM see, and that tensor parallelism counts."""
    link_gb_per_s: int
    """Bandwidth between the chips of one node, one way, per chip."""
    cuda: Cuda | None
    """`None` for a TPU."""
    machines: tuple[Machine, ...]
    slices: tuple[Slice, ...]
    """TPU only. A topology that two machine types offer is listed twice, the default first."""
    slice_placement: str | None
    """How to request a multi-host slice: `compact` or `workload-policy`; `None` for a GPU."""
    compact: CompactPlacement | None
    """Compact placement of its machines. `None` for a TPU, whose slices are placed as a whole."""
    gke_minimum: dict[str, str]
    """Minimum GKE version by mode (`standard`, `autopilot`), empty if all supported versions do."""
    quota: Quota
    zones: dict[str, tuple[str, ...]]
    """Zones by region, for all customers. An empty tuple means offered, with unknown zones."""
    restricted_zones: dict[str, tuple[str, ...]]
    """Zones that are not open to all customers, such as single-tenant ones, with the provisioning
    models there."""
    zones_by_provisioning: dict[str, tuple[str, ...]]
    """The only zones with a provisioning model, for models that have a list of their own."""
    confidence: str

    @property
    def resource(self) -> str:
        """Extended resource that a pod requests: `google.com/tpu` or `nvidia.com/gpu`."""
        return str(_document()["resources"][self.kind])


def accelerator(name: str) -> Accelerator:
    """Return one accelerator by its catalog name, such as `tpu-v6e`."""
    entries = _accelerators()
    if name not in entries:
        known = ", ".join(sorted(entries))
        hint = suggest(str(name), entries)
        raise UnknownAcceleratorError(f"must be one of {known}, got {name!r}{hint}")
    return entries[name]


def accelerator_names() -> tuple[str, ...]:
    """Return all catalog names, sorted."""
    return tuple(sorted(_accelerators()))


@cache
def names_by_gke_type() -> dict[str, str]:
    """Return the user's name of each accelerator by Google's, such as `tpu-v6e-slice`."""
    return {chip.gke_type: name for name, chip in _accelerators().items()}


def tpu_slice(name: str, topology: str, machine_type: str | None = None) -> Slice:
    """Return a TPU topology, on `machine_type` or on its default machine type."""
    chip = accelerator(name)
    if chip.kind != "tpu":
        raise ValueError(f"must not be set for {name}, which is a GPU, got {topology!r}")
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
    """Return the machine type with `count` GPUs: `machine_type`, or the usual one."""
    chip = accelerator(name)
    if chip.kind != "gpu":
        raise ValueError(f"must not be set for {name}, which is a TPU, got {count}")
    if machine_type is not None:
        found = machine(name, machine_type)
        if found.chips != count:
            raise ValueError(f"must be {found.chips}, the GPUs of a {machine_type}, got {count}")
        return found
    for entry in chip.machines:
        if entry.chips == count:
            return entry
    known = ", ".join(str(number) for number in gpu_counts(name))
    raise ValueError(f"must be a supported GPU count for {name} ({known}), got {count}")


def gpu_counts(name: str) -> tuple[int, ...]:
    """Return the possible numbers of chips per node, ascending."""
    return tuple(sorted({entry.chips for entry in accelerator(name).machines}))


def machine(name: str, machine_type: str) -> Machine:
    """Return one machine type of an accelerator."""
    chip = accelerator(name)
    for entry in chip.machines:
        if entry.name == machine_type:
            return entry
    known = ", ".join(entry.name for entry in chip.machines)
    raise ValueError(f"must be a machine type of {name} ({known}), got {machine_type!r}")


def rdma_accelerators() -> tuple[str, ...]:
    """Returns the accelerators with machines that have RDMA, sorted."""
    return accelerators_on("rdma")


def accelerators_on(technology: str) -> tuple[str, ...]:
    """Return the accelerators with machines whose network is `rdma`, `tcpxo` or `tcpx`, sorted."""
    return tuple(
        name
        for name, chip in sorted(_accelerators().items())
        if any(each.technology == technology for each in chip.machines)
    )


def regions_of(name: str) -> tuple[str, ...]:
    """Return the regions that offer the accelerator to all customers, sorted."""
    return tuple(sorted(accelerator(name).zones))


def zones_of(name: str, region: str, provisioning: str | None = None) -> tuple[str, ...] | None:
    """Return the zones of a region that offer an accelerator.

    Args:
        name: Accelerator, by its catalog name.
        region: Region.
        provisioning: Provisioning model. Default: any that all customers have.

    Returns:
        None if the accelerator is offered but its zones are not listed, so any zone may have it.
    """
    chip = accelerator(name)
    own = chip.zones_by_provisioning.get(provisioning or "")
    if own is not None:
        return tuple(zone for zone in own if region_of(zone) == region)
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
    """Return whether a region offers a machine type with a provisioning model."""
    ways = machine(name, machine_type).sold_as
    return provisioning in ways and zones_of(name, region, provisioning) != ()


def all_zones(name: str, provisioning: str) -> tuple[str, ...]:
    """Return all zones that offer an accelerator with a provisioning model, sorted."""
    chip = accelerator(name)
    regions = {*chip.zones, *(region_of(zone) for zone in chip.restricted_zones)}
    found = (zone for region in regions for zone in zones_of(name, region, provisioning) or ())
    return tuple(sorted(found))


def region_of(zone: str) -> str:
    """Return the region of a zone: `us-east5` for `us-east5-a` and `us-east5-ai1b`."""
    return zone.rpartition("-")[0]


def catalogue_labels() -> dict[str, str]:
    """Return GKE's node label keys by meaning, such as `tpu_topology`."""
    return dict(_document()["labels"])


def catalogue_taints() -> dict[str, dict[str, str]]:
    """Return the taints that GKE sets on nodes (`gpu`, `tpu`, `spot`, `arm`): key and value."""
    return {name: dict(taint) for name, taint in _document()["taints"].items()}


def catalogue_resources() -> dict[str, str]:
    """Return the extended resource that pods request, by kind: `gpu` and `tpu`."""
    return dict(_document()["resources"])


def catalogue_date() -> str:
    """Return the date of the catalog, such as `2026-11-21`."""
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
        cuda=Cuda(**entry["cuda"]) if "cuda" in entry else None,
        machines=tuple(
            _machine(key, body, has_calendar=entry.get("calendar", True))
            for key, body in entry["machine_types"].items()
        ),
        slices=_slices(entry.get("topologies", {})),
        slice_placement=entry.get("slice_placement"),
        compact=CompactPlacement(**entry["compact"]) if "compact" in entry else None,
        gke_minimum=entry.get("gke_minimum", {}),
        quota=Quota(**{key: value for key, value in entry["quota"].items() if key != "confidence"}),
        zones={
            region: tuple(f"{region}-{suffix}" for suffix in suffixes)
            for region, suffixes in entry["zones"].items()
        },
        restricted_zones={
            zone: tuple(ways) for zone, ways in entry.get("restricted_zones", {}).items()
        },
        zones_by_provisioning={
            way: tuple(entry[key])
            for way, key in (("calendar", "calendar_zones"), ("flex-start", "flex_start_zones"))
            if key in entry
        },
        confidence=entry["confidence"],
    )


def _machine(name: str, body: dict[str, Any], *, has_calendar: bool) -> Machine:
    usual = [way for way in PROVISIONING if has_calendar or way != Provisioning.CALENDAR]
    rest: dict[str, Any] = {**body, "sold_as": tuple(body.get("sold_as", usual))}
    if "network" in body:
        rest["network"] = AcceleratorNetwork(**body["network"])
    return Machine(name=name, **rest)


def _slices(topologies: dict[str, dict[str, Any]]) -> tuple[Slice, ...]:
    found: list[Slice] = []
    for topology, body in topologies.items():
        forms = [body, body["alternative"]] if "alternative" in body else [body]
        found += [
            Slice(topology, form["machine_type"], form["hosts"], body["chips"]) for form in forms
        ]
    return tuple(found)

"""A rung: one shape of nodes with one provisioning model, the unit of a capacity.

`check_rung` turns user input into a `Rung` with all derived values (machine type, hosts, chips,
memory), or rejects it with field, rule and value. Rules: GKE's consumption options
(docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and cluster-toolkit @1047080
modules/compute/gke-node-pool) and the catalog in data/accelerators.yaml.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gke_inference.catalogue.machine_types import boot_disks, is_arm, rung_families
from gke_inference.catalogue.quotas import family_of

from .accelerators import (
    Accelerator,
    Machine,
    Provisioning,
    Slice,
    all_zones,
    gpu_counts,
    gpu_machine,
    machine,
    region_of,
    tpu_slice,
)
from .calendar_mode import RESERVED_BY_PROVIDER, Period, period_of
from .hardware import CPU, hardware, node_machine, node_zones
from .input_error import UNSAID, Bare, InputError
from .node_networks import node_network
from .node_placement import node_placement
from .rung_settings import MAX_RUN_HOURS, RungArgs, RungSettings
from .typed_inputs import InputErrors, typed_inputs

CLAIMED_PROVISIONING = ("on-demand", "reservation", "spot")
"""Provisioning models for pods with device claims: for flex-start, no use has been published."""
_MOST_PLACES = 8
"""Zones or regions in a message; L4 is in more than thirty zones."""


@dataclass(frozen=True)
class Rung:
    """A validated rung with all derived values."""

    accelerator: str
    """Accelerator, or the machine family of nodes with processors alone."""
    kind: str
    """One of `hardware.KINDS`."""
    gke_type: str
    """GKE's name of the accelerator."""
    provisioning: str
    machine_type: str
    hosts: int
    """Nodes per replica, more than one for a multi-host slice."""
    chips_per_node: int
    """0 for nodes with processors alone."""
    topology: str | None
    memory_gib: int
    """Accelerator memory of all hosts."""
    devices: int
    """Devices that the engine sees on all hosts; the maximum tensor parallelism. The processors of
    a node without an accelerator are one device."""
    reservation: str | None
    reservation_project: str | None
    reservation_zones: tuple[str, ...]
    zones: tuple[str, ...]
    max_run_hours: int | None
    """Only with flex-start."""
    node_pools: tuple[str, ...]
    boot_disk_type: str | None = None
    """None for GKE's default for the machine type."""
    network: str | None = None
    """`rdma`, `tcpx`, `tcpxo` or `tcp`, or None if replicas need no other node."""
    placement: str | None = None
    """`compact`, or None for any place in the zone."""
    reservation_period: Period | None = None
    """Period of a reservation in calendar mode, if it is known."""
    reservation_machines: int | None = None
    """VMs that the stack reserves, or None for a reservation that exists."""

    @property
    def chip(self) -> Accelerator:
        """Facts about its accelerator; for processors alone, a record without chips."""
        return hardware(self.accelerator)

    @property
    def machine(self) -> Machine:
        """Its machine type."""
        return node_machine(self.accelerator, self.machine_type)

    @property
    def is_arm(self) -> bool:
        """Whether its nodes have Arm processors, and GKE's taint for them."""
        return is_arm(self.accelerator)

    def zones_in(self, region: str) -> tuple[str, ...] | None:
        """Return the zones of a region that offer it, or None if they are not listed."""
        return node_zones(self.accelerator, region, self.provisioning)

    @property
    def chips(self) -> int:
        """Chips of all hosts."""
        return self.chips_per_node * self.hosts

    @property
    def shape(self) -> tuple[int, int, str | None, str | None]:
        """Chips per node, devices of all hosts, topology and network: equal for one pod."""
        return self.chips_per_node, self.devices, self.topology, self.network

    @property
    def is_multi_host(self) -> bool:
        """Whether a replica spans several nodes, which are created and deleted together."""
        return self.hosts > 1

    @property
    def is_slice(self) -> bool:
        """Whether its nodes are one TPU slice: a separate node pool, all nodes or none."""
        return self.kind == "tpu" and self.is_multi_host

    @property
    def has_surge(self) -> bool:
        """Whether `max_surge` applies: slices are re-created, flex-start nodes not upgraded."""
        return not self.is_slice and self.provisioning != "flex-start"

    @property
    def label(self) -> str:
        """Display name of the rung, such as `tpu-v6e 2x4 reservation`."""
        if self.kind == CPU:
            return f"{self.machine_type} {self.provisioning}"
        shape = self.topology or f"x{self.chips_per_node}"
        if self.topology is None and self.is_multi_host:
            shape += f" on {self.hosts} hosts"
        network = "" if self.network in (None, "rdma") else f" {self.network}"
        return f"{self.accelerator} {shape} {self.provisioning}{network}"


def check_rung(
    rung: RungSettings | Mapping[str, Any], where: str = "", *, region: str | None = None
) -> Rung:
    """Return the validated rung.

    Args:
        rung: The settings, or the user's words as a mapping.
        where: Path of the rung in the user's input, put before the field in messages.
        region: The cluster's region; given, zones must be in it and the chip offered there.

    Raises:
        InputError: A rule is broken; its path is the whole way to the field.
    """
    values = _typed(rung, where)
    chip = _checked_chip(values, where)
    provisioning = values.provisioning
    _check_reservation(values, where)
    if chip.kind == CPU:
        node = _checked_processors(values, chip, where)
        hosts, per_node, topology = 1, 0, None
    elif chip.kind == "tpu":
        shape = _checked_slice(values, chip, where)
        node = machine(chip.name, shape.machine_type)
        hosts, per_node, topology = shape.hosts, shape.chips_per_host, shape.topology
    else:
        node = _checked_machine(values, chip, where)
        hosts, per_node, topology = values.hosts or 1, node.chips, None
    _check_sold(node, provisioning, where)
    for field in ("zones", "reservation_zones"):
        _check_zones(values, field, chip, region, where)
    if region is not None and not values.allow_unlisted_zones:
        _check_offered(chip, provisioning, region, where)
    chips = hosts * per_node
    return Rung(
        accelerator=chip.name,
        kind=chip.kind,
        gke_type=chip.gke_type,
        provisioning=provisioning.value,
        machine_type=node.name,
        hosts=hosts,
        chips_per_node=per_node,
        topology=topology,
        memory_gib=chips * chip.memory_gib,
        devices=max(1, chips * chip.devices_per_chip),
        reservation=values.reservation,
        reservation_project=values.reservation_project,
        reservation_zones=values.reservation_zones or (),
        zones=values.zones or (),
        max_run_hours=_checked_max_run_hours(values, where),
        node_pools=_checked_pools(values, where),
        boot_disk_type=_checked_boot_disk(values, node.name, where),
        network=None
        if chip.kind == CPU
        else node_network(values.network, chip.name, node, hosts, where),
        placement=None
        if chip.kind == CPU
        else node_placement(values.placement, chip.name, provisioning, where),
        reservation_period=_checked_period(values, where),
        reservation_machines=_checked_machines_reserved(values, chip, hosts, where),
    )


def _typed(rung: RungSettings | Mapping[str, Any], where: str) -> RungSettings:
    if isinstance(rung, RungSettings):
        return rung
    try:
        return typed_inputs(RungArgs, rung, where=(where,))
    except InputErrors as error:
        raise error.problems[0] from None


def _refuse(where: str, field: str, rule: str, value: object = UNSAID, note: str = "") -> NoReturn:
    raise InputError(f"{where}.{field}" if where else field, rule, value, note)


_OF_ACCELERATORS = ("topology", "count", "hosts", "network", "placement")
"""Settings of a rung that has an accelerator."""


def _checked_chip(values: RungSettings, where: str) -> Accelerator:
    if values.accelerator is not None:
        return hardware(values.accelerator)
    machine_type = values.machine_type
    if machine_type is None:
        rule = "must be set, or 'machine_type' for nodes with processors alone"
        _refuse(where, "accelerator", rule, None)
    family = family_of(machine_type)
    if family not in rung_families():
        known = ", ".join(rung_families())
        rule = f"must be of a machine family for rungs without an accelerator ({known})"
        _refuse(where, "machine_type", rule, machine_type)
    return hardware(family)


def _checked_processors(values: RungSettings, chip: Accelerator, where: str) -> Machine:
    for field in _OF_ACCELERATORS:
        value = getattr(values, field)
        if value is not None:
            _refuse(where, field, "must not be set without an accelerator", value)
    try:
        return node_machine(chip.name, values.machine_type or "")
    except ValueError as error:
        _refuse(where, "machine_type", str(error))


def _check_reservation(rung: RungSettings, where: str) -> None:
    way = rung.provisioning
    if way.is_reserved:
        if rung.reservation is None:
            rule = f"must be the name of a reservation when provisioning is {way}"
            _refuse(where, "reservation", rule, rung.reservation)
        if rung.zones is not None:
            rule = f"must not be set with {way}: use 'reservation_zones'"
            _refuse(where, "zones", rule, list(rung.zones))
        return
    for field in ("reservation", "reservation_project", "reservation_zones"):
        value: str | tuple[str, ...] | None = getattr(rung, field)
        if value is not None:
            shown = value if isinstance(value, str) else list(value)
            _refuse(where, field, f"must not be set with {way}", shown)


def _checked_period(values: RungSettings, where: str) -> Period | None:
    given = values.reservation_period
    if given is None:
        return None
    if values.provisioning is not Provisioning.CALENDAR:
        rule = f"must not be set with {values.provisioning}: only calendar has a period"
        _refuse(where, "reservation_period", rule)
    return period_of(given, f"{where}.reservation_period" if where else "reservation_period")


def _checked_machines_reserved(
    values: RungSettings, chip: Accelerator, hosts: int, where: str
) -> int | None:
    """Return the VMs that the stack reserves: whole replicas, in one zone of its own project."""
    given, field = values.reservation_machines, "reservation_machines"
    if given is None:
        return None
    if values.reservation_period is None:
        rule = "must be unset without 'reservation_period', which says when to reserve"
        _refuse(where, field, rule, given)
    if chip.kind == "tpu" and chip.name not in RESERVED_BY_PROVIDER:
        able = " and ".join(RESERVED_BY_PROVIDER)
        rule = f"must be unset for {chip.name}: Pulumi's provider reserves only {able}"
        _refuse(where, field, rule, given)
    if given % hosts:
        _refuse(where, field, f"must be a multiple of {hosts}, the hosts of a replica", given)
    zones = values.reservation_zones or ()
    if len(zones) != 1:
        rule = f"must be one zone for the reservation of {field}"
        _refuse(where, "reservation_zones", rule, list(zones))
    if values.reservation_project is not None:
        rule = f"must be unset with {field}: the stack reserves in its own project"
        _refuse(where, "reservation_project", rule, values.reservation_project)
    return given


def _checked_slice(values: RungSettings, chip: Accelerator, where: str) -> Slice:
    if values.count is not None:
        rule = f"must not be set for {chip.name}: 'topology' determines the shape of a TPU"
        _refuse(where, "count", rule, values.count)
    if values.hosts is not None:
        _refuse(
            where,
            "hosts",
            f"must not be set for {chip.name}: 'topology' determines it",
            values.hosts,
        )
    if values.topology is None:
        known = ", ".join(dict.fromkeys(entry.topology for entry in chip.slices))
        _refuse(where, "topology", f"must be one of {known} for {chip.name}", None)
    topology = values.topology
    try:
        tpu_slice(chip.name, topology)
    except ValueError as error:
        _refuse(where, "topology", str(error))
    try:
        return tpu_slice(chip.name, topology, values.machine_type)
    except ValueError as error:
        _refuse(where, "machine_type", str(error))


def _checked_machine(values: RungSettings, chip: Accelerator, where: str) -> Machine:
    if values.topology is not None:
        rule = f"must not be set for {chip.name}: 'count' determines the shape of a GPU node"
        _refuse(where, "topology", rule, values.topology)
    machine_type = values.machine_type
    if machine_type is not None:
        try:
            found = machine(chip.name, machine_type)
        except ValueError as error:
            _refuse(where, "machine_type", str(error))
        if values.count is None:
            return found
    counts = gpu_counts(chip.name)
    count = counts[0] if values.count is None and len(counts) == 1 else values.count
    if count is None:
        known = ", ".join(str(number) for number in counts)
        _refuse(where, "count", f"must be GPUs per node of {chip.name} ({known})", None)
    try:
        return gpu_machine(chip.name, count, machine_type)
    except ValueError as error:
        _refuse(where, "count", str(error))


def _check_sold(node: Machine, provisioning: Provisioning, where: str) -> None:
    """Google offers some machine types with some provisioning models only."""
    if provisioning not in node.sold_as:
        rule = f"must be {' or '.join(node.sold_as)} for {node.name}"
        _refuse(where, "provisioning", rule, provisioning)


def _check_offered(chip: Accelerator, provisioning: str, region: str, where: str) -> None:
    """A published price does not mean that a region offers the machine."""
    if node_zones(chip.name, region, provisioning) != ():
        return
    if chip.kind == CPU:
        known = _regions(chip.zones, region)
        rule = f"must be offered in {region}"
        _refuse(where, "machine_type", rule, Bare(chip.name), f", which is in {known}")
    alone = {
        zone: ways for zone, ways in chip.restricted_zones.items() if region_of(zone) == region
    }
    known = _places(all_zones(chip.name, provisioning), region)
    note = "".join(
        f"; {zone} is single-tenant: only {' and '.join(ways)} there"
        for zone, ways in alone.items()
    )
    has_own_zones = provisioning in chip.zones_by_provisioning
    rule = f"must be offered in {region}{f' by {provisioning}' if has_own_zones else ''}"
    _refuse(where, "accelerator", rule, Bare(chip.name), f", which is in {known}{note}")


def _places(zones: Sequence[str], near: str) -> str:
    """Return the names of zones, or of many zones the regions, those of a continent first."""
    if len(zones) <= _MOST_PLACES:
        return ", ".join(zones) or "no zone"
    return _regions({region_of(zone) for zone in zones}, near)


def _regions(regions: Iterable[str], near: str) -> str:
    """Return the names of some regions, those of a continent first."""
    continent = near.partition("-")[0]
    found = sorted(
        regions,
        key=lambda region: (region.partition("-")[0] != continent, region),
    )
    first, others = found[:_MOST_PLACES], len(found) - _MOST_PLACES
    return ", ".join(first) + (f" and {others} other regions" if others > 0 else "")


def _check_zones(
    values: RungSettings, field: str, chip: Accelerator, region: str | None, where: str
) -> None:
    zones: tuple[str, ...] = getattr(values, field) or ()
    if len(set(zones)) < len(zones):
        _refuse(where, field, "must be a list of different names, or unset", list(zones))
    for zone in zones:
        if region is not None and region_of(zone) != region:
            _refuse(where, field, f"must be zones of {region}", zone)
        listed = node_zones(chip.name, region_of(zone), values.provisioning)
        if values.allow_unlisted_zones or listed is None or zone in listed:
            continue
        known = ", ".join(listed) or f"none in {region_of(zone)}"
        ways = chip.restricted_zones.get(zone)
        why = f"; {zone} is single-tenant: only {' and '.join(ways)} there" if ways else ""
        _refuse(
            where,
            field,
            f"must be zones with {chip.name} by {values.provisioning} ({known})",
            zone,
            f"{why}; set allow_unlisted_zones to allow a zone that this release does not list",
        )


def _checked_pools(values: RungSettings, where: str) -> tuple[str, ...]:
    pools = (values.node_pools or ()) if isinstance(values, RungArgs) else ()
    if "" in pools or len(set(pools)) < len(pools):
        _refuse(where, "node_pools", "must be a list of different names, or unset", list(pools))
    return pools


def _checked_boot_disk(values: RungSettings, machine_type: str, where: str) -> str | None:
    given = values.boot_disk_type
    taken = boot_disks(machine_type)
    if given is not None and given not in taken:
        rule = f"must be a boot disk type of {machine_type} ({', '.join(taken)})"
        _refuse(where, "boot_disk_type", rule, given)
    return None if given is None else given.value


def _checked_max_run_hours(values: RungSettings, where: str) -> int | None:
    given = values.max_run_hours
    if values.provisioning is Provisioning.FLEX_START:
        return given or MAX_RUN_HOURS
    if given is not None:
        _refuse(where, "max_run_hours", f"must not be set with {values.provisioning}", given)
    return None

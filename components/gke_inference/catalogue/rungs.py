"""A rung: one accelerator shape bought in one way, the unit a capacity's ladder is made of.

`check_rung` turns the user's words into a `Rung` with every derived number (machine type, hosts,
chips, memory) or refuses with field, rule and value. Rules: capacity options of GKE
(docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and cluster-toolkit @1047080
modules/compute/gke-node-pool) and the catalogue in data/accelerators.yaml.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, NotRequired, TypedDict, cast

import pulumi

from .accelerators import (
    PROVISIONING,
    Accelerator,
    Machine,
    Slice,
    UnknownAcceleratorError,
    accelerator,
    all_zones,
    gpu_counts,
    gpu_machine,
    machine,
    region_of,
    tpu_slice,
    zones_of,
)
from .boot_disks import boot_disks
from .input_error import UNSAID, Bare, InputError

MAX_RUN_HOURS = 168
"""Seven days, the longest a flex-start node lives."""

MAX_HOSTS = 16
"""More GPU nodes than this is no replica anybody has published."""

_NEEDS_RESERVATION = ("reservation", "calendar")


class RungArgs(TypedDict):
    """One accelerator shape bought in one way."""

    accelerator: str
    """Such as `tpu-v6e`, `nvidia-l4`, `nvidia-h100-80gb`."""
    provisioning: str
    """`reservation`, `on-demand`, `flex-start`, `spot` or `calendar`, which is a reservation made
    by a future reservation in calendar mode."""
    boot_disk_type: NotRequired[str]
    """Type of the nodes' boot disks, such as `hyperdisk-balanced`. Default: what GKE takes."""
    allow_unlisted_zones: NotRequired[bool]
    """Trust `zones` that the catalogue of this version does not list for the chip. Default no."""
    count: NotRequired[int]
    """GPUs of one node. Needed for a GPU, unless `machine_type` or the family leaves one answer."""
    hosts: NotRequired[int]
    """GPU only: nodes that one replica spans, 1 to 16. Default 1; a TPU's topology says it."""
    machine_type: NotRequired[str]
    """Default: the usual one for the shape. A TPU 2x4 can be one 8-chip or two 4-chip machines."""
    max_run_hours: NotRequired[int]
    """Flex-start only: hours a node lives, 1 to 168. Default 168."""
    node_pools: NotRequired[list[str]]
    """Names of pools made by hand that serve this rung, instead of pools GKE creates."""
    reservation: NotRequired[str]
    """Name of the reservation; needed for `reservation` and `calendar`, refused otherwise."""
    reservation_project: NotRequired[str]
    """Project that owns a shared reservation. Default: the cluster's."""
    reservation_zones: NotRequired[list[str]]
    """Zones of the reservation."""
    topology: NotRequired[str]
    """TPU only: shape of the slice, such as `2x4` or `2x2x1`."""
    zones: NotRequired[list[str]]
    """Zones to look in. Default: wherever the cluster may place nodes."""


@dataclass(frozen=True)
class Rung:
    """A checked rung with everything that follows from it."""

    accelerator: str
    kind: str
    """`tpu` or `gpu`."""
    gke_type: str
    provisioning: str
    machine_type: str
    hosts: int
    """Nodes one replica needs: more than one for a multi-host slice."""
    chips_per_node: int
    topology: str | None
    memory_gib: int
    """Accelerator memory of all hosts together."""
    devices: int
    """Devices the engine sees over all hosts; the largest tensor-parallel size."""
    reservation: str | None
    reservation_project: str | None
    reservation_zones: tuple[str, ...]
    zones: tuple[str, ...]
    max_run_hours: int | None
    """Only with flex-start."""
    node_pools: tuple[str, ...]
    boot_disk_type: str | None = None
    """None: what GKE takes for the machine."""

    @property
    def chips(self) -> int:
        """Chips of all hosts together."""
        return self.chips_per_node * self.hosts

    @property
    def is_multi_host(self) -> bool:
        """Whether one replica spans several nodes, which then come and go together."""
        return self.hosts > 1

    @property
    def is_slice(self) -> bool:
        """Whether its nodes are one TPU slice: a pool of their own, all of them or none."""
        return self.kind == "tpu" and self.is_multi_host

    @property
    def label(self) -> str:
        """What to call the rung in a table, such as `tpu-v6e 2x4 reservation`."""
        shape = self.topology or f"x{self.chips_per_node}"
        if self.topology is None and self.is_multi_host:
            shape += f" on {self.hosts} hosts"
        return f"{self.accelerator} {shape} {self.provisioning}"


def check_rung(rung: RungArgs, where: str = "", *, region: str | None = None) -> Rung:
    """Returns the checked rung.

    Args:
        rung: The user's words; numbers may come as `4.0`, as other languages send them.
        where: Path of the rung in the user's input, put before the field in messages.
        region: The cluster's region; given, zones must be in it and the chip offered there.

    Raises:
        InputError: A rule is broken; its path is the whole way to the field.
    """
    values = cast("Mapping[str, Any]", rung)
    chip = _checked_accelerator(values, where)
    provisioning = _checked_provisioning(values, where)
    _check_reservation(values, provisioning, where)
    if chip.kind == "tpu":
        shape = _checked_slice(values, chip, where)
        machine_type, hosts, per_node = shape.machine_type, shape.hosts, shape.chips_per_host
        topology = shape.topology
    else:
        node = _checked_machine(values, chip, where)
        machine_type, per_node, topology = node.name, node.chips, None
        hosts = _checked_hosts(values, where)
    _check_sold(machine(chip.name, machine_type), provisioning, where)
    trusted = bool(values.get("allow_unlisted_zones", False))
    checked_zones = {
        field: _checked_zones(values, field, chip, region, trusted, where)
        for field in ("zones", "reservation_zones")
    }
    if region is not None and not trusted:
        _check_offered(chip, provisioning, region, where)
    chips = hosts * per_node
    return Rung(
        accelerator=chip.name,
        kind=chip.kind,
        gke_type=chip.gke_type,
        provisioning=provisioning,
        machine_type=machine_type,
        hosts=hosts,
        chips_per_node=per_node,
        topology=topology,
        memory_gib=chips * chip.memory_gib,
        devices=chips * chip.devices_per_chip,
        reservation=values.get("reservation"),
        reservation_project=values.get("reservation_project"),
        reservation_zones=checked_zones["reservation_zones"],
        zones=checked_zones["zones"],
        max_run_hours=_checked_max_run_hours(values, provisioning, where),
        node_pools=_checked_names(values, "node_pools", where),
        boot_disk_type=_checked_boot_disk(values, machine_type, where),
    )


def checked_input(rung: RungArgs, where: str, *, region: str | None = None) -> Rung:
    """Returns `check_rung` for a component: the path of a broken rule is in camelCase.

    Raises:
        pulumi.InputPropertyError: A rule is broken.
    """
    try:
        return check_rung(rung, region=region)
    except InputError as error:
        head, *rest = error.path.split("_")
        name = head + "".join(part.capitalize() for part in rest)
        raise pulumi.InputPropertyError(f"{where}.{name}", error.message) from error


def whole_number(value: object) -> int | None:
    """Returns a number another language sent as `4.0` as an int; `None` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)


def _refuse(where: str, field: str, rule: str, value: object = UNSAID, note: str = "") -> NoReturn:
    raise InputError(f"{where}.{field}" if where else field, rule, value, note)


def _checked_accelerator(values: Mapping[str, Any], where: str) -> Accelerator:
    try:
        return accelerator(values.get("accelerator", ""))
    except UnknownAcceleratorError as error:
        _refuse(where, "accelerator", str(error))


def _checked_provisioning(values: Mapping[str, Any], where: str) -> str:
    given = values.get("provisioning")
    if given not in PROVISIONING:
        _refuse(where, "provisioning", f"must be one of {', '.join(PROVISIONING)}", given)
    return str(given)


def _check_reservation(values: Mapping[str, Any], provisioning: str, where: str) -> None:
    name = values.get("reservation")
    if provisioning in _NEEDS_RESERVATION:
        if not name:
            _refuse(where, "reservation", f"must be a name with {provisioning}", name)
        if values.get("zones"):
            _refuse(
                where,
                "zones",
                f"must be left out with {provisioning}, use 'reservation_zones'",
                values["zones"],
            )
        return
    for field in ("reservation", "reservation_project", "reservation_zones"):
        if values.get(field) is not None:
            _refuse(where, field, f"must be left out with {provisioning}", values[field])


def _checked_slice(values: Mapping[str, Any], chip: Accelerator, where: str) -> Slice:
    if values.get("count") is not None:
        _refuse(
            where,
            "count",
            f"must be left out for {chip.name}, a TPU is shaped by 'topology'",
            values["count"],
        )
    if values.get("hosts") is not None:
        _refuse(
            where,
            "hosts",
            f"must be left out for {chip.name}, whose 'topology' says it",
            values["hosts"],
        )
    if not values.get("topology"):
        known = ", ".join(dict.fromkeys(entry.topology for entry in chip.slices))
        _refuse(where, "topology", f"must be one of {known} for {chip.name}", None)
    topology = str(values["topology"])
    try:
        tpu_slice(chip.name, topology)
    except ValueError as error:
        _refuse(where, "topology", str(error))
    try:
        return tpu_slice(chip.name, topology, values.get("machine_type"))
    except ValueError as error:
        _refuse(where, "machine_type", str(error))


def _checked_machine(values: Mapping[str, Any], chip: Accelerator, where: str) -> Machine:
    if values.get("topology") is not None:
        _refuse(
            where,
            "topology",
            f"must be left out for {chip.name}, a GPU node is shaped by 'count'",
            values["topology"],
        )
    machine_type = values.get("machine_type")
    if machine_type is not None:
        try:
            found = machine(chip.name, machine_type)
        except ValueError as error:
            _refuse(where, "machine_type", str(error))
        if values.get("count") is None:
            return found
    counts = gpu_counts(chip.name)
    given = values.get("count", counts[0] if len(counts) == 1 else None)
    count = whole_number(given)
    if count is None:
        known = ", ".join(str(number) for number in counts)
        _refuse(where, "count", f"must be GPUs per node of {chip.name} ({known})", given)
    try:
        return gpu_machine(chip.name, count, machine_type)
    except ValueError as error:
        _refuse(where, "count", str(error))


def _check_sold(node: Machine, provisioning: str, where: str) -> None:
    """Google sells some machine types in some ways only: an on-demand one is never there."""
    if provisioning not in node.sold_as:
        rule = f"must be {' or '.join(node.sold_as)} for {node.name}"
        _refuse(where, "provisioning", rule, provisioning)


def _check_offered(chip: Accelerator, provisioning: str, region: str, where: str) -> None:
    """A price in a region is no offer: somebody must be able to get a machine there."""
    if zones_of(chip.name, region, provisioning) != ():
        return
    alone = {
        zone: ways for zone, ways in chip.restricted_zones.items() if region_of(zone) == region
    }
    known = ", ".join(all_zones(chip.name, provisioning)) or "no zone"
    note = "".join(
        f"; {zone} is single-tenant: only {' and '.join(ways)} there"
        for zone, ways in alone.items()
    )
    is_flex = provisioning == "flex-start" and chip.flex_start_zones is not None
    rule = f"must be offered in {region}{' by flex-start' if is_flex else ''}"
    _refuse(where, "accelerator", rule, Bare(chip.name), f", which is in {known}{note}")


def _checked_hosts(values: Mapping[str, Any], where: str) -> int:
    given = values.get("hosts", 1)
    hosts = whole_number(given)
    if hosts is None or not 1 <= hosts <= MAX_HOSTS:
        _refuse(where, "hosts", f"must be 1 to {MAX_HOSTS} nodes of one replica", given)
    return hosts


def _checked_zones(
    values: Mapping[str, Any],
    field: str,
    chip: Accelerator,
    region: str | None,
    trusted: bool,
    where: str,
) -> tuple[str, ...]:
    zones = _checked_names(values, field, where)
    for zone in zones:
        if region is not None and region_of(zone) != region:
            _refuse(where, field, f"must be zones of {region}", zone)
        way = str(values["provisioning"])
        listed = zones_of(chip.name, region_of(zone), way)
        if trusted or listed is None or zone in listed:
            continue
        known = ", ".join(listed) or f"none in {region_of(zone)}"
        ways = chip.restricted_zones.get(zone)
        why = f"; {zone} is single-tenant: only {' and '.join(ways)} there" if ways else ""
        _refuse(
            where,
            field,
            f"must be zones with {chip.name} by {way} ({known})",
            zone,
            f"{why}; 'allow_unlisted_zones' trusts a zone that is newer than the catalogue",
        )
    return zones


def _checked_names(values: Mapping[str, Any], field: str, where: str) -> tuple[str, ...]:
    given: object = values.get(field)
    if given is None:
        return ()
    if isinstance(given, list | tuple):
        names = list(cast("list[object]", given))
        texts = [name for name in names if isinstance(name, str) and name]
        if names and len(texts) == len(names) and len(set(texts)) == len(texts):
            return tuple(texts)
    _refuse(where, field, "must be a list of different names, or left out", values[field])


def _checked_boot_disk(values: Mapping[str, Any], machine_type: str, where: str) -> str | None:
    given = values.get("boot_disk_type")
    taken = boot_disks(machine_type)
    if given is not None and given not in taken:
        rule = f"must be {' or '.join(taken)}, what {machine_type} boots from"
        _refuse(where, "boot_disk_type", rule, given)
    return given


def _checked_max_run_hours(values: Mapping[str, Any], provisioning: str, where: str) -> int | None:
    given = values.get("max_run_hours")
    if provisioning != "flex-start":
        if given is not None:
            _refuse(where, "max_run_hours", f"must be left out with {provisioning}", given)
        return None
    hours = MAX_RUN_HOURS if given is None else whole_number(given)
    if hours is None or not 1 <= hours <= MAX_RUN_HOURS:
        _refuse(where, "max_run_hours", f"must be 1 to {MAX_RUN_HOURS} hours", given)
    return hours

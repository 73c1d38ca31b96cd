"""A rung: one accelerator shape with one provisioning model, the unit of a capacity.

`check_rung` turns user input into a `Rung` with all derived values (machine type, hosts, chips,
memory), or rejects it with field, rule and value. Rules: GKE's consumption options
(docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and cluster-toolkit @1047080
modules/compute/gke-node-pool) and the catalog in data/accelerators.yaml.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, NotRequired, TypedDict, cast

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
from .node_networks import node_network
from .node_placement import node_placement

MAX_RUN_HOURS = 168
"""Seven days, the maximum life of a flex-start node."""

MAX_HOSTS = 16
"""Maximum GPU nodes per replica. Nobody has published a larger replica."""

CLAIMED_PROVISIONING = ("on-demand", "reservation", "spot")
"""Provisioning models for pods with device claims: for flex-start, no use has been published."""

_NEEDS_RESERVATION = ("reservation", "calendar")


class RungArgs(TypedDict):
    """One accelerator shape with one provisioning model."""

    accelerator: str
    """Catalog name, such as `tpu-v6e`, `nvidia-l4`, `nvidia-h100-80gb`."""
    provisioning: str
    """`reservation`, `on-demand`, `flex-start`, `spot`, or `calendar`: a reservation created by a
    future reservation in calendar mode."""
    boot_disk_type: NotRequired[str]
    """Boot disk type of the nodes, such as `hyperdisk-balanced`. Default: GKE's default."""
    allow_unlisted_zones: NotRequired[bool]
    """Whether to allow `zones` that this release's catalog does not list for the chip. Default:
    false."""
    count: NotRequired[int]
    """GPUs per node. Required for a GPU, unless `machine_type` or the family determines it."""
    hosts: NotRequired[int]
    """GPU only: nodes per replica, 1 to 16. A TPU's topology determines it. Default: 1."""
    machine_type: NotRequired[str]
    """Machine type. A TPU 2x4 can be one 8-chip or two 4-chip machines. Default: the usual one for
    the shape."""
    max_run_hours: NotRequired[int]
    """Flex-start only: maximum life of a node in hours, 1 to 168. Default: 168."""
    network: NotRequired[str]
    """GPU only: `rdma` gives pods all RDMA interfaces of their node (A3 Ultra and A4 machines),
    `tcpx` the interfaces of GPUDirect-TCPX (A3 High machines with eight GPUs) and `tcpxo` those of
    GPUDirect-TCPXO (A3 Mega machines), both in node pools with `additional_networks`, `tcp` only
    the interface of the node. Default: `rdma` for several `hosts` of a machine with RDMA; several
    hosts of other machines require another value."""
    node_pools: NotRequired[list[str]]
    """Names of manually created node pools for this rung, instead of pools that GKE creates."""
    placement: NotRequired[str]
    """GPU only: `compact` places nodes close to each other, `any` anywhere in their zone. Not
    allowed with a reservation, which has its own placement. Default: `any`."""
    reservation: NotRequired[str]
    """Name of the reservation. Required for `reservation` and `calendar`, otherwise not allowed."""
    reservation_project: NotRequired[str]
    """Project that owns a shared reservation. Default: the cluster's project."""
    reservation_zones: NotRequired[list[str]]
    """Zones of the reservation."""
    topology: NotRequired[str]
    """TPU only: topology of the slice, such as `2x4` or `2x2x1`."""
    zones: NotRequired[list[str]]
    """Zones to use. Default: all zones in which the cluster may have nodes."""


@dataclass(frozen=True)
class Rung:
    """A validated rung with all derived values."""

    accelerator: str
    kind: str
    """`tpu` or `gpu`."""
    gke_type: str
    provisioning: str
    machine_type: str
    hosts: int
    """Nodes per replica, more than one for a multi-host slice."""
    chips_per_node: int
    topology: str | None
    memory_gib: int
    """Accelerator memory of all hosts."""
    devices: int
    """Devices that the engine sees on all hosts; the maximum tensor parallelism."""
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
        shape = self.topology or f"x{self.chips_per_node}"
        if self.topology is None and self.is_multi_host:
            shape += f" on {self.hosts} hosts"
        network = "" if self.network in (None, "rdma") else f" {self.network}"
        return f"{self.accelerator} {shape} {self.provisioning}{network}"


def check_rung(rung: RungArgs, where: str = "", *, region: str | None = None) -> Rung:
    """Return the validated rung.

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
        node = machine(chip.name, shape.machine_type)
        hosts, per_node, topology = shape.hosts, shape.chips_per_host, shape.topology
    else:
        node = _checked_machine(values, chip, where)
        hosts, per_node, topology = _checked_hosts(values, where), node.chips, None
    _check_sold(node, provisioning, where)
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
        machine_type=node.name,
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
        boot_disk_type=_checked_boot_disk(values, node.name, where),
        network=node_network(values.get("network"), chip.name, node, hosts, where),
        placement=node_placement(values.get("placement"), chip.name, provisioning, where),
    )


def whole_number(value: object) -> int | None:
    """Return a number that another language sent as `4.0` as an int, otherwise `None`."""
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
            rule = f"must be the name of a reservation when provisioning is {provisioning}"
            _refuse(where, "reservation", rule, name)
        if values.get("zones"):
            _refuse(
                where,
                "zones",
                f"must not be set with {provisioning}: use 'reservation_zones'",
                values["zones"],
            )
        return
    for field in ("reservation", "reservation_project", "reservation_zones"):
        if values.get(field) is not None:
            _refuse(where, field, f"must not be set with {provisioning}", values[field])


def _checked_slice(values: Mapping[str, Any], chip: Accelerator, where: str) -> Slice:
    if values.get("count") is not None:
        rule = f"must not be set for {chip.name}: 'topology' determines the shape of a TPU"
        _refuse(where, "count", rule, values["count"])
    if values.get("hosts") is not None:
        _refuse(
            where,
            "hosts",
            f"must not be set for {chip.name}: 'topology' determines it",
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
        rule = f"must not be set for {chip.name}: 'count' determines the shape of a GPU node"
        _refuse(where, "topology", rule, values["topology"])
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
    """Google offers some machine types with some provisioning models only."""
    if provisioning not in node.sold_as:
        rule = f"must be {' or '.join(node.sold_as)} for {node.name}"
        _refuse(where, "provisioning", rule, provisioning)


def _check_offered(chip: Accelerator, provisioning: str, region: str, where: str) -> None:
    """A published price does not mean that a region offers the machine."""
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
        provisioning = str(values["provisioning"])
        listed = zones_of(chip.name, region_of(zone), provisioning)
        if trusted or listed is None or zone in listed:
            continue
        known = ", ".join(listed) or f"none in {region_of(zone)}"
        ways = chip.restricted_zones.get(zone)
        why = f"; {zone} is single-tenant: only {' and '.join(ways)} there" if ways else ""
        _refuse(
            where,
            field,
            f"must be zones with {chip.name} by {provisioning} ({known})",
            zone,
            f"{why}; set allow_unlisted_zones to allow a zone that this release does not list",
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
    _refuse(where, field, "must be a list of different names, or unset", values[field])


def _checked_boot_disk(values: Mapping[str, Any], machine_type: str, where: str) -> str | None:
    given = values.get("boot_disk_type")
    taken = boot_disks(machine_type)
    if given is not None and given not in taken:
        rule = f"must be a boot disk type of {machine_type} ({', '.join(taken)})"
        _refuse(where, "boot_disk_type", rule, given)
    return given


def _checked_max_run_hours(values: Mapping[str, Any], provisioning: str, where: str) -> int | None:
    given = values.get("max_run_hours")
    if provisioning != "flex-start":
        if given is not None:
            _refuse(where, "max_run_hours", f"must not be set with {provisioning}", given)
        return None
    hours = MAX_RUN_HOURS if given is None else whole_number(given)
    if hours is None or not 1 <= hours <= MAX_RUN_HOURS:
        _refuse(where, "max_run_hours", f"must be 1 to {MAX_RUN_HOURS} hours", given)
    return hours

"""A capacity in one region: validated rungs, the zones of their VMs, and compute classes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gke_inference.catalogue.accelerators import rdma_accelerators, region_of
from gke_inference.catalogue.hardware import KINDS
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.node_networks import INTERFACE_NETWORKS, NodeNetwork
from gke_inference.catalogue.node_placement import NodePlacement, can_be_compact
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rung_settings import RungArgs, RungSettings
from gke_inference.catalogue.rungs import Rung, check_rung
from infra.plan.names import pool_name
from infra.stack import Capacity, Layer, Model, Platform, Queue


@dataclass(frozen=True)
class RegionCapacity:
    """A capacity in one region."""

    name: str
    region: str
    settings: Capacity
    """The stack's settings, for all regions."""
    is_used: bool
    """Whether a model or queue uses it in the region, or may use it: if serving stacks deploy the
    models, every capacity counts as used."""
    is_claimed: bool
    """Whether pods claim its chips as devices."""
    is_for_jobs: bool
    """Whether it provides the chips of a queue in the region."""
    is_queued: bool
    """Whether its node pools use queued provisioning."""
    arguments: Mapping[int, RungArgs]
    """Rungs of the region as component arguments, by index in the stack."""
    rungs: Mapping[int, Rung]
    """The validated rungs, empty if one of them breaks a rule."""
    problems: Mapping[int, InputError]
    """The first rule that each rung breaks, by index in the stack."""
    listed_zones: Mapping[int, tuple[str, ...]]
    """Zones of the cluster that are known to have a rung's VMs. Empty if none has them or no zones
    are listed."""
    zones: Mapping[int, tuple[str, ...]]
    """Zones that a rung's VMs may be in: all zones of the cluster if none are listed."""
    classes: Mapping[str, str]
    """Compute classes by hardware kind, or only `any` where the stack creates the node pools, since
    one class may then contain TPU and GPU."""

    @property
    def has_tpu(self) -> bool:
        """Whether one of its rungs is a TPU."""
        return any(rung.kind == "tpu" for rung in self.rungs.values())

    @property
    def spans_hosts(self) -> bool:
        """Whether a replica on one of its rungs spans several hosts."""
        return any(rung.is_multi_host for rung in self.rungs.values())

    @property
    def rdma_rungs(self) -> tuple[int, ...]:
        """Places in the stack of the rungs whose pods claim RDMA interfaces."""
        return tuple(at for at, rung in self.rungs.items() if rung.network == "rdma")

    @property
    def has_rdma(self) -> bool:
        """Whether pods on one of its rungs claim RDMA interfaces."""
        return bool(self.rdma_rungs)

    @property
    def interface_rungs(self) -> tuple[int, ...]:
        """Places in the stack of the rungs whose pods use the interfaces of TCPX or TCPXO."""
        return tuple(at for at, rung in self.rungs.items() if rung.network in INTERFACE_NETWORKS)

    @property
    def compact_rungs(self) -> tuple[int, ...]:
        """Places in the stack of the rungs whose nodes are placed close to each other."""
        return tuple(at for at, rung in self.rungs.items() if rung.placement == "compact")

    @property
    def is_compact(self) -> bool:
        """Whether nodes of one of its rungs are placed close to each other."""
        return bool(self.compact_rungs)

    @property
    def reserved_rungs(self) -> Mapping[int, Rung]:
        """Rungs whose reservation the stack requests, by index in the stack."""
        return {at: rung for at, rung in self.rungs.items() if rung.reservation_machines}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of hardware of its rungs, in the order of `KINDS`."""
        here = {rung.kind for rung in self.rungs.values()}
        return tuple(kind for kind in KINDS if kind in here)

    def of_kind(self, kind: str) -> dict[int, Rung]:
        """Return the rungs of a kind of hardware, by index in the stack."""
        return {at: rung for at, rung in self.rungs.items() if rung.kind == kind}


CapacityByRegion = Mapping[str, Mapping[str, RegionCapacity]]
"""Capacity name to region name to capacity."""


def capacity_by_region(platform: Platform) -> CapacityByRegion:
    """Return every capacity in every region. Broken rungs are listed in `problems`."""
    claimed = platform.claimed_capacity()
    flavors = [flavor for queue in platform.queues.values() for flavor in queue.flavors]
    queued = {flavor.capacity for flavor in flavors if flavor.queued}
    models = platform.models.values() if platform.layer is Layer.ALL else ()
    connected = {name for model in models if model.disaggregated for name in _capacity_of(model)}
    found: dict[str, dict[str, RegionCapacity]] = {name: {} for name in platform.capacity}
    for region, settings in platform.regions.items():
        queues = [
            each for each in platform.queues.values() if queue_region(platform, each) == region
        ]
        for_jobs = {flavor.capacity for queue in queues for flavor in queue.flavors}
        served = platform.models_in(region).values()
        used = {name for model in served for name in _capacity_of(model)} | for_jobs
        if platform.layer is Layer.PLATFORM:
            used = {name for name, each in platform.capacity.items() if each.rungs_in(region)}
        for name, capacity in platform.capacity.items():
            found[name][region] = _in_region(
                name,
                capacity,
                region,
                settings.zones,
                project=platform.project,
                is_connected=name in connected,
                is_used=name in used,
                is_claimed=name in claimed,
                is_for_jobs=name in for_jobs,
                is_queued=name in queued,
            )
    return found


def _capacity_of(model: Model) -> set[str]:
    """Return the names of the capacities that a model uses."""
    return {name for name in (model.capacity, prefill_capacity(model)) if name is not None}


def _connected(arguments: dict[int, RungArgs]) -> dict[int, RungArgs]:
    """Return the rungs with RDMA, over which KV cache is transferred, if all of them support it."""
    able = rdma_accelerators()
    if not all(rung.accelerator in able for rung in arguments.values()):
        return arguments
    return {
        at: rung if rung.network is not None else _changed(rung, network=NodeNetwork.RDMA)
        for at, rung in arguments.items()
    }


def prefill_capacity(model: Model) -> str | None:
    """Return the capacity name of a model's prefill replicas, if it has them."""
    if model.disaggregated is None:
        return None
    return model.disaggregated.prefill.capacity or model.capacity


def _in_region(
    name: str,
    capacity: Capacity,
    region: str,
    cluster: tuple[str, ...],
    *,
    project: str,
    is_connected: bool,
    is_used: bool,
    is_claimed: bool,
    is_for_jobs: bool,
    is_queued: bool,
) -> RegionCapacity:
    """Return a capacity in a region.

    Args:
        name: Name of the capacity.
        capacity: Its settings.
        region: The region.
        cluster: Zones of the region's cluster.
        project: Project of the stack.
        is_connected: Whether its nodes send KV cache to each other.
        is_used: As in the result, and so are the others.
        is_claimed: Whether pods claim its chips as devices.
        is_for_jobs: Whether it provides the chips of a queue in the region.
        is_queued: Whether its node pools use queued provisioning.
    """
    own = capacity.rungs_in(region)
    arguments = {at: _arguments(rung, region, project) for at, rung in own.items()}
    if is_connected:
        arguments = _connected(arguments)
    rungs, problems = checked_rungs(name, region, arguments)
    for at in _close(rungs, capacity):
        arguments[at] = _changed(arguments[at], placement=NodePlacement.COMPACT)
        rungs[at] = replace(rungs[at], placement="compact")
    listed = {at: _listed_zones(rung, region, cluster) for at, rung in rungs.items()}
    for at, rung in rungs.items():
        is_near = rung.network == "rdma" or rung.placement == "compact"
        if is_near and not (rung.zones or rung.reservation) and len(listed[at]) == 1:
            arguments[at] = _changed(arguments[at], zones=listed[at])
            rungs[at] = replace(rung, zones=listed[at])
    return RegionCapacity(
        name=name,
        region=region,
        settings=capacity,
        is_used=is_used,
        is_claimed=is_claimed,
        is_for_jobs=is_for_jobs,
        is_queued=is_queued,
        arguments=arguments,
        rungs=rungs,
        problems=problems,
        listed_zones=listed,
        zones={at: zones or cluster for at, zones in listed.items()},
        classes=_classes(capacity, name, {rung.kind for rung in own.values()}),
    )


def checked_rungs(
    capacity: str, region: str, arguments: Mapping[int, RungArgs]
) -> tuple[dict[int, Rung], dict[int, InputError]]:
    """Return the validated rungs of a capacity in a region, and the problems of the others.

    Returns no rungs if any rung breaks a rule, since a partial list would give wrong results.
    """
    rungs: dict[int, Rung] = {}
    problems: dict[int, InputError] = {}
    for at, rung in arguments.items():
        try:
            rungs[at] = check_rung(rung, join("capacity", capacity, "rungs", at), region=region)
        except InputError as error:
            problems[at] = error
    return ({} if problems else rungs), problems


def _arguments(rung: RungSettings, region: str, project: str) -> RungArgs:
    """Return a rung as a component argument, with the zones of one region only.

    A reservation belongs to the platform's project unless the rung names another project.
    """
    shared = {name: getattr(rung, name) for name in rung.model_fields_set}
    for field in ("reservation_zones", "zones"):
        if (zones := shared.get(field)) is not None:
            shared[field] = tuple(zone for zone in zones if region_of(zone) == region)
    if rung.reservation_project == project:
        del shared["reservation_project"]
    return RungArgs.model_construct(**shared)


def _changed(rung: RungArgs, **changes: Any) -> RungArgs:
    return rung.model_copy(update=changes)


def _close(rungs: Mapping[int, Rung], capacity: Capacity) -> list[int]:
    """Return the rungs whose nodes exchange data by RDMA, where the stack names no placement.

    A node pool of the stack keeps its placement: a change would replace all its nodes at once.
    """
    if capacity.node_pools is not None:
        return []
    return [
        at
        for at, rung in rungs.items()
        if rung.network == "rdma"
        and capacity.rungs[at].placement is None
        and can_be_compact(rung.accelerator, rung.provisioning)
    ]


def _listed_zones(rung: Rung, region: str, cluster: tuple[str, ...]) -> tuple[str, ...]:
    if named := rung.reservation_zones or rung.zones:
        return named
    listed = rung.zones_in(region) or ()
    return tuple(zone for zone in cluster if zone in listed)


def _classes(capacity: Capacity, name: str, kinds: set[str]) -> dict[str, str]:
    if len(kinds) == 1:
        return dict.fromkeys(kinds, name)
    if capacity.node_pools is not None:
        return {"any": name}
    return {kind: f"{name}-{kind}" for kind in KINDS if kind in kinds}


def rungs(capacity: RegionCapacity, kind: str = "any") -> list[RungArgs]:
    """Return a capacity's rungs in a region, of one kind or of `any`."""
    made: list[RungArgs] = []
    for at, args in capacity.arguments.items():
        if kind not in ("any", capacity.rungs[at].kind):
            continue
        if capacity.settings.node_pools is None:
            made.append(args)
        else:
            made.append(_changed(args, node_pools=(pool_name(capacity.name, at),)))
    return made


def queue_region(platform: Platform, queue: Queue) -> str | None:
    """Return the region of a queue's jobs, or None if no region has rungs of every capacity."""
    if queue.region is not None:
        return queue.region
    wanted = [platform.capacity.get(flavor.capacity) for flavor in queue.flavors]
    for region in sorted(platform.regions):
        if all(each is None or each.rungs_in(region) for each in wanted):
            return region
    return None

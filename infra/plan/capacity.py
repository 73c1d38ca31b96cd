"""A capacity as one region has it: checked rungs, the zones of their machines, compute classes."""

from collections.abc import Mapping
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import zones_of
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung, RungArgs, check_rung
from infra import stack
from infra.plan.queue_places import capacity_of_queues
from infra.stack import Capacity, Layer, Model, Platform
from infra.stack.problems import join


@dataclass(frozen=True)
class RegionCapacity:
    """A capacity in one region."""

    name: str
    region: str
    settings: Capacity
    """What the stack says of it, for all regions."""
    is_used: bool
    """Whether a model or a queue is for it in the region, or may be: where serving stacks bring
    the models, every capacity is."""
    arguments: Mapping[int, RungArgs]
    """Rungs that the region has, in the words of components, by their place in the stack."""
    rungs: Mapping[int, Rung]
    """The same, checked; empty where one of them breaks a rule."""
    problems: Mapping[int, InputError]
    """The first rule that each rung breaks, by its place in the stack."""
    listed_zones: Mapping[int, tuple[str, ...]]
    """Zones of the cluster that are known to have a rung's machines; empty where none has them, or
    none is listed."""
    zones: Mapping[int, tuple[str, ...]]
    """Zones where machines of a rung may stand: all of the cluster's, where none is listed."""
    classes: Mapping[str, str]
    """Compute classes by kind of hardware: `tpu` and `gpu`, or only `any` where pools are made
    beforehand, as these may hold both kinds in one class."""

    @property
    def has_tpu(self) -> bool:
        """Whether one of its rungs is a TPU."""
        return any(rung.kind == "tpu" for rung in self.rungs.values())

    @property
    def spans_hosts(self) -> bool:
        """Whether a replica on one of its rungs spans several hosts."""
        return any(rung.is_multi_host for rung in self.rungs.values())

    def of_kind(self, kind: str) -> dict[int, Rung]:
        """Return the rungs of `tpu` or `gpu`, by their place in the stack."""
        return {at: rung for at, rung in self.rungs.items() if rung.kind == kind}


CapacityByRegion = Mapping[str, Mapping[str, RegionCapacity]]
"""By the name of the capacity, and then by region."""


def capacity_by_region(platform: Platform) -> CapacityByRegion:
    """Return every capacity in every region. A broken rung is among the problems of its place."""
    used = {
        region: {
            name
            for model in platform.models_in(region).values()
            for name in (model.capacity, prefill_capacity(model))
            if name is not None
        }
        | capacity_of_queues(platform, region)
        for region in platform.regions
    }
    if platform.layer is Layer.PLATFORM:
        used = {
            region: {name for name, each in platform.capacity.items() if each.rungs_in(region)}
            for region in platform.regions
        }
    return {
        name: {
            region: _in_region(platform, name, region, is_used=name in used[region])
            for region in platform.regions
        }
        for name in platform.capacity
    }


def prefill_capacity(model: Model) -> str | None:
    """Return the name of the capacity of a model's prefill replicas, where it has them."""
    if model.disaggregated is None:
        return None
    return model.disaggregated.prefill.capacity or model.capacity


def _in_region(platform: Platform, name: str, region: str, *, is_used: bool) -> RegionCapacity:
    capacity = platform.capacity[name]
    own = capacity.rungs_in(region)
    arguments = {at: _arguments(rung, region, platform.project) for at, rung in own.items()}
    rungs, problems = checked_rungs(name, region, arguments)
    cluster = platform.regions[region].zones
    listed = {at: _listed_zones(rung, region, cluster) for at, rung in rungs.items()}
    return RegionCapacity(
        name=name,
        region=region,
        settings=capacity,
        is_used=is_used,
        arguments=arguments,
        rungs=rungs,
        problems=problems,
        listed_zones=listed,
        zones={at: zones or cluster for at, zones in listed.items()},
        classes=_classes(capacity, name, {rung.accelerator.is_tpu for rung in own.values()}),
    )


def checked_rungs(
    capacity: str, region: str, arguments: Mapping[int, RungArgs]
) -> tuple[dict[int, Rung], dict[int, InputError]]:
    """Return the checked rungs of a capacity in a region, and what is wrong with the others.

    No rung is returned where one breaks a rule: what follows from the others alone would be wrong.
    """
    rungs: dict[int, Rung] = {}
    problems: dict[int, InputError] = {}
    for at, rung in arguments.items():
        try:
            rungs[at] = check_rung(rung, join("capacity", capacity, "rungs", at), region=region)
        except InputError as error:
            problems[at] = error
    return ({} if problems else rungs), problems


def _arguments(rung: stack.Rung, region: str, project: str) -> RungArgs:
    """Return a rung as a component takes it, with the zones of one region only.

    A reservation belongs to the project of the platform unless the rung names another one.
    """
    args = RungArgs(accelerator=rung.accelerator.value, provisioning=rung.provisioning.value)
    if rung.topology is not None:
        args["topology"] = rung.topology
    if rung.count is not None:
        args["count"] = rung.count
    if rung.hosts is not None:
        args["hosts"] = rung.hosts
    if rung.machine_type is not None:
        args["machine_type"] = rung.machine_type
    if rung.reservation is not None:
        args["reservation"] = rung.reservation
    if rung.reservation_project is not None and rung.reservation_project != project:
        args["reservation_project"] = rung.reservation_project
    if rung.reservation_zones is not None:
        args["reservation_zones"] = _zones_in(region, rung.reservation_zones)
    if rung.zones is not None:
        args["zones"] = _zones_in(region, rung.zones)
    if rung.allow_unlisted_zones:
        args["allow_unlisted_zones"] = True
    if rung.boot_disk_type is not None:
        args["boot_disk_type"] = rung.boot_disk_type.value
    if rung.max_run_hours is not None:
        args["max_run_hours"] = rung.max_run_hours
    return args


def _zones_in(region: str, zones: tuple[str, ...]) -> list[str]:
    return [zone for zone in zones if zone.rpartition("-")[0] == region]


def _listed_zones(rung: Rung, region: str, cluster: tuple[str, ...]) -> tuple[str, ...]:
    if named := rung.reservation_zones or rung.zones:
        return named
    listed = zones_of(rung.accelerator, region, rung.provisioning) or ()
    return tuple(zone for zone in cluster if zone in listed)


def _classes(capacity: Capacity, name: str, is_tpu: set[bool]) -> dict[str, str]:
    if len(is_tpu) == 1:
        return {"tpu" if is_tpu == {True} else "gpu": name}
    if capacity.node_pools is not None:
        return {"any": name}
    return {kind: f"{name}-{kind}" for kind in ("tpu", "gpu")}

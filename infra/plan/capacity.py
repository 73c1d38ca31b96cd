"""Rungs of a stack in the words of the components, one region at a time."""

from gke_inference.catalogue.accelerators import zones_of
from gke_inference.catalogue.rungs import Rung, RungArgs, check_rung
from infra import stack
from infra.stack import Form, Model, Platform
from infra.stack.problems import join


def rung_args(rung: stack.Rung, region: str, project: str) -> RungArgs:
    """Return a rung as a component takes it, with the zones of one region only.

    Args:
        rung: A rung that the region has.
        region: Region of the cluster.
        project: Project of the platform, which owns a reservation unless the rung says otherwise.
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
    if rung.max_run_hours is not None:
        args["max_run_hours"] = rung.max_run_hours
    return args


def checked_rungs(platform: Platform, capacity: str, region: str) -> dict[int, Rung]:
    """Return the rungs of a capacity that a region has, checked, by their place in the stack.

    Raises:
        InputError: A rung breaks a rule; its path is the user's.
    """
    return {
        at: check_rung(
            rung_args(rung, region, platform.project),
            join("capacity", capacity, "rungs", at),
            region=region,
        )
        for at, rung in platform.capacity[capacity].rungs_in(region).items()
    }


def class_names(platform: Platform, capacity: str, region: str) -> dict[str, str]:
    """Return the compute classes of a capacity in a region, by kind of hardware.

    The kinds are `tpu` and `gpu`, or only `any` where pools are made beforehand: they may hold
    both kinds in one class.
    """
    kinds = [
        "tpu" if rung.accelerator.is_tpu else "gpu"
        for rung in platform.capacity[capacity].rungs_in(region).values()
    ]
    if len(set(kinds)) == 1:
        return {kinds[0]: capacity}
    if platform.capacity[capacity].node_pools is not None:
        return {"any": capacity}
    return {kind: f"{capacity}-{kind}" for kind in ("tpu", "gpu")}


def form_in(platform: Platform, model: Model, region: str) -> Form:
    """Return a model's form in a region: single where the region has rungs of one kind only."""
    kinds = class_names(platform, model.capacity, region)
    return platform.form_of(model) if set(kinds) & {"any"} or len(kinds) > 1 else Form.SINGLE


def standby(model: Model) -> int:
    """Return how many warm GPU replicas a paired model has."""
    return 1 if model.replicas.standby is None else model.replicas.standby


def regions_using(platform: Platform, capacity: str) -> tuple[str, ...]:
    """Return the regions where a model runs on a capacity, in the order of the stack."""
    return tuple(
        region
        for region in platform.regions
        if any(
            capacity in (model.capacity, prefill_capacity(model))
            for model in platform.models_in(region).values()
        )
    )


def prefill_capacity(model: Model) -> str | None:
    """Return the capacity of a model's prefill replicas, where it has them."""
    if model.disaggregated is None:
        return None
    return model.disaggregated.prefill.capacity or model.capacity


def uses_tpu(platform: Platform, model: Model, region: str) -> bool:
    """Return whether a model may run on a TPU in a region."""
    rungs_here = platform.capacity[model.capacity].rungs_in(region).values()
    return any(rung.accelerator.is_tpu for rung in rungs_here)


def has_groups(platform: Platform, region: str) -> bool:
    """Return whether a replica of some model spans several hosts in a region."""
    models = platform.models_in(region).values()
    return any(spans_hosts(platform, model, region) for model in models)


def spans_hosts(platform: Platform, model: Model, region: str) -> bool:
    """Return whether a replica of a model may span several hosts in a region."""
    here = checked_rungs(platform, model.capacity, region).values()
    return any(rung.is_multi_host for rung in here)


def listed_zones(platform: Platform, region: str, rung: Rung) -> tuple[str, ...]:
    """Return the zones of a cluster that are known to have a rung's machines.

    Empty where the catalogue lists none of them.
    """
    if named := rung.reservation_zones or rung.zones:
        return named
    listed = zones_of(rung.accelerator, region)
    return tuple(zone for zone in platform.regions[region].zones if zone in listed)


def machine_zones(platform: Platform, region: str, rung: Rung) -> tuple[str, ...]:
    """Return the zones where machines of a rung may stand: the cluster's, where none is listed."""
    return listed_zones(platform, region, rung) or platform.regions[region].zones


def model_zones(
    platform: Platform, model: Model, region: str, rung: Rung
) -> tuple[str, ...] | None:
    """Return the zones where a model can stand on a rung; None where nobody lists the rung's.

    A disk with its weights keeps a model to the zones that have one.
    """
    found = listed_zones(platform, region, rung)
    if not found and not zones_of(rung.accelerator, region):
        return None
    return tuple(zone for zone in found if model.disk is None or zone in model.disk.zones)


def _zones_in(region: str, zones: tuple[str, ...]) -> list[str]:
    return [zone for zone in zones if zone.rpartition("-")[0] == region]

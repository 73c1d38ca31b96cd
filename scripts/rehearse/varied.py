"""The description of a platform with other settings, without another preview.

The first settings that a sweep proposes are previewed, and the preview must have this description:
`same` compares both.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gke_inference.catalogue.engines import engine
from gke_inference.serving.updates import update_steps
from infra.plan import Plan, RegionPlan, ServedModel
from scripts.rehearse.sweep_options import Option, Setting
from simulator.rehearsal.changes import Rolling, Upgrade
from simulator.rehearsal.description import Platform, Region, Workload
from simulator.rehearsal.horizontal import Autoscaler
from twin.cluster.autoscaler.rungs import Class


def varied(platform: Platform, plan: Plan, option: Option) -> Platform:
    """Return a platform with an option's settings.

    Args:
        platform: Platform of the stack as it is.
        plan: The stack as it is.
        option: The settings.
    """
    served = {
        (deployment, each.region): (each, kind)
        for every in plan.models.values()
        for each in every
        for kind, deployment in each.deployments.items()
    }
    workloads = list(platform.workloads)
    regions = list(platform.regions)
    for setting in option.settings:
        if setting.path[0] == "capacity":
            regions = [_reordered(each, plan.regions[each.name], setting) for each in regions]
            continue
        made: list[Workload] = []
        for each in workloads:
            one, kind = served[each.name, each.region]
            changed: Workload | None = each
            if one.served_name == setting.path[1] and _concerns(one, setting):
                changed = _changed(each, one, kind, setting)
            made += [] if changed is None else [changed]
        workloads = made
    used = {each.region for each in workloads}
    return replace(
        platform,
        workloads=tuple(workloads),
        regions=tuple(each for each in regions if each.name in used),
        programs=tuple(each for each in platform.programs if each.region in used),
        changes=tuple(
            each
            for each in platform.changes
            if not isinstance(each, Upgrade) or each.region in used
        ),
    )


def _concerns(served: ServedModel, setting: Setting) -> bool:
    """Return whether a setting of a model is also that of its canary."""
    is_own = served.version is not None and setting.path[2] == "replicas"
    canary = served.settings.canary
    return not (is_own and canary is not None and canary.replicas is not None)


def _changed(
    workload: Workload, served: ServedModel, kind: str, setting: Setting
) -> Workload | None:
    field, value = setting.path[-1], setting.value
    if field == "regions":
        return workload if workload.region in _words(value) else None
    number, scaler = _number(value), workload.scaler
    fills = kind == served.filling_kind
    if (field == "standby") != fills and field in ("min", "standby"):
        return workload
    if field in ("min", "standby"):
        least = max(1, number) if fills else number
        alone = len(served.deployments) == 1  # two of a pair have more than one replica
        rolling = Rolling(*update_steps(least)) if alone else workload.rolling
        workload = replace(workload, replicas=least, rolling=rolling)
        return workload if scaler is None else _scaled(workload, replace(scaler, minimum=number))
    if scaler is None:
        return workload
    if field == "max":
        return _scaled(workload, replace(scaler, maximum=number))
    if field == "scale_in_delay_seconds":
        down = replace(scaler.down, window_seconds=float(number))
        return _scaled(workload, replace(scaler, down=down))
    return _scaled(workload, _targeted(scaler, served, field, number))


def _targeted(scaler: Autoscaler, served: ServedModel, field: str, number: int) -> Autoscaler:
    names = engine(served.settings.engine).metrics
    series, target = {
        "queue_depth": (names.queue, float(number)),
        "kv_cache_percent": (names.kv_cache or "", number / 100),
        "running_requests": (names.running or "", float(number)),
    }[field]
    metrics = tuple(
        replace(each, target=target) if f"|{series.partition('{')[0]}|" in each.name else each
        for each in scaler.metrics
    )
    return replace(scaler, metrics=metrics)


def _scaled(workload: Workload, scaler: Autoscaler) -> Workload:
    return replace(workload, scaler=scaler)


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value)


def _number(value: Any) -> int:
    return int(value)


def _reordered(region: Region, plan: RegionPlan, setting: Setting) -> Region:
    """Return a region whose classes of a capacity have their rungs in another order."""
    classes = dict(region.classes)
    for capacity in plan.used_capacity:
        if capacity.name != setting.path[1]:
            continue
        for kind, name in capacity.classes.items():
            rungs = capacity.rungs if kind == "any" else capacity.of_kind(kind)
            if name in classes:
                classes[name] = _in_order(classes[name], sorted(rungs), setting.value)
    return replace(region, classes=classes)


def _in_order(one: Class, present: list[int], order: Any) -> Class:
    """Return a class whose rungs, at some indices of the stack, follow a new order of these."""
    wanted = [present.index(index) for index in order if index in present]
    return replace(
        one, rungs=tuple(replace(one.rungs[index], index=at) for at, index in enumerate(wanted))
    )


def same(first: Platform, second: Platform) -> bool:
    """Return whether two platforms behave alike, however their parts are numbered."""
    return list(_parts(first)) == list(_parts(second))


def _parts(platform: Platform) -> Iterator[Any]:
    yield platform.models
    yield platform.front
    yield platform.times
    yield platform.teams
    classes = {region.name: region.classes for region in platform.regions}
    for each in platform.workloads:
        yield replace(each, hardware={})
        yield {
            machine: (platform.engines[one.engine], one.created_seconds, one.loaded_seconds)
            for machine, one in each.hardware.items()
        }
        name = each.pods[0].compute_class
        yield None if name is None else classes[each.region].get(name)

"""Rules about models: capacity that exists and can hold them, replicas, forms and names."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.cost.fitting import unfit
from infra.plan import CapacityByRegion
from infra.stack import (
    ClusterMode,
    Form,
    Model,
    Platform,
    ReleaseChannel,
    Replicas,
    Spanning,
)
from infra.stack.problems import join, one_of


def check_models(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield what is wrong with the models of a platform.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    for name, model in platform.models.items():
        unknown = list(_check_references(platform, name, model))
        yield from unknown
        if not unknown:
            yield from _check_form(platform, name, model)
            yield from _check_fit(platform, by_region, name, model)
        where = join("models", name, "replicas")
        yield from _check_replicas(platform, where, model, model.replicas)
        if model.canary is not None and model.canary.replicas is not None:
            where = join("models", name, "canary", "replicas")
            yield from _check_replicas(platform, where, model, model.canary.replicas)
        yield from _check_live_adapters(name, model)
    yield from _check_served_names(platform)


def _check_live_adapters(name: str, model: Model) -> Iterator[InputError]:
    if model.live_adapters is None:
        return
    where = join("models", name, "live_adapters")
    if model.canary is not None:
        yield InputError(where, "must be left out while there is a canary: one version at a time")
    if model.disaggregated is not None:
        yield InputError(where, "must be left out where prefill and decode are apart")
    if model.form is Form.DUAL_CONTAINER:
        yield InputError(where, "must be left out where form is dual-container")


def _check_references(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    if model.capacity not in platform.capacity:
        yield one_of(join("models", name, "capacity"), model.capacity, platform.capacity)
    for at, region in enumerate(model.regions or ()):
        if region not in platform.regions:
            yield one_of(join("models", name, "regions", at), region, platform.regions)


def _check_form(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    where = join("models", name, "form")
    capacity = platform.capacity[model.capacity]
    form = model.form
    words = f"capacity {model.capacity!r}"
    if form is Form.SINGLE and capacity.is_mixed:
        yield InputError(where, f"must be paired or dual-container: {words} has TPU and GPU rungs")
    if form is Form.PAIRED and not capacity.is_mixed:
        yield InputError(where, f"must be single: {words} has rungs of one kind", "paired")
    if form is not Form.DUAL_CONTAINER:
        return
    if not capacity.is_mixed:
        yield InputError(where, f"must be single: {words} has rungs of one kind", "dual-container")
    regions = platform.regions_of(model).items()
    autopilots = [name for name, region in regions if region.mode is ClusterMode.AUTOPILOT]
    if autopilots:
        message = f"must not be dual-container in {autopilots[0]}"
        yield InputError(where, f"{message}: autopilot refuses privileged pods")
    elif capacity.node_pools is None:
        message = f"needs pools made beforehand: set 'capacity.{model.capacity}.node_pools'"
        yield InputError(where, message, "dual-container")


def _check_fit(
    platform: Platform, by_region: CapacityByRegion, name: str, model: Model
) -> Iterator[InputError]:
    seen: set[int] = set()
    groups: dict[str, str] = {}
    for region in platform.regions_of(model):
        for at, rung in by_region[model.capacity][region].rungs.items():
            if at in seen:
                continue
            seen.add(at)
            where = join("models", name, "capacity")
            place = join("capacity", model.capacity, "rungs", at)
            reason = unfit(name, model, rung)
            if reason is not None:
                yield InputError(where, f"must hold the model on every rung; {place}: it {reason}")
                return
            groups.update({rung.kind: place} if rung.is_multi_host else {})
    yield from _check_groups(platform, name, model, groups)


def _check_groups(
    platform: Platform, name: str, model: Model, groups: dict[str, str]
) -> Iterator[InputError]:
    """A replica over several hosts: forms that can be one, and a way to span them."""
    where = join("models", name, "spanning")
    if groups and platform.form_of(model) is Form.DUAL_CONTAINER:
        message = f"must not be dual-container: {next(iter(groups.values()))} spans several hosts"
        yield InputError(join("models", name, "form"), message, "dual-container")
    if groups and model.live_adapters is not None:
        message = f"must be left out: {next(iter(groups.values()))} spans several hosts"
        yield InputError(
            join("models", name, "live_adapters"), f"{message}, and a loader serves one"
        )
    if model.spanning is None:
        return
    if not groups:
        message = f"must be left out: no rung of {model.capacity!r} spans several hosts"
        yield InputError(where, message, model.spanning.value)
    elif model.spanning is Spanning.ENGINE and "tpu" in groups:
        yield InputError(where, f"must be ray, as {groups['tpu']} is a TPU slice", "engine")


def _check_replicas(
    platform: Platform, where: str, model: Model, replicas: Replicas
) -> Iterator[InputError]:
    if replicas.min > replicas.max:
        message = f"must be at most max ({replicas.max})"
        yield InputError(join(where, "min"), message, replicas.min)
    if replicas.standby is None or model.capacity not in platform.capacity:
        return
    at = join(where, "standby")
    if platform.form_of(model) is not Form.PAIRED:
        message = "must be left out: only a paired model has standby"
        yield InputError(at, message, replicas.standby)
    elif replicas.standby > replicas.max:
        message = f"must be at most max ({replicas.max})"
        yield InputError(at, message, replicas.standby)
    elif replicas.standby == 0:
        for region, settings in platform.regions.items():
            late = settings.release_channel is not ReleaseChannel.RAPID
            if late and region in platform.regions_of(model):
                message = f"must be at least 1 in {region}: scaling from 0 needs channel rapid"
                yield InputError(at, message, 0)


def _check_served_names(platform: Platform) -> Iterator[InputError]:
    """Clients name models and adapters alike, so no two may have one name."""
    owners: dict[str, str] = {}
    for name in platform.models:
        owners[name] = join("models", name)
    for name, model in platform.models.items():
        for at, adapter in enumerate(model.adapters):
            where = join("models", name, "adapters", at)
            if adapter in owners:
                yield InputError(
                    where, "must be a name of its own", adapter, f" as {owners[adapter]}"
                )
            owners.setdefault(adapter, where)

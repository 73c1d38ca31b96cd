"""Rules about models: capacity that exists, replicas, forms that clusters allow, and names."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.plan import CapacityByRegion
from infra.rules.versions import check_standby
from infra.stack import (
    ClusterMode,
    Form,
    Model,
    Platform,
    Replicas,
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


def _check_references(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    if model.capacity not in platform.capacity:
        yield one_of(join("models", name, "capacity"), model.capacity, platform.capacity)
    for at, region in enumerate(model.regions or ()):
        if region not in platform.regions:
            yield one_of(join("models", name, "regions", at), region, platform.regions)


def _check_form(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    where = join("models", name, "form")
    capacity = platform.capacity[model.capacity]
    if model.form is not Form.DUAL_CONTAINER:
        return
    regions = platform.regions_of(model).items()
    autopilots = [name for name, region in regions if region.mode is ClusterMode.AUTOPILOT]
    if autopilots:
        message = f"must not be dual-container in {autopilots[0]}"
        yield InputError(where, f"{message}: autopilot refuses privileged pods")
    elif capacity.node_pools is None:
        message = f"needs pools made beforehand: set 'capacity.{model.capacity}.node_pools'"
        yield InputError(where, message, "dual-container")


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
        for region in platform.regions_of(model):
            yield from check_standby(platform, region, at)


def _check_served_names(platform: Platform) -> Iterator[InputError]:
    """Clients name models and adapters alike, so no two may have one name."""
    owners: dict[str, str] = {}
    for name in platform.models:
        owners[name] = join("models", name)
    for name, model in platform.models.items():
        for at, adapter in enumerate(model.adapter_names(name)):
            where = join("models", name, "adapters", at)
            if adapter in owners:
                yield InputError(
                    where, "must be a name of its own", adapter, f" as {owners[adapter]}"
                )
            owners.setdefault(adapter, where)

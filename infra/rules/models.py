"""Rules about models: existing capacity, replicas, forms that clusters allow, and names."""

from collections.abc import Iterator
from typing import Final

from gke_inference.backends.settings import WaitLimits
from gke_inference.catalogue.engines import engine, engines_where
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.intent.replicas import range_problems
from gke_inference.observability.demanded import idle_problems
from infra.plan import CapacityByRegion
from infra.rules.versions import check_from_zero
from infra.stack import (
    ClusterMode,
    Form,
    Layer,
    Model,
    Platform,
    Replicas,
    Spanning,
    Task,
)

_DEFAULT_SECONDS: Final = 30
"""Timeout of a load balancer's backend by default. The policy `backend-health` refuses a pool
without a longer one. Models that do not generate text have no pool, and no streams."""


def check_models(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's models.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    for name, model in platform.models.items():
        unknown = list(_check_references(platform, name, model))
        yield from unknown
        if not unknown:
            yield from _check_form(platform, name, model, by_region)
        where = join("models", name, "replicas")
        yield from _check_replicas(platform, where, model, model.replicas)
        if model.canary is not None and model.canary.replicas is not None:
            where = join("models", name, "canary", "replicas")
            yield from _check_replicas(platform, where, model, model.canary.replicas)
        if not unknown:
            yield from _check_from_zero(platform, name, model, by_region)
        if model.task is Task.GENERATE and model.timeout_seconds <= _DEFAULT_SECONDS:
            rule = f"must be more than {_DEFAULT_SECONDS}: less cuts off streams"
            yield InputError(join("models", name, "timeout_seconds"), rule, model.timeout_seconds)
        yield from _check_canary(name, model)
        yield from _check_kuberay(platform, name, model)
    yield from _check_served_names(platform)


def _check_canary(name: str, model: Model) -> Iterator[InputError]:
    if model.canary is None:
        return
    if model.live_adapters is not None:
        where = join("models", name, "live_adapters")
        yield InputError(where, "must not be set during a canary: update one version at a time")
    if model.task.is_diffusion:
        where = join("models", name, "canary")
        yield InputError(where, f"must not be set when task is {model.task}")


def _check_kuberay(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    """Yield what contradicts Ray clusters: a sync from git would suspend them."""
    if model.spanning is not Spanning.KUBERAY:
        return
    where = join("models", name)
    if platform.layer is not Layer.ALL:
        rule = f"must be engine or ray when layer is {platform.layer.value}"
        yield InputError(join(where, "spanning"), rule, model.spanning.value)


def _check_references(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    if model.capacity not in platform.capacity:
        yield one_of(join("models", name, "capacity"), model.capacity, platform.capacity)
    for at, region in enumerate(model.regions or ()):
        if region not in platform.regions:
            yield one_of(join("models", name, "regions", at), region, platform.regions)


def _check_form(
    platform: Platform, name: str, model: Model, by_region: CapacityByRegion
) -> Iterator[InputError]:
    where = join("models", name, "form")
    capacity = platform.capacity[model.capacity]
    if model.form is not Form.DUAL_CONTAINER:
        yield from _check_two_kinds(platform, where, model, by_region)
        return
    regions = platform.regions_of(model).items()
    autopilots = [name for name, region in regions if region.mode is ClusterMode.AUTOPILOT]
    if autopilots:
        message = f"must not be dual-container in {autopilots[0]}"
        yield InputError(where, f"{message}: autopilot refuses privileged pods")
    elif capacity.node_pools is None:
        message = f"needs node pools made by the stack: set 'capacity.{model.capacity}.node_pools'"
        yield InputError(where, message, "dual-container")


def _check_two_kinds(
    platform: Platform, where: str, model: Model, by_region: CapacityByRegion
) -> Iterator[InputError]:
    """Yield a form whose pods ask for one kind of nodes, which pools of both do not have apart."""
    form = platform.form_of(model)
    if form is Form.DRA or model.capacity in platform.claimed_capacity():
        return  # `check_claims` refuses other models on claimed devices
    here = [by_region[model.capacity][region] for region in platform.regions_of(model)]
    if any(rung.is_slice for capacity in here for rung in capacity.rungs.values()):
        return  # `check_capacity` refuses pools of slices
    if not any("any" in capacity.classes for capacity in here):
        return
    pools = f"capacity.{model.capacity}.node_pools"
    rule = f"must be dual-container or dra when {pools} are of TPU and GPU rungs"
    yield InputError(where, rule, form.value)


def _check_replicas(
    platform: Platform, where: str, model: Model, replicas: Replicas
) -> Iterator[InputError]:
    yield from range_problems(where, replicas)
    if replicas.buffer > replicas.max:
        message = f"must be at most max ({replicas.max})"
        yield InputError(join(where, "buffer"), message, replicas.buffer)
    if replicas.standby is None or model.capacity not in platform.capacity:
        return
    at = join(where, "standby")
    form = platform.form_of(model)
    if form is Form.SINGLE and platform.capacity[model.capacity].is_mixed:
        return  # rules of the model refuse the form
    if form is not Form.PAIRED:
        message = "must not be set: only a paired model has standby replicas"
        yield InputError(at, message, replicas.standby)
    elif replicas.standby > replicas.max:
        message = f"must be at most max ({replicas.max})"
        yield InputError(at, message, replicas.standby)
    elif replicas.standby == 0:
        for region in platform.regions_of(model):
            yield from check_from_zero(platform, region, at)


def _check_from_zero(
    platform: Platform, name: str, model: Model, by_region: CapacityByRegion
) -> Iterator[InputError]:
    """Yield what a model without replicas cannot have, and limits that are no use."""
    where = join("models", name, "replicas")
    replicas, canary = model.replicas, model.canary
    if canary is not None and canary.replicas is not None and canary.replicas.min == 0:
        path = join("models", name, "canary", "replicas", "min")
        yield InputError(path, "must be at least 1: a canary always has a replica", 0)
    if replicas.min > 0:
        if replicas.from_zero is not None:
            yield InputError(join(where, "from_zero"), "must not be set unless min is 0")
        yield from _check_hold(platform, name, model, by_region)
        return
    if replicas.hold is not None:
        rule = "must not be set with min 0, whose requests wait as from_zero says"
        yield InputError(join(where, "hold"), rule)
    at = join(where, "min")
    reason = _why_nothing_waits(platform, model, by_region)
    if reason is None and platform.form_of(model) is Form.PAIRED:
        reason = "in the form paired; set 'replicas.standby' to 0 for its GPU replicas"
    if reason is not None:
        yield InputError(at, f"must be at least 1 {reason}", 0)
        return
    for region in platform.regions_of(model):
        yield from check_from_zero(platform, region, at)
    limits = model.from_zero
    path = join(where, "from_zero", "idle_seconds")
    yield from idle_problems(path, limits.idle_seconds, platform.monitoring.scrape_seconds)
    yield from _check_wait(join(where, "from_zero"), model, limits)


def _check_hold(
    platform: Platform, name: str, model: Model, by_region: CapacityByRegion
) -> Iterator[InputError]:
    """Yield what a model whose requests wait for a replica cannot have, and limits of no use."""
    canary = model.canary
    if canary is not None and canary.replicas is not None and canary.replicas.hold is not None:
        at = join("models", name, "canary", "replicas", "hold")
        yield InputError(at, "must not be set: requests wait for no canary")
    limits = model.replicas.hold
    if limits is None:
        return
    at = join("models", name, "replicas", "hold")
    reason = _why_nothing_waits(platform, model, by_region)
    if reason is None and platform.form_of(model) is Form.PAIRED:
        reason = "in the form paired"
    if reason is not None:
        yield InputError(at, f"must not be set {reason}")
        return
    yield from _check_wait(at, model, limits)


def _check_wait(where: str, model: Model, limits: WaitLimits) -> Iterator[InputError]:
    """Yield a wait that leaves no time for the answer."""
    if limits.seconds >= model.timeout_seconds:
        rule = f"must be less than timeout_seconds ({model.timeout_seconds}), which is left of it"
        yield InputError(join(where, "seconds"), rule, limits.seconds)


def _why_nothing_waits(platform: Platform, model: Model, by_region: CapacityByRegion) -> str | None:
    """Return why no request can wait for a replica of a model, or None if it can."""
    if model.task is not Task.GENERATE or not engine(model.engine).from_zero:
        able = engines_where(lambda facts: facts.from_zero)
        names = " or ".join(each.title for each in able)
        return f"unless an endpoint picker compares the queues of {names}"
    if model.disaggregated is not None:
        return "when prefill and decode are disaggregated"
    if model.spanning is not None or model.experts is not None:
        return "when a replica spans several hosts"
    if model.canary is not None:
        return "with a canary, which requests reach by weight, also without a replica"
    if model.live_adapters is not None:
        return "with live_adapters"
    if platform.layer is not Layer.ALL:
        return f"when layer is {platform.layer.value}"
    here = [by_region[model.capacity][region] for region in platform.regions_of(model)]
    if any(each.spans_hosts for each in here):
        return "when a replica spans several hosts"
    return None


def _check_served_names(platform: Platform) -> Iterator[InputError]:
    """Clients request models and adapters by name, so each name must be unique."""
    owners: dict[str, str] = {}
    for name in platform.models:
        owners[name] = join("models", name)
    for name, model in platform.models.items():
        for at, adapter in enumerate(model.adapter_names(name)):
            where = join("models", name, "adapters", at)
            if adapter in owners:
                yield InputError(where, "must be unique", adapter, f" as {owners[adapter]}")
            owners.setdefault(adapter, where)
        for other in model.further_models:
            where = join("models", name, "images", "models", other)
            if other in owners:
                rule = f"must be a unique name, which is {owners[other]} already"
                yield InputError(where, rule)
            owners.setdefault(other, where)

"""Rules about the front: what Google supports for gateways of several regions and of a fleet."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of, repeated
from infra.plan.front import FrontPlan, resolve_front
from infra.stack import (
    Enforcement,
    Exposure,
    Front,
    FrontRouter,
    Gateway,
    GuardrailKind,
    Layer,
    Model,
    Platform,
    Region,
    Task,
)


def check_front(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's front and its settings."""
    front = resolve_front(platform)
    yield from _check_words(platform.gateway)
    yield from check_fleet(platform, front)
    yield from _check_drain(front, platform.regions)
    yield from _check_published(front, platform.regions)
    if platform.gateway.front_router is not None:
        yield from _check_router(platform, front)
        return
    if platform.gateway.has_fleet_gateway:
        return  # each model has its own path, which its regions answer
    if platform.layer is not Layer.SERVING:
        yield from _check_answering(platform, front)
    else:
        yield from _check_models(platform, front)


def _check_words(gateway: Gateway) -> Iterator[InputError]:
    front = gateway.front
    if front is Front.GLOBAL and gateway.exposure is not Exposure.EXTERNAL:
        message = "must be 'dns', 'internal' or unset when exposure is internal: the address is"
        message += " public"
        yield InputError("gateway.front", message, front.value)
    if front not in (None, Front.INTERNAL) and gateway.hostname is None:
        yield InputError("gateway.front", "needs 'hostname'", front.value, " without one")
    if front is Front.DNS and gateway.dns is None:
        message = "needs 'dns', the zone of its record"
        yield InputError("gateway.front", message, front.value, " without one")
    if gateway.publish is not None and not gateway.has_internal_gateways:
        message = "must not be set when the gateways are external: it needs exposure internal"
        note = ", or front global"
        yield InputError("gateway.publish", message + note)


def _check_drain(front: FrontPlan, regions: Collection[str]) -> Iterator[InputError]:
    gateway = front.gateway
    for at, name in enumerate(gateway.drain):
        where = join("gateway", "drain", at)
        if name not in regions:
            yield one_of(where, name, regions)
    yield from repeated("gateway.drain", gateway.drain, "a region")
    if not gateway.drain:
        return
    if gateway.front is None:
        message = "needs 'front'"
        yield InputError("gateway.drain", message, Bare(", ".join(gateway.drain)))
    elif not front.routed:
        message = "must leave a region with a gateway"
        yield InputError("gateway.drain", message, Bare(", ".join(gateway.drain)))


def _check_published(front: FrontPlan, regions: Mapping[str, Region]) -> Iterator[InputError]:
    wanted = front.gateway.is_published
    for name, region in regions.items():
        of = ("ranges",) if region.existing.subnet is None else ("existing", "subnet")
        where = join("regions", name, *of, "published")
        has_ranges = region.ranges is not None or region.existing.subnet is not None
        if wanted and has_ranges and region.published is None and name in front.regions:
            message = "is required when the gateways are published: gateway.front is global"
            yield InputError(where, message + ", or gateway.publish is set")
        if not wanted and region.published is not None:
            message = "must not be set unless gateway.front is global or gateway.publish is set"
            yield InputError(where, message, region.published)


def _check_answering(platform: Platform, front: FrontPlan) -> Iterator[InputError]:
    """A request to the plain URL may be for any model."""
    kind = front.gateway.front
    if kind is None or not front.routed or front.answering:
        return
    message = (
        "needs an undrained region that serves every model: the front cannot read"
        " the model of a request"
    )
    lacking = "; ".join(
        f"{name} lacks {', '.join(sorted(set(platform.models) - set(platform.models_in(name))))}"
        for name in front.routed
    )
    yield InputError("gateway.front", message, kind.value, f" ({lacking})")


def _check_models(platform: Platform, front: FrontPlan) -> Iterator[InputError]:
    """The front belongs to the platform and does not know which region lacks a team's model."""
    kind = front.gateway.front
    for name, model in platform.models.items():
        lacking = [each for each in front.routed if each not in platform.regions_of(model)]
        if kind is not None and lacking:
            of = f"gateway.front of {platform.platform} is {kind.value}"
            message = f"must be every region of the front, as {of}"
            note = Bare(f"nothing in {', '.join(lacking)}")
            yield InputError(join("models", name, "regions"), message, note)


def _check_router(platform: Platform, front: FrontPlan) -> Iterator[InputError]:
    where, router = "gateway.front_router", front.router
    if front.gateway.front is not Front.GLOBAL:
        rule = "must not be set unless gateway.front is global: its services are behind the global"
        yield InputError(where, f"{rule} load balancer")
        return
    if platform.layer is not Layer.ALL:
        rule = f"must not be set when layer is {platform.layer.value}: it needs the regions of"
        yield InputError(where, f"{rule} every model")
        return
    settings = front.gateway.front_router
    if settings is None or router is None:
        return
    if settings.min_instances > settings.max_instances:
        rule = f"must be at most max_instances ({settings.max_instances})"
        yield InputError(f"{where}.min_instances", rule, settings.min_instances)
    yield from _check_router_guard(platform, settings)
    for name, backend in settings.fallbacks.items():
        yield from _check_fallback(platform, join(where, "fallbacks", name), name, backend)
    for name, model in platform.models.items():
        if name in front.paths and model.live_adapters is not None:
            rule = "must not be set for a model that some regions do not serve, when"
            rule += f" {where} is set: the router knows no names of live adapters"
            yield InputError(join("models", name, "live_adapters"), rule)


def _check_router_guard(platform: Platform, settings: FrontRouter) -> Iterator[InputError]:
    """Yield the problem of a guardrail at the front."""
    where, name = "gateway.front_router.guardrail", settings.guardrail
    if name is None:
        return
    guardrail = platform.guardrails.get(name)
    if guardrail is None:
        yield one_of(where, name, sorted(platform.guardrails))
    elif guardrail.kind is not GuardrailKind.MODEL_ARMOR:
        rule = "must be of the kind model-armor: NeMo Guardrails run in the clusters"
        yield InputError(where, rule, name)
    elif guardrail.enforcement is Enforcement.INSPECT:
        rule = "must be a guardrail with enforcement block: the router reports nothing"
        yield InputError(where, rule, name)
    for model, each in platform.models.items():
        if each.task is Task.PREDICT:
            rule = "must not be predict when gateway.front_router.guardrail is set: no guardrail"
            yield InputError(join("models", model, "task"), f"{rule} reads tensors")


def _check_fallback(
    platform: Platform, where: str, name: str, backend: str
) -> Iterator[InputError]:
    """Yield the problem of a fallback at the front."""
    model = platform.models.get(name)
    if model is None:
        yield one_of(where, name, platform.models)
    elif backend not in platform.backends:
        yield one_of(where, backend, platform.backends)
    elif model.task not in (Task.GENERATE, Task.EMBED):
        rule = "must be for a model with task generate or embed, which backends have"
        yield InputError(where, rule, model.task.value)


_INTERNAL: Final = "when gateway.front is internal"
_NO_EXTENSIONS: Final = "the class of its Gateway has no extensions, which read requests"
_MOST_GROUPS: Final = 50
"""Network endpoint groups of a backend service: one per zone (limitations of the multi-cluster
inference gateway, docs.cloud.google.com/kubernetes-engine)."""


def check_fleet(platform: Platform, front: FrontPlan) -> Iterator[InputError]:
    """Yield the problems of a platform whose front is internal, and of its settings."""
    gateway = platform.gateway
    if not gateway.has_fleet_gateway:
        if gateway.fleet is not None:
            yield InputError("gateway.fleet", "must not be set unless gateway.front is internal")
        return
    if gateway.exposure is not Exposure.INTERNAL:
        message = f"must be internal {_INTERNAL}: its addresses are in the network"
        yield InputError("gateway.exposure", message, gateway.exposure.value)
    if platform.layer is not Layer.ALL:
        message = "must not be 'internal' unless layer is all: one stack exports and routes models"
        yield InputError("gateway.front", message)
    yield from _check_settings(platform, front)
    yield from _check_unread(platform)
    for name, model in platform.models.items():
        yield from _check_model(join("models", name), model)


def _check_settings(platform: Platform, front: FrontPlan) -> Iterator[InputError]:
    gateway = platform.gateway
    if gateway.publish is not None:
        message = (
            f"must not be set {_INTERNAL}: a service attachment needs the forwarding rule of its"
            " region, and Google documents no way to find that of a multi-cluster Gateway"
        )
        yield InputError("gateway.publish", message)
    region = None if gateway.fleet is None else gateway.fleet.config_region
    if region is not None and region not in front.regions:
        yield one_of("gateway.fleet.config_region", region, front.regions)
    zones = sum(len(platform.regions[name].zones) for name in front.regions)
    if zones > _MOST_GROUPS:
        message = f"must have at most {_MOST_GROUPS} zones in total {_INTERNAL}"
        yield InputError("regions", message, zones)
    if front.config_region is None:
        yield InputError("gateway.front", "needs a region with models", "internal")


def _check_unread(platform: Platform) -> Iterator[InputError]:
    """Everything that reads a request at the gateway needs an extension."""
    parts = {
        "backends": bool(platform.backends),
        "batches": platform.batches is not None,
        "clients": platform.clients is not None,
        "guardrails": bool(platform.guardrails),
        "pipelines": bool(platform.pipelines),
        "streams": bool(platform.streams),
        "teams": bool(platform.teams),
    }
    for field, is_set in parts.items():
        if is_set:
            yield InputError(field, f"must not be set {_INTERNAL}: {_NO_EXTENSIONS}")


def _check_model(where: str, model: Model) -> Iterator[InputError]:
    if model.task is not Task.GENERATE:
        message = f"must be generate {_INTERNAL}: only InferencePools are exported"
        yield InputError(join(where, "task"), message, model.task.value)
    for field in ("canary", "live_adapters"):
        if getattr(model, field) is not None:
            message = f"must not be set {_INTERNAL}: {_NO_EXTENSIONS}"
            yield InputError(join(where, field), message)
    metric = engine(model.engine).metrics.kv_cache
    if metric is None or "{" in metric:
        message = f"must be an engine with a metric of KV cache use {_INTERNAL}"
        yield InputError(join(where, "engine"), message, model.engine)

"""Rules about the gateway over a fleet: what its class supports, and what this platform exports."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from infra.plan.front import config_region, with_gateway
from infra.stack import Exposure, Front, Layer, Model, Platform, Task
from infra.stack.problems import join, one_of

_INTERNAL: Final = "when gateway.front is internal"
_NO_EXTENSIONS: Final = "the class of its Gateway has no extensions, which read requests"
_MOST_GROUPS: Final = 50
"""Network endpoint groups of a backend service: one per zone (limitations of the multi-cluster
inference gateway, docs.cloud.google.com/kubernetes-engine)."""


def check_fleet(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform whose front is internal, and of its settings."""
    gateway = platform.gateway
    if gateway.front is not Front.INTERNAL:
        if gateway.fleet is not None:
            yield InputError("gateway.fleet", "must not be set unless gateway.front is internal")
        return
    if gateway.exposure is not Exposure.INTERNAL:
        message = f"must be internal {_INTERNAL}: its addresses are in the network"
        yield InputError("gateway.exposure", message, gateway.exposure.value)
    if platform.layer is not Layer.ALL:
        message = "must not be 'internal' unless layer is all: one stack exports and routes models"
        yield InputError("gateway.front", message)
    yield from _check_settings(platform)
    yield from _check_unread(platform)
    for name, model in platform.models.items():
        yield from _check_model(join("models", name), model)


def _check_settings(platform: Platform) -> Iterator[InputError]:
    gateway = platform.gateway
    if gateway.publish is not None:
        message = (
            f"must not be set {_INTERNAL}: a service attachment needs the forwarding rule of its"
            " region, and Google documents no way to find that of a multi-cluster Gateway"
        )
        yield InputError("gateway.publish", message)
    region = None if gateway.fleet is None else gateway.fleet.config_region
    if region is not None and region not in with_gateway(platform):
        yield one_of("gateway.fleet.config_region", region, with_gateway(platform))
    zones = sum(len(platform.regions[name].zones) for name in with_gateway(platform))
    if zones > _MOST_GROUPS:
        message = f"must have at most {_MOST_GROUPS} zones in total {_INTERNAL}"
        yield InputError("regions", message, zones)
    if config_region(platform) is None:
        yield InputError("gateway.front", "needs a region with models", "internal")


def _check_unread(platform: Platform) -> Iterator[InputError]:
    """Everything that reads a request at the gateway needs an extension."""
    parts = {
        "backends": bool(platform.backends),
        "batches": platform.batches is not None,
        "clients": platform.clients is not None,
        "guardrails": bool(platform.guardrails),
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
    metric = engine(model.engine.value).metrics.kv_cache
    if metric is None or "{" in metric:
        message = f"must be an engine with a metric of KV cache use {_INTERNAL}"
        yield InputError(join(where, "engine"), message, model.engine.value)

"""Rules about backends: fields of their kind, unique names, and usable fallbacks."""

from collections.abc import Iterator

from gke_inference.backends.rules import check_target
from gke_inference.backends.settings import KindFields
from gke_inference.catalogue.engines import engine, engines_where
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from infra.stack import Backend, BackendKind, BackendTarget, Layer, Model, Platform, Task

_OF_ONE = ("kind", "model", "deploy", *KindFields.model_fields)


def check_backends(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's backends and fallbacks."""
    if platform.layer is not Layer.ALL and platform.backends:
        rule = f"must not be set when layer is {platform.layer.value}"
        yield InputError("backends", rule)
        return
    for name, backend in platform.backends.items():
        yield from _check_name(platform, name)
        yield from _check_places(join("backends", name), backend)
        yield from _check_idle(join("backends", name), backend)
    for name, model in platform.models.items():
        if model.fallback is not None:
            yield from _check_fallback(platform, name, model)


def _check_name(platform: Platform, name: str) -> Iterator[InputError]:
    taken = {
        *platform.models,
        *(each for served, m in platform.models.items() for each in m.other_names(served)),
    }
    if name in taken:
        where = join("backends", name)
        yield InputError(where, "must have a name that no model or adapter uses", name)


def _check_idle(where: str, backend: Backend) -> Iterator[InputError]:
    if backend.idle_seconds is not None and backend.idle_seconds >= backend.timeout_seconds:
        rule = f"must be less than timeout_seconds, {backend.timeout_seconds}"
        yield InputError(join(where, "idle_seconds"), rule, backend.idle_seconds)


def _check_places(where: str, backend: Backend) -> Iterator[InputError]:
    if backend.targets:
        for field in _OF_ONE:
            if getattr(backend, field) is not None:
                yield InputError(join(where, field), "must not be set together with 'targets'")
                return
        for at, target in enumerate(backend.targets):
            yield from _check_place(join(where, "targets", at), target)
        return
    for field in ("kind", "model"):
        if getattr(backend, field) is None:
            yield InputError(join(where, field), "is required without 'targets'")
            return
    yield from _check_place(where, backend.places[0])


def _check_place(where: str, target: BackendTarget) -> Iterator[InputError]:
    """Yield the first field that is invalid for a target's kind, or beside `deploy`."""
    if target.deploy is None:
        yield from check_target(where, target)
        return
    if target.kind is not BackendKind.CLOUD_RUN:
        rule = f"must not be set when kind is {target.kind.value}"
        yield InputError(join(where, "deploy"), rule)
        return
    for field in KindFields.model_fields:
        if getattr(target, field) is not None:
            rule = "must not be set together with 'deploy', whose service the stack creates"
            yield InputError(join(where, field), rule)
            return


def _check_fallback(platform: Platform, name: str, model: Model) -> Iterator[InputError]:
    fallback = model.fallback
    if fallback is None:
        return
    where = join("models", name, "fallback")
    if fallback.backend not in platform.backends:
        yield one_of(join(where, "backend"), fallback.backend, sorted(platform.backends))
        return
    rule = _unfit(model)
    if rule is not None:
        yield InputError(where, rule)
    prices = {} if platform.clients is None else platform.clients.prices
    price = prices.get(fallback.backend)
    if price is None or price.input_usd_per_million + price.output_usd_per_million == 0:
        rule = f"needs 'clients.prices' of {fallback.backend}"
        yield InputError(join(where, "monthly_usd"), rule, fallback.monthly_usd)


def _unfit(model: Model) -> str | None:
    """Return why a model cannot have a fallback, or None if it can."""
    if model.task is not Task.GENERATE or not engine(model.engine).fallbacks:
        able = " or ".join(each.title for each in engines_where(lambda facts: facts.fallbacks))
        return f"must not be set unless an endpoint picker compares the queues of {able}"
    if model.disaggregated is not None:
        return "must not be set when prefill and decode are disaggregated"
    if model.adapters or model.live_adapters is not None:
        return "must not be set when a model has adapters, which the backend does not have"
    if model.spanning is not None:
        return "must not be set when a replica spans several hosts"
    return None

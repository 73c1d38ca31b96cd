"""Rules about guardrails: fields of their kind, and references where they can apply."""

from collections.abc import Iterator
from typing import Any, cast

import yaml

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.user_yaml import user_yaml
from gke_inference.guardrails.rules import check_files
from infra.plan.guardrails import guardrails_in_use, rails_of
from infra.stack import Guardrail, GuardrailKind, Layer, Platform, Task

_OWN = {
    GuardrailKind.MODEL_ARMOR: ("enforcement", "filters", "floor"),
    GuardrailKind.NEMO: ("config", "phases", "replicas"),
}


def check_guardrails(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's guardrails."""
    if platform.layer is Layer.SERVING:
        for name, model in platform.models.items():
            if model.guardrails:
                rule = "must not be set when layer is serving: the gateway is the platform's"
                yield InputError(join("models", name, "guardrails"), rule)
        return
    for name, guardrail in platform.guardrails.items():
        yield from _check_kind(join("guardrails", name), guardrail)
    floors = [name for name, guardrail in platform.guardrails.items() if guardrail.floor]
    for name in floors[1:]:
        rule = f"must be true only once: a project has one floor, that of {floors[0]!r}"
        yield InputError(join("guardrails", name, "floor"), rule)
    named = [*_check_models(platform), *_check_teams(platform)]
    yield from named
    if not named:
        yield from _check_used(platform)


def _check_used(platform: Platform) -> Iterator[InputError]:
    named = guardrails_in_use(platform)
    for name, guardrail in platform.guardrails.items():
        if name not in named and not guardrail.floor:
            rule = "must be used by a model, a team or gateway.front_router: it checks nothing"
            yield InputError(join("guardrails", name), rule)


def _check_kind(where: str, guardrail: Guardrail) -> Iterator[InputError]:
    for kind, fields in _OWN.items():
        for field in fields:
            if kind is not guardrail.kind and field in guardrail.model_fields_set:
                rule = f"must not be set when kind is {guardrail.kind.value}"
                yield InputError(join(where, field), rule)
    if guardrail.kind is GuardrailKind.NEMO:
        yield from _check_rails(where, guardrail)
        return
    filters = guardrail.filters
    if filters is None:
        yield InputError(f"{where}.filters", "is required when kind is model-armor")
    elif not any(filters.model_dump().values()):
        yield InputError(f"{where}.filters", "must have a filter that is on", Bare("none"))


def _check_rails(where: str, guardrail: Guardrail) -> Iterator[InputError]:
    try:
        files = rails_of(guardrail)
    except ValueError as error:
        yield InputError(f"{where}.config", str(error))
        return
    if guardrail.config is None:
        return
    problems = list(check_files(f"{where}.config", files))
    yield from problems
    if problems:
        return
    try:
        found: Any = user_yaml(files["config.yml"])
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        yield InputError(f"{where}.config", f"must have YAML in config.yml: {reason}")
        return
    for phase in guardrail.phases:
        if not _flows(found, phase.value):
            rule = f"must have rails.{phase.value}.flows in config.yml, as phases has it"
            yield InputError(f"{where}.config", rule, Bare("none"))


def _flows(config: Any, phase: str) -> Any:
    for key in ("rails", phase, "flows"):
        if not isinstance(config, dict):
            return None
        config = cast("dict[str, Any]", config).get(key)
    return config


def _check_models(platform: Platform) -> Iterator[InputError]:
    for model, settings in platform.models.items():
        if settings.guardrails and settings.live_adapters is not None:
            rule = "must not be set with live_adapters: guardrails do not know their names"
            yield InputError(join("models", model, "guardrails"), rule)
        armor: list[str] = []
        for at, name in enumerate(settings.guardrails):
            where = join("models", model, "guardrails", at)
            guardrail = platform.guardrails.get(name)
            if guardrail is None:
                yield one_of(where, name, sorted(platform.guardrails))
            elif guardrail.kind is GuardrailKind.MODEL_ARMOR:
                armor.append(name)
                if settings.task is not Task.GENERATE:
                    rule = f"must be of kind nemo when task is {settings.task.value}"
                    yield InputError(where, rule, name)
                if len(armor) > 1:
                    rule = "must be the only one of kind model-armor: a model has one template"
                    yield InputError(where, rule, name)
            elif platform.gated_clients() is None:
                rule = (
                    "needs 'clients.teams': guards of kind nemo are called by the gate of clients"
                )
                yield InputError(where, rule, name)


def _check_teams(platform: Platform) -> Iterator[InputError]:
    teams = {} if platform.clients is None else platform.clients.teams
    for team, settings in teams.items():
        for at, name in enumerate(settings.guardrails):
            where = join("clients", "teams", team, "guardrails", at)
            guardrail = platform.guardrails.get(name)
            if guardrail is None:
                yield one_of(where, name, sorted(platform.guardrails))
            elif guardrail.kind is GuardrailKind.MODEL_ARMOR:
                rule = "must be of kind nemo: the load balancer knows models, not teams"
                yield InputError(where, rule, name)

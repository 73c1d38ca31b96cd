"""Rules about predictive models: what counts or reads text does not apply to tensors."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from infra.stack import Clients, ClientTeam, Front, Model, Platform, Task

_TOKEN_LIMITS = ("tokens_per_minute", "tokens_per_month", "monthly_usd")
_TOKEN_TARGETS = ("kv_cache_percent", "running_requests")
_TOKEN_TIMES = ("ttft_p95_ms", "tpot_p95_ms")


def check_predictive(platform: Platform) -> Iterator[InputError]:
    """Yield what a platform's predictive models contradict."""
    predictive = [name for name, model in platform.models.items() if model.task is Task.PREDICT]
    for name in predictive:
        yield from _check_model(name, platform.models[name])
        if platform.models[name].grpc and platform.gateway.certificate is None:
            rule = (
                "must be false without gateway.certificate: clients and load balancers agree on"
                " HTTP/2 in the TLS handshake"
            )
            yield InputError(join("models", name, "grpc"), rule, True)
        elif platform.models[name].grpc and platform.gateway.front is Front.GLOBAL:
            rule = "must be false with gateway.front global: it reaches regions over HTTP/1.1"
            yield InputError(join("models", name, "grpc"), rule, True)
    if predictive and platform.clients is not None:
        yield from _check_clients(platform.clients, predictive)


def _check_model(name: str, model: Model) -> Iterator[InputError]:
    where, is_predict = join("models", name), f"when task is {model.task.value}"
    if model.guardrails:
        rule = f"must not be set {is_predict}: guardrails read text, not tensors"
        yield InputError(join(where, "guardrails"), rule, ", ".join(model.guardrails))
    for field in _TOKEN_TARGETS:
        if field in model.autoscaling.model_fields_set:
            rule = f"must not be set {is_predict}: the autoscaler follows the queue"
            value = getattr(model.autoscaling, field)
            yield InputError(join(where, "autoscaling", field), rule, value)
    for field in _TOKEN_TIMES:
        value = None if model.slo is None else getattr(model.slo, field)
        if value is not None:
            rule = f"must not be set {is_predict}: there are no tokens"
            yield InputError(join(where, "slo", field), rule, value)


def _check_clients(clients: Clients, predictive: list[str]) -> Iterator[InputError]:
    if clients.apigee is not None:
        rule = "must not be set with a model of task predict: its products have no such path"
        yield InputError("clients.apigee", rule, predictive[0])
        return
    for name in predictive:
        if name in clients.prices:
            rule = "must be of a model with tokens, and the task of this one is predict"
            yield InputError(join("clients", "prices", name), rule)
    for team, settings in clients.teams.items():
        called = [name for name in predictive if settings.may_ask(name)]
        if called:
            yield from _check_team(join("clients", "teams", team), settings, called[0])


def _check_team(where: str, team: ClientTeam, model: str) -> Iterator[InputError]:
    """A team would otherwise have no limit on a model, although it has one on others."""
    limited = [field for field in _TOKEN_LIMITS if getattr(team, field) is not None]
    if limited and team.requests_per_minute is None:
        rule = (
            f"must be set with {limited[0]}: requests to {model} (task predict) have no tokens, so"
            " that no other limit applies to them"
        )
        yield InputError(join(where, "requests_per_minute"), rule, None)
    if team.guardrails:
        rule = f"must not be set when the team may call {model} (task predict): guardrails read"
        yield InputError(
            join(where, "guardrails"), f"{rule} text, not tensors", ", ".join(team.guardrails)
        )

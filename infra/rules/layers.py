"""Rules about layers: a stack sets what its layer makes, and a team stays within its share."""

from collections.abc import Iterator
from typing import Any, Final

from gke_inference.catalogue.input_error import InputError
from infra.plan import Plan, ServedModel
from infra.plan.names import GATEWAY_NAMESPACE, Names
from infra.stack import Form, Layer, Platform, Team
from infra.stack.problems import join, one_of

_OF_MODELS: Final = (
    "alerts",
    "cost_limit_usd_per_hour",
    "dashboards",
    "notify",
    "runbooks_url",
    "scrape_seconds",
)
"""Fields of `monitoring` that are about models."""
_SYSTEM: Final = ("gke-", "gmp-", "kube-")
_TAKEN: Final = ("default", GATEWAY_NAMESPACE)


def check_layer(platform: Platform) -> Iterator[InputError]:
    """Yield what a stack sets that its layer has no use for, and what it lacks."""
    if platform.layer is Layer.PLATFORM:
        yield from _check_platform(platform)
    else:
        yield from _check_models(platform)
    if platform.layer is Layer.ALL:
        for field in ("platform", "team", "teams"):
            if field in platform.model_fields_set:
                yield _left_out(platform, field)
    if platform.layer is Layer.SERVING:
        yield from _check_team(platform)


def check_share(plan: Plan) -> Iterator[InputError]:
    """Yield the models of a team that its share of the platform cannot hold.

    Args:
        plan: A stack without any other fault, resolved.
    """
    platform = plan.platform
    team = platform.teams.get(platform.team or "")
    if platform.layer is not Layer.SERVING or team is None:
        return
    for name, region in plan.regions.items():
        for kind, allowed in (("tpu", team.chips.tpu), ("gpu", team.chips.gpu)):
            least = sum(_least_chips(served, kind) for served in region.served)
            if least > allowed:
                share = f"teams.{platform.team}.chips.{kind} of {platform.platform}"
                message = f"must take at most {allowed} {kind.upper()} chips in {name} ({share})"
                note = " where every model has its fewest replicas"
                yield InputError("models", message, least, note)


def _left_out(platform: Platform, *way: str, value: Any = None) -> InputError:
    message = f"must be left out where layer is {platform.layer.value}"
    path = join(*way)
    return InputError(path, message) if value is None else InputError(path, message, value)


def _check_models(platform: Platform) -> Iterator[InputError]:
    if platform.models:
        return
    if "models" in platform.model_fields_set:
        yield InputError("models", "must have at least 1 entries", 0)
    else:
        yield InputError("models", "is required: Models by the name that clients ask for")


def _check_platform(platform: Platform) -> Iterator[InputError]:
    for field in ("models", "platform", "team"):
        if field in platform.model_fields_set:
            yield _left_out(platform, field)
    for field in _OF_MODELS:
        if field in platform.monitoring.model_fields_set:
            yield _left_out(platform, "monitoring", field)
    if platform.existing.namespace is not None:
        yield _left_out(platform, "existing", "namespace", value=platform.existing.namespace)
    if not platform.teams:
        yield InputError("teams", "is required where layer is platform: Who shares the platform")
    owners: dict[str, str] = {}
    for name, team in platform.teams.items():
        where = join("teams", name)
        if name.startswith(_SYSTEM) or name in _TAKEN:
            yield InputError(where, "must not be a namespace that has another use", name)
        yield from _check_host(platform, where, team, owners)
        if team.hostname is not None:
            owners.setdefault(team.hostname, name)
        yield from _check_caches(platform, where, name)


def _check_host(
    platform: Platform, where: str, team: Team, owners: dict[str, str]
) -> Iterator[InputError]:
    host, gateway, path = team.hostname, platform.gateway, f"{where}.hostname"
    if host is None:
        return
    if gateway.certificate is None:
        yield InputError(path, "needs 'gateway.certificate'", host, " without one")
    elif gateway.issue_certificate:
        message = "must be left out where gateway.issue_certificate is true: it is for one host"
        yield InputError(path, message, host)
    if host == gateway.hostname:
        yield InputError(path, "must be another host than gateway.hostname", host)
    if host in owners:
        yield InputError(path, "must be a host of its own", host, f", that of {owners[host]}")


def _check_caches(platform: Platform, where: str, team: str) -> Iterator[InputError]:
    """Yield the team whose bucket of caches has no name that Google takes."""
    for region in platform.regions:
        try:
            Names(platform).bucket("caches", region, team)
        except ValueError as error:
            yield InputError(where, f"gives its bucket a name that {error}")
            return


def _check_team(platform: Platform) -> Iterator[InputError]:
    team = platform.teams.get(platform.team or "")
    if team is None:
        yield one_of("team", str(platform.team), platform.teams)
        return
    for name, model in platform.models.items():
        where = join("models", name)
        if model.disk is not None:
            message = "must be left out where layer is serving: a disk is the platform's to make"
            yield InputError(f"{where}.disk", message)
        guess, canary = model.settings.speculative, model.canary
        for path, weights in (
            (f"{where}.weights", model.weights),
            (f"{where}.canary.weights", None if canary is None else canary.weights),
            (f"{where}.settings.speculative.weights", None if guess is None else guess.weights),
        ):
            yield from _check_bucket(platform, path, weights, team)
        is_known = model.capacity in platform.capacity
        if is_known and platform.form_of(model) is Form.DUAL_CONTAINER and not team.privileged:
            of = f"teams.{platform.team}.privileged of {platform.platform}"
            message = f"must be another form, as {of} is false"
            yield InputError(f"{where}.form", message, Form.DUAL_CONTAINER.value)


def _check_bucket(
    platform: Platform, path: str, weights: str | None, team: Team
) -> Iterator[InputError]:
    if weights is None or not weights.startswith("gs://"):
        return
    bucket = weights.split("/")[2]
    own = {Names(platform).bucket("models", region) for region in platform.regions}
    if bucket not in own and bucket not in team.buckets:
        of = f"teams.{platform.team}.buckets of {platform.platform}"
        yield InputError(path, f"must be in the platform's bucket or one of {of}", weights)


def _least_chips(served: ServedModel, kind: str) -> int:
    """Return the chips of a kind that a model always has: 0 where it may run on the other kind."""
    total = 0
    for role in served.roles:
        if role.form is Form.DUAL_CONTAINER:
            continue
        chips = [rung.chips for rung in role.capacity.of_kind(kind).values()]
        fills = role.form is Form.PAIRED and kind == "gpu"
        total += min(chips, default=0) * (role.standby if fills else role.minimum)
    return total

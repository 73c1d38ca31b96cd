"""Rules about layers: a stack sets only what its layer deploys, and a team stays within its quota.

They include delivery, since the objects of a serving stack can come from git.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.gateway.rules import check_hostnames
from infra.plan import Plan, ServedModel
from infra.plan.names import GATEWAY_NAMESPACE, bucket_in, resolve_names
from infra.stack import (
    Delivery,
    DeliveryKind,
    DeliverySource,
    DeliverySourceKind,
    DeliveryTool,
    Form,
    Layer,
    Platform,
    Team,
)

_OF_MODELS: Final = (
    "alerts",
    "cost_limit_usd_per_hour",
    "dashboards",
    "notify",
    "runbooks_url",
    "scrape_seconds",
)
"""Fields of `monitoring` that concern models."""
_SYSTEM: Final = ("gke-", "gmp-", "kube-")
_REPOSITORY: Final = re.compile(r"(https://|ssh://)[^\s/]+/\S+|[\w.-]+@[\w.-]+:\S+")
_LOGIN: Final = re.compile(r"(https?://)[^\s/]*@")
_LOCAL_REPOSITORY: Final = re.compile(r"(file://|http://[^\s/]+)/\S+")
_ARTIFACT: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+:[\w][\w.-]{0,127}")
_LOCAL_ARTIFACT: Final = re.compile(r"file:///\S+:[\w][\w.-]{0,127}")
_FOLDER: Final = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[\w.-]+(/[\w.-]+)*")
_TAKEN: Final = ("default", GATEWAY_NAMESPACE)


def check_layer(platform: Platform) -> Iterator[InputError]:
    """Yield fields that do not apply to a stack's layer, and missing fields that do."""
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
    yield from _check_delivery(platform)


def check_share(plan: Plan) -> Iterator[InputError]:
    """Yield the models of a team that do not fit into its quota of the platform.

    Args:
        plan: A resolved stack without other problems.
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
                note = " with the minimum replicas of every model"
                yield InputError("models", message, least, note)


def _left_out(platform: Platform, *fields: str, value: Any = None) -> InputError:
    message = f"must not be set when layer is {platform.layer.value}"
    path = join(*fields)
    return InputError(path, message) if value is None else InputError(path, message, value)


def _check_models(platform: Platform) -> Iterator[InputError]:
    if platform.models:
        return
    if "models" in platform.model_fields_set:
        yield InputError("models", "must have at least 1 entry", 0)
    else:
        yield InputError("models", "is required: Models, by the name that clients request")


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
        yield InputError("teams", "is required when layer is platform: Teams on the platform")
    hosts = {
        join("teams", name, "hostname"): team.hostname for name, team in platform.teams.items()
    }
    yield from check_hostnames({"gateway.hostname": platform.gateway.hostname}, hosts)
    for name, team in platform.teams.items():
        where = join("teams", name)
        if name.startswith(_SYSTEM) or name in _TAKEN:
            yield InputError(where, "must not be a namespace with another purpose", name)
        yield from _check_host(platform, where, team)
        yield from _check_caches(platform, where, name)


def _check_host(platform: Platform, where: str, team: Team) -> Iterator[InputError]:
    host, gateway, path = team.hostname, platform.gateway, f"{where}.hostname"
    if host is None:
        return
    if gateway.certificate is None:
        yield InputError(path, "needs 'gateway.certificate'", host, " without one")
    elif gateway.issue_certificate:
        message = "must not be set when gateway.issue_certificate is true: it is for one host"
        yield InputError(path, message, host)


def _check_caches(platform: Platform, where: str, team: str) -> Iterator[InputError]:
    """Yield teams whose cache bucket would have an invalid name."""
    for region in platform.regions:
        try:
            resolve_names(platform).bucket("caches", region, team)
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
            message = "must not be set when layer is serving: the platform's stack creates the disk"
            yield InputError(f"{where}.disk", message)
        for field, weights in model.weights_by_field().items():
            yield from _check_bucket(platform, f"{where}.{field}", weights, team)
        is_known = model.capacity in platform.capacity
        if is_known and platform.form_of(model) is Form.DUAL_CONTAINER and not team.privileged:
            of = f"teams.{platform.team}.privileged of {platform.platform}"
            message = f"must be another form, as {of} is false"
            yield InputError(f"{where}.form", message, Form.DUAL_CONTAINER.value)


def _check_bucket(platform: Platform, path: str, weights: str, team: Team) -> Iterator[InputError]:
    bucket = bucket_in(weights)
    own = {resolve_names(platform).bucket("models", region) for region in platform.regions}
    if bucket is not None and bucket not in own and bucket not in team.buckets:
        of = f"teams.{platform.team}.buckets of {platform.platform}"
        yield InputError(path, f"must be in the platform's bucket or one of {of}", weights)


def _check_delivery(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a stack's delivery settings."""
    delivery, layer = platform.delivery, platform.layer
    if delivery.kind is DeliveryKind.PULUMI:
        for field, value in (("with", delivery.tool), ("source", delivery.source)):
            if value is not None and (field != "with" or layer is not Layer.SERVING):
                message = "must not be set when delivery.kind is pulumi"
                yield InputError(f"delivery.{field}", message)
        return
    if layer is Layer.ALL:
        message = "must be pulumi when layer is all: only a serving stack is delivered from git"
        yield InputError("delivery.kind", message, delivery.kind.value)
    elif layer is Layer.PLATFORM:
        if delivery.source is not None:
            message = "must not be set when layer is platform: each serving stack has its own"
            yield InputError("delivery.source", message)
    elif delivery.tool is None:
        message = f"must be pulumi, as that of {platform.platform} is"
        yield InputError("delivery.kind", message, delivery.kind.value)
    elif delivery.source is None:
        yield InputError("delivery.source", "is required when delivery.kind is gitops")
    else:
        yield from _check_source(platform, delivery, delivery.source)


def _check_source(
    platform: Platform, delivery: Delivery, source: DeliverySource
) -> Iterator[InputError]:
    """Yield the problems of the source of the object tree."""
    where, is_git = "delivery.source", source.kind is DeliverySourceKind.GIT
    own, others = ("repo", ("image",)) if is_git else ("image", ("repo", "branch", "secret"))
    if getattr(source, own) is None:
        yield InputError(f"{where}.{own}", f"is required when kind is {source.kind.value}")
    elif problem := _unreadable(platform, own, str(getattr(source, own))):
        yield problem
    for field in others:
        if getattr(source, field) is not None:
            message = f"must not be set when kind is {source.kind.value}"
            yield InputError(f"{where}.{field}", message, getattr(source, field))
    if source.directory and not _FOLDER.fullmatch(source.directory):
        message = "must be a folder such as clusters/prod, without . and .."
        yield InputError(f"{where}.directory", message, source.directory)
    if is_git and source.secret is not None and delivery.tool is DeliveryTool.ARGO_CD:
        message = "must not be set when the platform uses argo-cd, which has its own credentials"
        yield InputError(f"{where}.secret", message, source.secret)


def _unreadable(platform: Platform, field: str, value: str) -> InputError | None:
    """Return why a source is invalid. Stacks without protection may use a local one."""
    if login := _LOGIN.match(value):
        message = "must not contain a user or password: use a Secret in delivery.source.secret"
        return InputError(f"delivery.source.{field}", message, f"{login[1]}…@")
    known, local, words = {
        "image": (_ARTIFACT, _LOCAL_ARTIFACT, "HOST/PATH:TAG"),
        "repo": (_REPOSITORY, _LOCAL_REPOSITORY, "https://…, ssh://… or git@HOST:PATH"),
    }[field]
    if known.fullmatch(value) or (not platform.protection and local.fullmatch(value)):
        return None
    note = " where protection is on" if local.fullmatch(value) else ""
    return InputError(f"delivery.source.{field}", f"must be {words}{note}", value)


def _least_chips(served: ServedModel, kind: str) -> int:
    """Return the minimum chips of a kind that a model uses, 0 if it may run on the other kind."""
    total = 0
    for role in served.roles:
        if role.form in {Form.DRA, Form.DUAL_CONTAINER}:
            continue
        chips = [rung.chips for rung in role.capacity.of_kind(kind).values()]
        fills = kind == role.filling_kind
        total += min(chips, default=0) * (role.standby if fills else role.replicas.min)
    return total

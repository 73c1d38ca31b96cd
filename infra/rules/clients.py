"""Rules about clients: open endpoints must be intentional, and limits must refer to known names."""

import math
import re
from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.clients.people import IAP_HEADER, IAP_ISSUER, IAP_KEYS
from gke_inference.clients.rules import (
    check_cached,
    check_issuers,
    check_prices,
    check_team_of_people,
    check_when_spent,
)
from gke_inference.clients.settings import ANONYMOUS
from gke_inference.front.rules import check_members
from gke_inference.settings.fields import AUDIENCE
from gke_inference.sizing.shapes import sees
from infra.plan.clients import generating, replaced_names, team_in
from infra.rules.certificates import check_certificates
from infra.stack import (
    Apigee,
    Clients,
    ClientTeam,
    Counters,
    Exposure,
    Front,
    Layer,
    Model,
    Pipeline,
    Platform,
    StoreNodes,
    Stream,
    Task,
    TokenIssuer,
    TokenPrice,
)

_IAP: Final = {"issuer": IAP_ISSUER, "jwks_uri": IAP_KEYS}


def check_key_secret(
    platform: Platform, where: str, key_secret: str | None
) -> Iterator[InputError]:
    """Yield the problem of a program that asks models without a key where requests need one.

    Args:
        platform: The platform.
        where: Path of the program's settings.
        key_secret: Its `key_secret`.
    """
    clients = platform.gated_clients()
    if clients is not None and clients.anonymous is None and key_secret is None:
        rule = "is required when clients have teams: requests without a key get 401"
        yield InputError(join(where, "key_secret"), rule)


def check_asking(
    platform: Platform, where: str, settings: Pipeline | Stream
) -> Iterator[InputError]:
    """Yield the problems of the model, region and key of a program that asks one model."""
    model = platform.models.get(settings.model)
    if model is None:
        yield one_of(join(where, "model"), settings.model, sorted(platform.models))
        return
    regions = list(platform.regions_of(model))
    if settings.region is not None and settings.region not in regions:
        yield one_of(join(where, "region"), settings.region, regions)
    yield from check_key_secret(platform, where, settings.key_secret)


def check_clients(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's clients, which also apply to its teams."""
    if platform.layer is Layer.SERVING:
        return
    clients = platform.clients
    if clients is None:
        if platform.gateway.exposure is Exposure.EXTERNAL:
            rule = (
                "is required when gateway.exposure is external: Who may call the models, or why "
                "everybody may (clients.anonymous)"
            )
            yield InputError("clients", rule)
        return
    if clients.apigee is not None:
        yield from check_apigee(platform)
        return
    if not clients.teams and clients.anonymous is None:
        rule = "must have a team, or 'anonymous' with the reason why everyone may call"
        yield InputError("clients.teams", rule, 0)
        return  # other settings speak of teams
    if ANONYMOUS in clients.teams and clients.anonymous is None:
        where = join("clients", "teams", ANONYMOUS)
        rule = "needs 'clients.anonymous': it is the team of requests without a credential"
        yield InputError(where, rule)
    unknown = list(_check_models(platform, clients))
    yield from unknown
    if not unknown:
        yield from check_prices("clients", clients.teams, clients.prices, _names(platform))
    yield from check_when_spent("clients", clients.teams)
    yield from _check_when_spent(platform, clients)
    yield from _check_regional(platform, clients)
    yield from _check_shares(platform, clients)
    yield from _check_priorities(platform, clients)
    yield from _check_proofs(platform, clients)
    yield from check_certificates(platform, clients)
    yield from check_people(platform, clients)
    yield from _check_cache(platform, clients)


def _names(platform: Platform) -> set[str] | None:
    """Return the names that clients may request, or None if not known in advance."""
    is_open = any(model.live_adapters is not None for model in platform.models.values())
    if platform.layer is Layer.PLATFORM or is_open:
        return None
    others = [name for served, m in platform.models.items() for name in m.other_names(served)]
    return {*platform.models, *others, *platform.backends}


def _check_models(platform: Platform, clients: Clients) -> Iterator[InputError]:
    names = _names(platform)
    if names is None:
        return
    for team, settings in clients.teams.items():
        for at, name in enumerate(settings.models or ()):
            if name not in names:
                yield one_of(join("clients", "teams", team, "models", at), name, sorted(names))
    for name in clients.prices:
        if name not in names:
            yield one_of(join("clients", "prices", name), name, sorted(names))


def _check_when_spent(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """The model of a spent budget answers wherever, however and whatever the others answer."""
    models = generating(platform)
    for team, settings in clients.teams.items():
        spent, where = settings.when_spent, join("clients", "teams", team, "when_spent")
        if spent is None:
            continue
        if platform.layer is Layer.PLATFORM:
            rule = "must not be set when layer is platform: the models are in their own stacks"
            yield InputError(where, rule)
            continue
        allowed = sorted(filter(settings.may_ask, models))
        if spent.model not in allowed:
            yield one_of(join(where, "model"), spent.model, allowed)
            continue
        replaced = replaced_names(platform, settings)
        if not replaced:
            rule = "needs a model of the team that it answers for: another one that generates text"
            yield InputError(where, rule)
        for name in replaced:
            for problem in _no_substitute(platform, clients, spent.model, name):
                yield InputError(join(where, "model"), problem, spent.model, f", for {name}")


def _no_substitute(platform: Platform, clients: Clients, name: str, replaced: str) -> Iterator[str]:
    """Yield the rules that a model breaks as one that answers for another one."""
    known, prices = generating(platform), clients.prices
    model, other = known[name], known.get(replaced)
    if name in prices and replaced in prices:
        own, its = (_usd(prices[one]) for one in (name, replaced))
        if own == its or own[0] > its[0] or own[1] > its[1]:
            yield "must have a lower price in clients.prices than each model that it answers for"
    regions = platform.regions_with_gateway() if other is None else platform.regions_of(other)
    if missing := sorted({*regions} - {*platform.regions_of(model)}):
        yield f"must run in every region of what it answers for, also in {missing[0]}"
    if other is None:
        return
    if model.context < other.context:
        yield f"must have at least the context of what it answers for, {other.context}"
    if _has_all_apis(other) and not _has_all_apis(model):
        yield "must serve /v1/responses and /v1/messages, as what it answers for"
    if sees(other.weights, replaced) and sees(model.weights, name) is False:
        yield "must accept images, as what it answers for"
    if unchecked := sorted({*other.guardrails} - {*model.guardrails}):
        yield f"must have the guardrails of what it answers for, also {unchecked[0]}"


def _usd(price: TokenPrice) -> tuple[float, float]:
    return price.input_usd_per_million, price.output_usd_per_million


def _has_all_apis(model: Model) -> bool:
    """Return whether a model serves the Responses and the Messages API: engines have both or none.

    The picker of prefill and decode replicas reads neither.
    """
    return engine(model.engine).responses and model.disaggregated is None


def _check_regional(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Limits of a region replace those of the team, so each must name one."""
    for team, settings in clients.teams.items():
        for region, limits in settings.regional.items():
            where = join("clients", "teams", team, "regional", region)
            if region not in platform.regions:
                yield one_of(where, region, platform.regions)
            elif not limits.model_fields_set:
                yield InputError(where, "must have a limit", Bare("none"))


def _check_shares(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Shares replace equal parts, so each region has one, and a limit of at least one unit."""
    regions = platform.regions_with_gateway()
    for team, settings in clients.teams.items():
        where = join("clients", "teams", team, "monthly_shares")
        shares = settings.monthly_shares
        unknown = [region for region in shares if region not in regions]
        total = sum(shares.values())
        if shares and settings.monthly_usd is None and settings.tokens_per_month is None:
            yield InputError(where, "needs 'monthly_usd' or 'tokens_per_month'")
        elif unknown:
            yield one_of(join(where, unknown[0]), unknown[0], regions)
        elif shares and len(shares) < len(regions):
            missing = ", ".join(region for region in regions if region not in shares)
            rule = "must have a share for every region with a gateway"
            yield InputError(where, rule, Bare(f"none for {missing}"))
        elif zero := [region for region, share in shares.items() if share <= 0]:
            yield InputError(join(where, zero[0]), "must be more than 0", shares[zero[0]])
        elif shares and not math.isclose(total, 1, abs_tol=1e-6):
            yield InputError(where, "must add up to 1", round(total, 6))
        else:
            yield from _check_parts(platform, team, settings)


def _check_parts(platform: Platform, team: str, settings: ClientTeam) -> Iterator[InputError]:
    """A limit of 0 would be none."""
    regions = platform.regions_with_gateway()
    for field in ("monthly_usd", "tokens_per_month"):
        parts = {region: getattr(team_in(settings, region, regions), field) for region in regions}
        if (none := [region for region, part in parts.items() if part == 0]) != []:
            rule = f"must give {none[0]} at least one cent (or token)"
            where = join("clients", "teams", team, field)
            yield InputError(where, rule, getattr(settings, field))
    for region in regions:
        spent = team_in(settings, region, regions).when_spent
        if spent is not None and spent.monthly_usd == 0 and settings.when_spent is not None:
            where = join("clients", "teams", team, "when_spent", "monthly_usd")
            rule = f"must give {region} at least one cent"
            yield InputError(where, rule, settings.when_spent.monthly_usd)
            return


def _check_priorities(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """A priority is an InferenceObjective of a pool, and only its serving stack knows the pool."""
    if platform.layer is not Layer.PLATFORM:
        return
    for team, settings in clients.teams.items():
        if "priority" in settings.model_fields_set:
            where = join("clients", "teams", team, "priority")
            rule = "must not be set when layer is platform: models and their priorities are in"
            rule += " other stacks"
            yield InputError(where, rule, settings.priority.value)


def _check_cache(platform: Platform, clients: Clients) -> Iterator[InputError]:
    cache = clients.cache
    teams = [name for name, team in clients.teams.items() if team.cached_answers]
    yield from check_cached("clients", clients.teams, has_cache=cache is not None)
    if cache is None:
        return
    if not teams:
        rule = "needs a team with 'cached_answers': true: answers are cached only for those"
        yield InputError("clients.cache", rule)
    if ANONYMOUS in teams:
        where = join("clients", "teams", ANONYMOUS, "cached_answers")
        rule = "must be false: strangers would get each other's answers"
        yield InputError(where, rule, value=True)
    if platform.layer is Layer.PLATFORM:
        rule = "must not be set when layer is platform: the models are in their own stacks"
        yield InputError("clients.cache", rule)
        return
    if cache.store.node_type is StoreNodes.NANO:
        rule = "must be standard-small or larger: searches need more than a shared core"
        yield InputError("clients.cache.store.node_type", rule, cache.store.node_type.value)
    embedding = [name for name, model in platform.models.items() if model.task is Task.EMBED]
    where = "clients.cache.embeddings"
    if cache.embeddings not in embedding:
        found = f", and the stack has {', '.join(sorted(embedding)) or 'none'}"
        yield InputError(where, "must be a model with task: embed", cache.embeddings, found)
        return
    known = generating(platform)
    for at, name in enumerate(cache.models or ()):
        if name not in known:
            yield one_of(join("clients", "cache", "models", at), name, sorted(known))
    has = set(platform.regions_of(platform.models[cache.embeddings]))
    asked = {
        region
        for name in cache.models or known
        if name in known
        for region in platform.regions_of(known[name])
    }
    if lacking := sorted(asked - has):
        rule = "must be a model in every region with cached answers"
        yield InputError(where, rule, cache.embeddings, f", which is not in {', '.join(lacking)}")


def _check_proofs(platform: Platform, clients: Clients) -> Iterator[InputError]:
    for at, issuer in enumerate(clients.issuers):
        if issuer.header == IAP_HEADER:
            yield from _check_iap(platform, join("clients", "issuers", at), issuer)
    yield from check_issuers("clients", clients.issuers, clients.teams)
    if clients.counters is Counters.LOCAL and "store" in clients.model_fields_set:
        yield InputError("clients.store", "must not be set when counters is local")
    for at, location in enumerate(clients.key_locations):
        if location not in platform.regions:
            path = join("clients", "key_locations", at)
            yield one_of(path, location, sorted(platform.regions))


def _check_iap(platform: Platform, where: str, issuer: TokenIssuer) -> Iterator[InputError]:
    """Its tokens have one issuer, whose keys have one address."""
    if platform.gateway.front is not Front.GLOBAL:
        rule = (
            f"must not be {IAP_HEADER} unless gateway.front is global: Identity-Aware Proxy in"
            " front of an InferencePool is not documented"
        )
        yield InputError(join(where, "header"), rule)
    for field, wanted in _IAP.items():
        if (found := getattr(issuer, field)) != wanted:
            yield InputError(join(where, field), f"must be {wanted} with {IAP_HEADER}", found)
    for at, audience in enumerate(issuer.audiences):
        if not re.fullmatch(AUDIENCE, audience):
            rule = f"must be /projects/NUMBER/global/backendServices/ID with {IAP_HEADER}"
            yield InputError(join(where, "audiences", at), rule, audience)


_ALONE: Final = "must not be set with clients.apigee"
_OF_THE_GATE: Final = sorted(set(Clients.model_fields) - {"apigee"})
"""Settings of the gate, which Apigee replaces: all others, also those that will be added."""


def check_apigee(platform: Platform) -> Iterator[InputError]:
    """Yield the settings that Apigee excludes: a Gateway calls one program in place of the gate."""
    clients = platform.clients
    if clients is None:
        return
    for field in _OF_THE_GATE:
        if field in clients.model_fields_set:
            message = f"{_ALONE}: Apigee checks requests in place of the gate"
            yield InputError(f"clients.{field}", message)
    if clients.apigee is not None:
        yield from _check_apps(clients.apigee)
    if platform.guardrails:
        message = f"{_ALONE}: a Gateway has one traffic extension, and it calls Apigee"
        yield InputError("guardrails", message)
    callers = {
        "batches": platform.batches is not None,
        "optimization": platform.optimization is not None,
        "personal_images": platform.personal_images is not None,
        "pipelines": bool(platform.pipelines),
        "streams": bool(platform.streams),
        "teams": bool(platform.teams),
    }
    for field, is_set in callers.items():
        if is_set:
            message = f"{_ALONE}: its requests have no key of an Apigee app"
            yield InputError(field, message)


def _check_apps(apigee: Apigee) -> Iterator[InputError]:
    for name, app in apigee.apps.items():
        for at, product in enumerate(app.products):
            if product not in apigee.products:
                where = join("clients", "apigee", "apps", name, "products", at)
                known = ", ".join(sorted(apigee.products))
                yield InputError(where, f"must be one of clients.apigee.products: {known}", product)


_AT = "clients.people"


def check_people(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Yield the problems of people who sign in."""
    people, gateway = clients.people, platform.gateway
    if people is None:
        return
    if gateway.front is not Front.GLOBAL:
        rule = (
            "must not be set unless gateway.front is global: Identity-Aware Proxy in front of an"
            " InferencePool is not documented"
        )
        yield InputError(_AT, rule)
    if gateway.issue_certificate:
        rule = "must not be set when gateway.issue_certificate is true: it is for one host"
        yield InputError(join(_AT, "hostname"), rule, people.hostname)
    others = {team.hostname: f"teams.{name}" for name, team in platform.teams.items()}
    others[gateway.hostname] = "gateway"
    if people.hostname in others:
        rule = f"must differ from {others[people.hostname]}.hostname"
        yield InputError(join(_AT, "hostname"), rule, people.hostname)
    yield from check_members(join(_AT, "members"), people.members)
    yield from check_team_of_people("clients", people.team, clients.teams)
    for at, issuer in enumerate(clients.issuers):
        if issuer.header == IAP_HEADER:
            rule = f"must not be {IAP_HEADER} when {_AT} is set, which accepts these tokens"
            yield InputError(join("clients", "issuers", at, "header"), rule)

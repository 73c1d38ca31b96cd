"""Inputs of a gate, and their validation."""

from collections.abc import Mapping
from typing import NotRequired, TypedDict, cast

import pulumi

from gke_inference.base.inputs import camel, one_of, whole
from gke_inference.gateway.checks import hops_of
from gke_inference.guardrails.armor_calls import FAILURES, ArmorCallArgs

from .certificates import ClientCertificatesArgs, check_certificates
from .people import ClientPeopleArgs, check_people

PRIORITIES = ("interactive", "batch")
"""Priorities of a team's requests, which select the objective `POOL-interactive` or
`POOL-batch`."""
A_DAY = 24 * 60 * 60
THRESHOLD = 0.95
LARGEST = 10**12
"""Largest limit. Anything higher is effectively unlimited."""


class AnswerCacheArgs(TypedDict):
    """Semantic cache: a team gets a cached answer to a question with the same meaning."""

    embeddings_model: str
    """Model that computes the embeddings of questions, by its API name."""
    embeddings_url: str
    """Base URL of that model's API without `/v1`: `http://POOL.NAMESPACE.svc:8000`."""
    models: list[str]
    """Models and adapters whose answers are cached."""
    store: pulumi.Input[str]
    """`HOST:PORT` of the answer store: `AnswerStore.address`."""
    store_certificates: NotRequired[pulumi.Input[str]]
    """CA certificates of the store: `AnswerStore.certificates`. Default: none, the store has no
    TLS."""
    threshold: NotRequired[float]
    """Minimum cosine similarity of two questions for them to share an answer, more than 0 and at
    most 1. Default: 0.95."""
    ttl_seconds: NotRequired[int]
    """How long an answer is cached, 1 second to 30 days. Default: one day."""


class ClientTeamArgs(TypedDict):
    """One team of clients. An omitted limit means unlimited."""

    acts_for_teams: NotRequired[bool]
    """Whether its keys may name another team in `x-gki-on-behalf-of`. Default: false."""
    cached_answers: NotRequired[bool]
    """Whether members get each other's answers from the `cache`. Default: false."""
    guards: NotRequired[list[str]]
    """Guards that check its requests to every model, in addition to those of the model."""
    models: NotRequired[list[str]]
    """Models and adapters that it may request. Default: all."""
    monthly_usd: NotRequired[float]
    """Maximum cost of its tokens in a calendar month (UTC), in US dollars. Requires `prices`."""
    priority: NotRequired[str]
    """`interactive` (default) or `batch`, which is rejected first when a pool is at capacity."""
    requests_per_minute: NotRequired[int]
    """Requests per minute."""
    tokens_per_minute: NotRequired[int]
    """Tokens per minute, prompts and answers combined."""
    tokens_per_month: NotRequired[int]
    """Tokens per calendar month (UTC), prompts and answers combined."""


class TokenPriceArgs(TypedDict):
    """Price of a model's tokens."""

    input_usd_per_million: float
    """US dollars per million prompt tokens."""
    output_usd_per_million: float
    """US dollars per million answer tokens."""


class TokenIssuerArgs(TypedDict):
    """An issuer of JSON Web Tokens (JWTs) that clients authenticate with."""

    audiences: list[str]
    """Accepted values of `aud`. A token must have one of them."""
    claim: str
    """Claim with the team's name, or with a key of `teams`."""
    issuer: str
    """Expected value of `iss`."""
    jwks_uri: str
    """URL of its public keys."""
    header: NotRequired[str]
    """Header that carries the token. `x-goog-iap-jwt-assertion` for Identity-Aware Proxy. Default:
    `authorization`."""
    teams: NotRequired[dict[str, str]]
    """Team for each value of the claim. Default: the value is the team's name."""


class ClientModelArgs(TypedDict):
    """A model as clients request it."""

    pool_name: str
    """Kubernetes name of its pool, whose objectives a team's requests use."""
    adapters: NotRequired[list[str]]
    """Adapters that clients may request instead of it."""


class ClientGuardArgs(TypedDict):
    """A service that checks prompts and answers (`NemoGuardrails`)."""

    failure: str
    """While it returns no verdict, `closed` rejects texts; `open` lets them pass and counts
    them."""
    phases: list[str]
    """`input` for prompts, `output` for answers."""
    timeout_ms: int
    """Timeout per check in milliseconds, 1 to 60000."""
    url: str
    """URL of the service."""


class ClientGateArgs(TypedDict):
    """Inputs of `ClientGate`."""

    gate_name: str
    """Kubernetes name of its objects."""
    gateway_name: str
    """Name of the Gateway (`InferenceGateway`)."""
    keys: pulumi.Input[str]
    """Secret with the keys, `projects/P/secrets/S`: `ClientKeys.secret`."""
    models: dict[str, ClientModelArgs]
    """Models behind the Gateway, by the name that clients request."""
    namespace: str
    """Namespace of the Gateway. Extensions can call only services in it."""
    region: str
    """Region of the Gateway, part of each usage record."""
    service_account: str
    """Kubernetes service account that may read the secret (`WorkloadIdentity`)."""
    teams: dict[str, ClientTeamArgs]
    """Teams by name."""
    batches: NotRequired[bool]
    """Whether `/v1/files` and `/v1/batches` are behind the Gateway (`BatchService`). Default:
    false."""
    certificates: NotRequired[ClientCertificatesArgs]
    """Client certificates of teams, behind a `GlobalFront`. Default: none."""
    cache: NotRequired[AnswerCacheArgs]
    """Answer cache, for teams with `cached_answers`. Default: none."""
    cache_salt_paths: NotRequired[dict[str, list[str]]]
    """Paths on which requests to a model or adapter get the salt of their team, by the name that
    clients request, so that no two teams share the prefix cache of its engine. Only for paths on
    which the engine knows the field `cache_salt`. Default: none, teams share the cache."""
    contexts: NotRequired[dict[str, int]]
    """Contexts of models and adapters in tokens, by the name that clients request. A request
    without a limit reserves what its prompt leaves of the context."""
    default_context: NotRequired[int]
    """Assumed context of models without one in `contexts`, in tokens. Default: 131072."""
    anonymous: NotRequired[bool]
    """Whether requests without a credential are allowed, as the team `anonymous`. Default:
    false."""
    armor: NotRequired[list[ArmorCallArgs]]
    """Model Armor calls after the callout, at most two: a chain has three extensions."""
    forwarded_hops: NotRequired[int]
    """Position of the client's address in X-Forwarded-For, counted from the end, 1 to 10. Each load
    balancer on the way appends the address it was called from and its own. Default: 2, for clients
    that connect to the Gateway."""
    guarded_models: NotRequired[dict[str, list[str]]]
    """Guards of models and adapters, by the name that clients request."""
    guards: NotRequired[dict[str, ClientGuardArgs]]
    """Guards that the callout calls, by name. Default: none."""
    issuers: NotRequired[list[TokenIssuerArgs]]
    """Issuers of accepted tokens. Default: none, clients use keys only."""
    people: NotRequired[ClientPeopleArgs]
    """People who sign in with Google, behind a `GlobalFront`. Default: none."""
    prices: NotRequired[dict[str, TokenPriceArgs]]
    """Prices of models and adapters, by name. Default: none, only tokens are counted."""
    replicas: NotRequired[int]
    """Replicas of the callout, 1 to 20. Default: 2."""
    store: NotRequired[pulumi.Input[str]]
    """`HOST:PORT` of the counters that all replicas share: `CounterStore.address`. Default: none,
    each replica enforces its share of each limit."""
    store_certificates: NotRequired[pulumi.Input[str]]
    """CA certificates of the store: `CounterStore.certificates`. Default: none, the store has no
    TLS."""


DEFAULT_CONTEXT = 131_072
"""Assumed context of a model that nobody describes, in tokens: that of many current models."""
LARGEST_CONTEXT = 2**30
MOST_MONTHLY_USD = 10**9
MOST_PRICE = 10**6
_MOST_ARMOR = 2
ANONYMOUS = "anonymous"
"""Team of requests without a credential."""


def checked(args: ClientGateArgs) -> None:
    """Validate the settings.

    Raises:
        pulumi.InputPropertyError: A name, limit or price is wrong, or two do not go together.
    """
    whole(args, "replicas", 2, least=1, most=20)
    whole(args, "default_context", DEFAULT_CONTEXT, least=1, most=LARGEST_CONTEXT)
    for name in args.get("contexts", {}):
        whole(args.get("contexts", {}), name, 1, least=1, most=LARGEST_CONTEXT, where="contexts")
    hops_of(args)
    if not args["teams"] and not args.get("anonymous", False):
        raise pulumi.InputPropertyError("teams", "must have one team or more, got none")
    for name, team in args["teams"].items():
        _check_team(f"teams.{name}", team, args)
    _check_cache(args)
    for name, paths in args.get("cache_salt_paths", {}).items():
        if wrong := [path for path in paths if not path.startswith("/v1/")]:
            rule = f"must be paths that begin with /v1/, got {wrong[0]!r}"
            raise pulumi.InputPropertyError(f"cacheSaltPaths.{name}", rule)
    for name, price in args.get("prices", {}).items():
        for field, value in cast("Mapping[str, float]", price).items():
            if not 0 <= value <= MOST_PRICE:
                path = f"prices.{name}.{camel(field)}"
                rule = f"must be 0 to {MOST_PRICE}, got {value!r}"
                raise pulumi.InputPropertyError(path, rule)
    for at, issuer in enumerate(args.get("issuers", [])):
        _check_issuer(f"issuers[{at}]", issuer, args)
    if "certificates" in args:
        check_certificates(args["certificates"], args["teams"])
    if "people" in args:
        check_people(args["people"], args["teams"])
    _check_guards(args)


def _check_team(where: str, team: ClientTeamArgs, args: ClientGateArgs) -> None:
    one_of(team, "priority", PRIORITIES, "interactive")
    for field in ("requests_per_minute", "tokens_per_minute", "tokens_per_month"):
        if team.get(field) is not None:
            whole(team, field, 1, least=1, most=LARGEST, where=where)
    dollars = team.get("monthly_usd")
    if dollars is None:
        return
    if not 0 < dollars <= MOST_MONTHLY_USD:
        path = f"{where}.monthlyUsd"
        rule = f"must be more than 0 and at most {MOST_MONTHLY_USD}, got {dollars!r}"
        raise pulumi.InputPropertyError(path, rule)
    allowed = team.get("models", sorted(args["models"]))
    if missing := [name for name in allowed if name not in args.get("prices", {})]:
        rule = f"needs a price for every model the team may use, got none for {missing[0]!r}"
        raise pulumi.InputPropertyError(f"{where}.monthlyUsd", rule)


def _check_cache(args: ClientGateArgs) -> None:
    cache = args.get("cache")
    if cache is None:
        for name, team in args["teams"].items():
            if team.get("cached_answers", False):
                path = f"teams.{name}.cachedAnswers"
                raise pulumi.InputPropertyError(path, "needs 'cache', got none")
        return
    whole(cache, "ttl_seconds", A_DAY, least=1, most=30 * A_DAY, where="cache")
    threshold = cache.get("threshold", THRESHOLD)
    if not 0 < threshold <= 1:
        rule = f"must be more than 0 and at most 1, got {threshold!r}"
        raise pulumi.InputPropertyError("cache.threshold", rule)
    if not cache["models"]:
        raise pulumi.InputPropertyError("cache.models", "must have one model or more, got none")


def _check_issuer(where: str, issuer: TokenIssuerArgs, args: ClientGateArgs) -> None:
    if not issuer["jwks_uri"].startswith("https://"):
        rule = f"must begin with https://, got {issuer['jwks_uri']!r}"
        raise pulumi.InputPropertyError(f"{where}.jwksUri", rule)
    if not issuer["audiences"]:
        rule = "must have one audience or more, got none: any token of the issuer would pass"
        raise pulumi.InputPropertyError(f"{where}.audiences", rule)
    for value, team in issuer.get("teams", {}).items():
        if team not in args["teams"]:
            known = ", ".join(sorted(args["teams"]))
            path = f"{where}.teams.{value}"
            raise pulumi.InputPropertyError(path, f"must be one of {known}, got {team!r}")


def _check_guards(args: ClientGateArgs) -> None:
    if len(args.get("armor", [])) > _MOST_ARMOR:
        rule = f"must be at most {_MOST_ARMOR}, got {len(args.get('armor', []))}"
        raise pulumi.InputPropertyError("armor", rule)
    guards = args.get("guards", {})
    for name, guard in guards.items():
        where = f"guards.{name}"
        if guard["failure"] not in FAILURES:
            rule = f"must be one of {', '.join(FAILURES)}, got {guard['failure']!r}"
            raise pulumi.InputPropertyError(f"{where}.failure", rule)
        if not guard["phases"] or not set(guard["phases"]) <= {"input", "output"}:
            rule = f"must be input, output or both, got {', '.join(guard['phases']) or 'none'}"
            raise pulumi.InputPropertyError(f"{where}.phases", rule)
        whole(guard, "timeout_ms", 1, least=1, most=60_000, where=where)
    users = {f"guardedModels.{name}": of for name, of in args.get("guarded_models", {}).items()}
    users |= {
        f"teams.{name}.guards": team.get("guards", []) for name, team in args["teams"].items()
    }
    for where, names in users.items():
        for name in names:
            if name not in guards:
                known = ", ".join(sorted(guards)) or "none"
                rule = f"must be one of {known}, got {name!r}"
                raise pulumi.InputPropertyError(where, rule)

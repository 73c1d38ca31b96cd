"""Inputs of a gate, their rules, and what its callout is configured with.

The program reads one YAML document (workloads/callout), which `document` makes. JSON is YAML, so
that is how it is written.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict, cast

import pulumi

from gke_inference.base.inputs import camel, one_of, whole

PRIORITIES = ("interactive", "batch")
"""What a team's requests are to a pool: its objectives, `POOL-interactive` and `POOL-batch`."""
LARGEST = 10**12
"""Largest limit: more is no limit."""
IAP_HEADER = "x-goog-iap-jwt-assertion"
"""Header in which Identity-Aware Proxy hands over whom it let through
(docs.cloud.google.com/iap/docs/signed-headers-howto)."""


class ClientTeamArgs(TypedDict):
    """One team of clients. A limit that is left out does not exist."""

    models: NotRequired[list[str]]
    """Names that it may ask for: models and adapters. Default: all."""
    monthly_usd: NotRequired[float]
    """Dollars that its tokens may cost in a calendar month (UTC); needs `prices`."""
    priority: NotRequired[str]
    """`interactive` (default) or `batch`, which is refused first when a pool is full."""
    requests_per_minute: NotRequired[int]
    """Requests in a minute."""
    tokens_per_minute: NotRequired[int]
    """Tokens in a minute, prompt and answer together."""
    tokens_per_month: NotRequired[int]
    """Tokens in a calendar month (UTC)."""


class TokenPriceArgs(TypedDict):
    """What the tokens of a model are charged at."""

    input_usd_per_million: float
    """Dollars for a million tokens of prompts."""
    output_usd_per_million: float
    """Dollars for a million tokens of answers."""


class TokenIssuerArgs(TypedDict):
    """An issuer of JSON web tokens that clients prove themselves with."""

    audiences: list[str]
    """Values of `aud`, one of which a token must have."""
    claim: str
    """Claim that names the team, or a value of `teams`."""
    issuer: str
    """Value of `iss`."""
    jwks_uri: str
    """Address of its public keys."""
    header: NotRequired[str]
    """Header that has the token. Default `authorization`; `x-goog-iap-jwt-assertion` for
    Identity-Aware Proxy."""
    teams: NotRequired[dict[str, str]]
    """Team of each value of the claim. Default: the value is the team's name."""


class ClientModelArgs(TypedDict):
    """A model as clients know it."""

    pool_name: str
    """Kubernetes name of its pool, whose objectives the requests of a team get."""
    adapters: NotRequired[list[str]]
    """Adapters that clients may name instead of it."""


class ClientGateArgs(TypedDict):
    """Inputs of `ClientGate`."""

    gate_name: str
    """Kubernetes name of its objects."""
    gateway_name: str
    """Name of the Gateway (`InferenceGateway`)."""
    keys: pulumi.Input[str]
    """Secret of the keys, `projects/P/secrets/S`: `ClientKeys.secret`."""
    models: dict[str, ClientModelArgs]
    """The models behind the Gateway, by the name that clients ask for."""
    namespace: str
    """Namespace of the Gateway: extensions call no other."""
    region: str
    """Region of the Gateway, part of each record of usage."""
    service_account: str
    """Kubernetes service account that may read the secret (`WorkloadIdentity`)."""
    teams: dict[str, ClientTeamArgs]
    """Teams by name."""
    anonymous: NotRequired[bool]
    """Whether requests without a credential pass, as the team `anonymous`. Default no."""
    issuers: NotRequired[list[TokenIssuerArgs]]
    """Issuers of tokens. Default: clients have keys only."""
    prices: NotRequired[dict[str, TokenPriceArgs]]
    """Prices of models and adapters by name. Default: usage is counted in tokens only."""
    replicas: NotRequired[int]
    """Replicas of the callout, 1 to 20. Default 2."""
    store: NotRequired[pulumi.Input[str]]
    """`HOST:PORT` of the counters, which all replicas share: `CounterStore.address`. Default: every
    replica lets its own share of each limit pass."""


ANONYMOUS = "anonymous"
"""Team of the requests without a credential."""


def checked(args: ClientGateArgs) -> None:
    """Check the settings.

    Raises:
        pulumi.InputPropertyError: A name, limit or price is wrong, or two do not go together.
    """
    whole(args, "replicas", 2, least=1, most=20)
    if not args["teams"] and not args.get("anonymous", False):
        raise pulumi.InputPropertyError("teams", "must have one team or more, got none")
    for name, team in args["teams"].items():
        _check_team(f"teams.{name}", team, args)
    for name, price in args.get("prices", {}).items():
        for field, value in cast("Mapping[str, float]", price).items():
            if value < 0:
                path = f"prices.{name}.{camel(field)}"
                raise pulumi.InputPropertyError(path, f"must be 0 or more, got {value!r}")
    for at, issuer in enumerate(args.get("issuers", [])):
        _check_issuer(f"issuers[{at}]", issuer, args)


def _check_team(where: str, team: ClientTeamArgs, args: ClientGateArgs) -> None:
    one_of(team, "priority", PRIORITIES, "interactive")
    for field in ("requests_per_minute", "tokens_per_minute", "tokens_per_month"):
        if team.get(field) is not None:
            whole(team, field, 1, least=1, most=LARGEST, where=where)
    dollars = team.get("monthly_usd")
    if dollars is None:
        return
    if dollars <= 0:
        path = f"{where}.monthlyUsd"
        raise pulumi.InputPropertyError(path, f"must be more than 0, got {dollars!r}")
    allowed = team.get("models", sorted(args["models"]))
    if missing := [name for name in allowed if name not in args.get("prices", {})]:
        rule = f"needs a price for every model the team may use, got none for {missing[0]!r}"
        raise pulumi.InputPropertyError(f"{where}.monthlyUsd", rule)


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


def document(args: ClientGateArgs, secret: str, store: str | None) -> str:
    """Returns the configuration that the program reads.

    Args:
        args: The settings, checked.
        secret: `projects/P/secrets/S` of the keys.
        store: `HOST:PORT` of the counters; None: each replica counts for itself.
    """
    replicas = whole(args, "replicas", 2, least=1, most=20)
    found: dict[str, Any] = {
        "anonymous": args.get("anonymous", False),
        "jwt": [_issuer(issuer, args["teams"]) for issuer in args.get("issuers", [])],
        "keys": {"secret": secret},
        "pools": _pools(args["models"]),
        "prices": {name: dict(price) for name, price in args.get("prices", {}).items()},
        "region": args["region"],
        "replicas": replicas,
        "teams": {name: _team(team) for name, team in args["teams"].items()},
    }
    if args.get("anonymous", False):
        found["teams"].setdefault(ANONYMOUS, _team({}))
    if store is not None:
        found["store"] = {"address": store}
    return json.dumps(found, indent=2, sort_keys=True)


def _team(team: ClientTeamArgs) -> dict[str, Any]:
    """Returns a team as the program reads it."""
    limits = {name: value for name, value in team.items() if name not in ("models", "priority")}
    return {
        **{name: value for name, value in limits.items() if value is not None},
        "models": list(team.get("models", ["*"])),
        "objective": team.get("priority", "interactive"),
    }


def _issuer(issuer: TokenIssuerArgs, teams: Iterable[str]) -> dict[str, Any]:
    """Returns an issuer as the program reads it: a claim leads to a team that is listed."""
    return {
        "audiences": list(issuer["audiences"]),
        "claim": issuer["claim"],
        "header": issuer.get("header", "authorization"),
        "issuer": issuer["issuer"],
        "jwks_uri": issuer["jwks_uri"],
        "teams": dict(issuer.get("teams") or {name: name for name in teams}),
    }


def _pools(models: Mapping[str, ClientModelArgs]) -> dict[str, str]:
    """Returns the pool of every name that clients may ask for.

    An objective is of one pool, so the same priority has another name at every model: the program
    makes it out of the pool's and the priority.
    """
    return {
        name: model["pool_name"]
        for served, model in models.items()
        for name in (served, *model.get("adapters", []))
    }

"""Client settings of a platform, resolved: gate, counters and cache."""

import math
from dataclasses import dataclass
from typing import Final

from infra.plan.front import with_gateway
from infra.stack import (
    AnswerCache,
    ClientCertificates,
    Clients,
    ClientTeam,
    Counters,
    People,
    Platform,
    StoreNodes,
    Task,
    TeamLimits,
)

GATE: Final = "client-gate"
"""Name of the gate's objects and service account, the same in every cluster."""
_CENTS: Final = 100


def gated(platform: Platform) -> Clients | None:
    """Return the clients of a platform, if it has client teams."""
    clients = platform.clients
    return clients if clients is not None and clients.teams else None


def acting(clients: Clients) -> list[str]:
    """Return the teams whose keys may act for other teams."""
    return [name for name, team in clients.teams.items() if team.acts_for_teams]


def has_apigee(platform: Platform) -> bool:
    """Return whether Apigee checks the clients of a platform."""
    return platform.clients is not None and platform.clients.apigee is not None


@dataclass(frozen=True)
class RegionLimits:
    """Limits of a team in one region; None means unlimited."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    monthly_usd: float | None
    """Its share of the team's budget."""
    tokens_per_month: int | None
    """Its share of the team's tokens."""


def limits_in(platform: Platform, team: ClientTeam, region: str) -> RegionLimits:
    """Return the limits of a team in a region.

    Regions do not share counters, so each has a part of the limits of a month. The parts are
    rounded down, and their sum is never more than the limit. A change of shares within a month
    takes full effect in the next one: a region keeps what it has counted.
    """
    own = team.regional.get(region, TeamLimits())
    minute = {
        name: getattr(own if name in own.model_fields_set else team, name)
        for name in TeamLimits.model_fields
    }
    share = monthly_shares(platform, team)[region]
    usd, tokens = team.monthly_usd, team.tokens_per_month
    return RegionLimits(
        **minute,
        monthly_usd=None if usd is None else _part(usd * _CENTS, share) / _CENTS,
        tokens_per_month=None if tokens is None else _part(tokens, share),
    )


def _part(limit: float, share: float) -> int:
    return math.floor(round(limit * share, 6))  # 0.29 of 100 is 28.999999999999996


def monthly_shares(platform: Platform, team: ClientTeam) -> dict[str, float]:
    """Return the share of each region in the monthly limits of a team, in stack order."""
    regions = with_gateway(platform)
    return {region: team.monthly_shares.get(region, 1 / len(regions)) for region in regions}


def certificates_of(platform: Platform) -> ClientCertificates | None:
    """Return the client certificates of a platform, if it has client teams."""
    clients = gated(platform)
    return None if clients is None else clients.certificates


def people_of(platform: Platform) -> People | None:
    """Return the people who sign in to a platform, if it has client teams."""
    clients = gated(platform)
    return None if clients is None else clients.people


def has_counters(platform: Platform) -> bool:
    """Return whether the replicas of a gate share their counters."""
    clients = gated(platform)
    return clients is not None and clients.counters is Counters.VALKEY


def cached(platform: Platform) -> AnswerCache | None:
    """Return the answer cache, if a team uses it."""
    clients = gated(platform)
    return clients.cache if clients is not None else None


def cached_in(platform: Platform, region: str) -> AnswerCache | None:
    """Return the answer cache of a region, which must have its embedding model."""
    cache = cached(platform)
    if cache is None or region not in platform.regions_of(platform.models[cache.embeddings]):
        return None
    return cache


def cached_names(platform: Platform, cache: AnswerCache) -> list[str]:
    """Return the names of models and adapters whose answers are cached."""
    if cache.models is not None:
        return sorted(cache.models)
    return sorted(
        name
        for served, model in platform.models.items()
        if model.task is Task.GENERATE
        for name in (served, *model.adapter_names(served))
    )


def gate_replicas(platform: Platform, clients: Clients) -> int:
    """Return the number of gate replicas per region."""
    return clients.replicas or (3 if platform.protection else 2)


def store_nodes(platform: Platform, clients: Clients) -> StoreNodes:
    """Return the node type of the counter store, one with an SLA where protection is on."""
    usual = StoreNodes.SMALL if platform.protection else StoreNodes.NANO
    return clients.store.node_type or usual

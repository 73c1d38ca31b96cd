"""Client settings of a platform, resolved: gate, counters and cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from infra.plan.front import with_gateway
from infra.stack import (
    AnswerCache,
    Clients,
    ClientTeam,
    Counters,
    Platform,
    StoreNodes,
    Task,
    TeamLimits,
)

GATE: Final = "client-gate"
"""Name of the gate's objects and service account, the same in every cluster."""


def gated(platform: Platform) -> Clients | None:
    """Return the clients of a platform, if it has client teams."""
    clients = platform.clients
    return clients if clients is not None and clients.teams else None


def has_apigee(platform: Platform) -> bool:
    """Return whether Apigee checks the clients of a platform."""
    return platform.clients is not None and platform.clients.apigee is not None


def limits_in(team: ClientTeam, region: str) -> TeamLimits:
    """Return the limits of a team in a region."""
    found = {name: getattr(team, name) for name in TeamLimits.model_fields}
    own = team.regional.get(region)
    if own is not None:
        found |= {name: getattr(own, name) for name in own.model_fields_set}
    return TeamLimits(**found)


@dataclass(frozen=True)
class MonthlyLimit:
    """A limit of a team for a month, which applies in each region separately."""

    team: str
    field: str
    """`monthly_usd` or `tokens_per_month`."""
    by_region: dict[str, float | None]
    """The limit of each region; None if the team has none there."""

    @property
    def total(self) -> float | None:
        """What all regions allow together; None if it is unlimited."""
        limits = [limit for limit in self.by_region.values() if limit is not None]
        return sum(limits) if len(limits) == len(self.by_region) else None


def monthly_limits(platform: Platform) -> Iterator[MonthlyLimit]:
    """Yield the limits of a month that apply in several regions, whose counters are not shared."""
    clients, regions = gated(platform), with_gateway(platform)
    if clients is None or len(regions) == 1:
        return
    for name, team in clients.teams.items():
        for field in ("monthly_usd", "tokens_per_month"):
            found = {region: getattr(limits_in(team, region), field) for region in regions}
            if any(limit is not None for limit in found.values()):
                yield MonthlyLimit(name, field, found)


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

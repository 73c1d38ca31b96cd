"""Client settings of a platform, resolved: gate, counters and cache."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gke_inference.clients.people import IAP_HEADER
from gke_inference.clients.settings import TeamSettings, WhenSpent
from infra.stack import (
    AnswerCache,
    Clients,
    ClientTeam,
    Counters,
    Guardrail,
    Model,
    Platform,
    StoreNodes,
    Task,
    TeamLimits,
)

GATE: Final = "client-gate"
"""Name of the gate's objects and service account, the same in every cluster."""
_CENTS: Final = 100


@dataclass(frozen=True)
class ClientsPlan:
    """The client teams of a stack, whose requests a gate in each region checks."""

    settings: Clients
    replicas: int
    """Replicas of the gate in each region."""
    has_counters: bool
    """Whether the replicas of a gate share their counters."""
    store_nodes: StoreNodes
    """Node type of the counter store."""
    cached_names: tuple[str, ...]
    """Names of models and adapters whose answers are cached, sorted."""
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Models that a cheaper one answers for once a team's budget is spent, by team, sorted."""

    @property
    def asked_names(self) -> tuple[str, ...]:
        """Models for which another one can answer, sorted."""
        return tuple(sorted({name for names in self.replaced.values() for name in names}))

    @property
    def credential_headers(self) -> tuple[str, ...]:
        """Headers of which a request needs one. None where a client can do without."""
        clients = self.settings
        if clients.anonymous is not None or clients.certificates is not None:
            return ()
        people = {IAP_HEADER} if clients.people is not None else set[str]()
        tokens = {issuer.header for issuer in clients.issuers}
        return tuple(sorted({"authorization", "x-api-key"} | people | tokens))


@dataclass(frozen=True)
class GatePlan:
    """The gate in front of the models of one region."""

    clients: ClientsPlan
    teams: Mapping[str, TeamSettings]
    """Each team with its limits in the region."""
    cache: AnswerCache | None
    """The answer cache, where the region has its embedding model."""
    guards: Mapping[str, Guardrail]
    """Guardrails that the gate calls, by name."""


def resolve_clients(platform: Platform) -> ClientsPlan | None:
    """Return the clients of a stack, if it has client teams."""
    clients = platform.gated_clients()
    if clients is None:
        return None
    # one with an SLA where protection is on
    usual = StoreNodes.SMALL if platform.protection else StoreNodes.NANO
    return ClientsPlan(
        settings=clients,
        replicas=clients.replicas or platform.usual_replicas(),
        has_counters=clients.counters is Counters.VALKEY,
        store_nodes=clients.store.node_type or usual,
        cached_names=_cached_names(clients.cache, platform),
        replaced={
            name: replaced_names(platform, team)
            for name, team in clients.teams.items()
            if team.when_spent is not None
        },
    )


def generating(platform: Platform) -> dict[str, Model]:
    """Return the models that generate text, by each name that clients may request."""
    return {
        name: model
        for served, model in platform.models.items()
        if model.task is Task.GENERATE
        for name in (served, *model.adapter_names(served))
    }


def replaced_names(platform: Platform, team: ClientTeam) -> tuple[str, ...]:
    """Return the models and backends that `when_spent` of a team answers for, sorted.

    Names that the stack does not know, such as adapters that are uploaded later, are not among
    them: whether another model may answer for them is unknown.
    """
    if team.when_spent is None:
        return ()
    known = {*generating(platform), *platform.backends}
    return tuple(sorted(filter(team.may_ask, known - {team.when_spent.model})))


def _cached_names(cache: AnswerCache | None, platform: Platform) -> tuple[str, ...]:
    if cache is None:
        return ()
    if cache.models is not None:
        return tuple(sorted(cache.models))
    return tuple(sorted(generating(platform)))


def resolve_gates(
    platform: Platform, clients: ClientsPlan | None, guards: Mapping[str, Guardrail]
) -> dict[str, GatePlan]:
    """Return the gate of each region that has one.

    Args:
        platform: The stack.
        clients: Its clients.
        guards: Guardrails that gates call, by name.
    """
    if clients is None or not platform.has_clusters():
        return {}
    cache, regions = clients.settings.cache, platform.regions_with_gateway()
    return {
        region: GatePlan(
            clients=clients,
            teams={
                name: team_in(team, region, regions)
                for name, team in clients.settings.teams.items()
            },
            cache=cache
            if cache is not None
            and region in platform.regions_of(platform.models[cache.embeddings])
            else None,
            guards=guards,
        )
        for region in regions
    }


def team_in(team: ClientTeam, region: str, regions: Sequence[str]) -> TeamSettings:
    """Return a team with its limits in a region. A limit of a month may be 0, which rules refuse.

    Regions do not share counters, so each has a part of the limits of a month. The parts are
    rounded down, and their sum is never more than the limit. A change of shares within a month
    takes full effect in the next one: a region keeps what it has counted.

    Args:
        team: The team.
        region: One of `regions`.
        regions: All regions with a gateway.
    """
    own = team.regional.get(region, TeamLimits())
    found = {
        name: getattr(own if name in own.model_fields_set else team, name)
        for name in TeamSettings.model_fields
    }
    share = team.monthly_shares.get(region, 1 / len(regions))
    usd, tokens = team.monthly_usd, team.tokens_per_month
    if usd is not None:
        found["monthly_usd"] = _part(usd * _CENTS, share) / _CENTS
    if tokens is not None:
        found["tokens_per_month"] = _part(tokens, share)
    if team.when_spent is not None:
        found["when_spent"] = _beyond(team.when_spent, share)
    return TeamSettings.model_construct(**found)


def _beyond(spent: WhenSpent, share: float) -> WhenSpent:
    """Return a model for spent budgets with a share of its limit."""
    if spent.monthly_usd is None:
        return spent
    part = _part(spent.monthly_usd * _CENTS, share) / _CENTS
    return spent.model_copy(update={"monthly_usd": part})


def _part(limit: float, share: float) -> int:
    return math.floor(round(limit * share, 6))  # 0.29 of 100 is 28.999999999999996

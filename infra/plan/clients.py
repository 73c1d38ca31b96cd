"""Whether clients are told apart, and by how much of what."""

from typing import Final

from infra.stack import AnswerCache, Clients, Counters, Platform, StoreNodes, Task

GATE: Final = "client-gate"
"""Name of the gate's objects and of its service account, the same in every cluster."""


def gated(platform: Platform) -> Clients | None:
    """Return the clients of a platform, where there is a team that has to be told from others."""
    clients = platform.clients
    return clients if clients is not None and clients.teams else None


def has_counters(platform: Platform) -> bool:
    """Return whether the replicas of a gate share their counters."""
    clients = gated(platform)
    return clients is not None and clients.counters is Counters.VALKEY


def cached(platform: Platform) -> AnswerCache | None:
    """Return the cache of answers, where a team has one."""
    clients = gated(platform)
    return clients.cache if clients is not None else None


def cached_in(platform: Platform, region: str) -> AnswerCache | None:
    """Return the cache of answers of a region: where its model of embeddings is."""
    cache = cached(platform)
    if cache is None or region not in platform.regions_of(platform.models[cache.embeddings]):
        return None
    return cache


def cached_names(platform: Platform, cache: AnswerCache) -> list[str]:
    """Return the names, as clients use them, whose answers are kept."""
    if cache.models is not None:
        return sorted(cache.models)
    return sorted(
        name
        for served, model in platform.models.items()
        if model.task is Task.GENERATE
        for name in (served, *model.adapter_names(served))
    )


def gate_replicas(platform: Platform, clients: Clients) -> int:
    """Return how many replicas of the gate a region has."""
    return clients.replicas or (3 if platform.protection else 2)


def store_nodes(platform: Platform, clients: Clients) -> StoreNodes:
    """Return the type of the nodes of the counters: with an agreement where protection is on."""
    usual = StoreNodes.SMALL if platform.protection else StoreNodes.NANO
    return clients.store.node_type or usual

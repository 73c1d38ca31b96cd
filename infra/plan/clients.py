"""Whether clients are told apart, and by how much of what."""

from infra.stack import Clients, Counters, Platform, StoreNodes


def gated(platform: Platform) -> Clients | None:
    """Return the clients of a platform, where there is a team that has to be told from others."""
    clients = platform.clients
    return clients if clients is not None and clients.teams else None


def has_counters(platform: Platform) -> bool:
    """Return whether the replicas of a gate share their counters."""
    clients = gated(platform)
    return clients is not None and clients.counters is Counters.VALKEY


def gate_replicas(platform: Platform, clients: Clients) -> int:
    """Return how many replicas of the gate a region has."""
    return clients.replicas or (3 if platform.protection else 2)


def store_nodes(platform: Platform, clients: Clients) -> StoreNodes:
    """Return the type of the nodes of the counters: with an agreement where protection is on."""
    usual = StoreNodes.SMALL if platform.protection else StoreNodes.NANO
    return clients.store.node_type or usual

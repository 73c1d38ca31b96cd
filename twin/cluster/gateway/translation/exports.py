"""The listeners of a cluster in front of the pools that it exports."""

from dataclasses import replace
from typing import Final

from twin.cluster.gateway.translation.backends import BackendIndex
from twin.cluster.gateway.translation.fleet import EXPORT, IMPORT_GROUP, IMPORT_KIND, Pool
from twin.cluster.gateway.translation.model import (
    Endpoint,
    GatewayModel,
    Listener,
    Match,
    Route,
    Target,
)
from twin.cluster.gateway.translation.objects import (
    Key,
    Snapshot,
    key_of,
    mapping,
)
from twin.cluster.gateway.translation.policies import health_check_of, timeout_of

EXPORTS_KEY: Final[Key] = ("gke-fleet", "exports")
_FIRST_PORT: Final = 10_000


def exported_pools(snapshot: Snapshot) -> list[Pool]:
    """Return the pools of a cluster that its fleet may import, in order."""
    return [
        key_of(pool)
        for pool in snapshot.all("InferencePool")
        if mapping(pool["metadata"], "annotations").get(EXPORT) == "True"
    ]


def exports_model(
    snapshot: Snapshot, config: Snapshot, address: str
) -> tuple[GatewayModel, dict[Pool, tuple[Endpoint, int]]]:
    """Return the listeners of a cluster's exported pools, and endpoint and replicas of each pool.

    Args:
        snapshot: Objects of the cluster.
        config: Objects of the config cluster, whose policies apply to imported pools.
        address: Address to listen on.
    """
    index = BackendIndex(snapshot, "")
    listeners: list[Listener] = []
    found: dict[Pool, tuple[Endpoint, int]] = {}
    for at, pool in enumerate(exported_pools(snapshot)):
        namespace, name = pool
        backend = index.pool(namespace, name)
        target = (namespace, IMPORT_GROUP, IMPORT_KIND, name)
        backend = replace(
            backend,
            health=health_check_of(config, *target),
            timeout_seconds=timeout_of(config, *target),
        )
        index.found[backend.name] = backend
        route = Route(
            name=f"{namespace}/{name}/0/0",
            match=Match(),
            targets=(Target(backend.name),),
            timeout_seconds=backend.timeout_seconds,
        )
        port = _FIRST_PORT + at
        listeners.append(Listener(name=f"{namespace}-{name}", port=port, hosts=(("*", (route,)),)))
        found[pool] = (Endpoint(address, port), len(backend.endpoints))
    model = GatewayModel(
        *EXPORTS_KEY, address, tuple(listeners), tuple(index.found[n] for n in sorted(index.found))
    )
    return model, found

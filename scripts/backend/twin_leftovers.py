"""Leftovers in the twin's cloud after stacks were destroyed."""

from scripts.backend.backend import Leftover, Maker
from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world import store
from twin.world.future_reservations import REQUEST

CLOUD_ITSELF = (
    "api-endpoint",
    "apigee",
    "bigquery",
    "daemon",
    "fake-gcs-server",
    "model-armor",
    "model-providers",
    "pubsub",
    "secret-manager",
    "signed-urls",
)
"""Processes that are Google's APIs, whatever stacks are up."""


def leftovers(paths: TwinPaths) -> list[Leftover]:
    """Return the leftovers: resources, clusters, their processes, bucket data.

    Requests of reservations in calendar mode are not among them: nobody can delete those.
    """
    if not paths.root.exists():
        return []
    left = [_resource(row) for row in store.list_resources(paths) if row.type != REQUEST]
    left += [Leftover("cluster", folder.name) for folder in clusters.folders(paths)]
    left += [
        Leftover("process", f"{name} ({pid})")
        for name, pid in processes.running(paths).items()
        if name not in CLOUD_ITSELF
    ]
    left += [Leftover("data", path.name) for path in paths.gcs.rglob("*") if path.is_file()]
    return left


def booked(paths: TwinPaths) -> list[str]:
    """Return the reservations in calendar mode that stay until their end."""
    return [row.name for row in store.list_resources(paths, (REQUEST,))]


def _resource(row: store.Record) -> Leftover:
    maker = Maker.STACK if row.urn else Maker.GKE
    return Leftover(row.type, row.id, maker, path=f"{row.type} {row.id}")


def remove(paths: TwinPaths, leftover: Leftover) -> None:
    """Remove a resource that a controller of a cluster created."""
    kind, _, identifier = leftover.path.partition(" ")
    store.Store(paths.cloud_db).remove(kind, identifier)

"""What the twin's cloud still has after stacks were destroyed."""

from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world import store

_CLOUD_ITSELF = ("daemon", "fake-gcs-server")


def leftovers(paths: TwinPaths) -> list[str]:
    """Return what the twin's cloud has: resources, clusters, their processes, bucket data."""
    if not paths.root.exists():
        return []
    left = [f"{row.type} {row.id}" for row in store.list_resources(paths)]
    left += [f"cluster {folder.name}" for folder in clusters.folders(paths)]
    left += [
        f"process {name} ({pid})"
        for name, pid in processes.running(paths).items()
        if name not in _CLOUD_ITSELF
    ]
    left += [f"data {path.name}" for path in paths.gcs.rglob("*") if path.is_file()]
    return left

"""`gke-inference sweep`: prove that nothing is left."""

from scripts.console import CommandError, console
from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world import store


def leftovers(paths: TwinPaths) -> list[str]:
    """Return what the twin's cloud still has: resources, clusters, their processes, bucket data."""
    if not paths.root.exists():
        return []
    left = [f"{row.type} {row.id}" for row in store.list_resources(paths)]
    left += [f"cluster {folder.name}" for folder in clusters.folders(paths)]
    keep = ("daemon", "fake-gcs-server")  # the cloud itself
    left += [
        f"process {name} ({pid})"
        for name, pid in processes.running(paths).items()
        if name not in keep
    ]
    left += [f"data {path.name}" for path in paths.gcs.rglob("*") if path.is_file()]
    return left


def sweep() -> None:
    """List what is left in the twin's cloud; exit code 2 if anything is."""
    left = leftovers(TwinPaths.default())
    if left:
        raise CommandError("left in the cloud:\n  " + "\n  ".join(left))
    console.print("Nothing is left.")

"""Access of commands to the API servers of clusters, on the twin or in Google Cloud."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scripts.shared.google_cloud import CloudError, Json
from scripts.terminal.console import CommandError
from twin.cluster import lifecycle
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube, KubeError


@dataclass(frozen=True)
class Cluster:
    """A cluster of a platform, and its API server."""

    name: str
    """Name in Google Cloud."""
    region: str
    """Region, by which prices differ."""
    kube: Kube


def of_twin(paths: TwinPaths) -> Iterator[Cluster]:
    """Yield the clusters of a twin, by location and name."""
    for folder in lifecycle.folders(paths):
        spec = ClusterSpec.load(folder)
        handle = lifecycle.handle(spec.location, spec.name, paths)
        yield Cluster(spec.name, spec.region, Kube(handle.kubeconfig))


@contextmanager
def answering(cluster: Cluster) -> Generator[Kube]:
    """Yield a cluster's API server; a refusal becomes one line with the cluster's name.

    Raises:
        CommandError: It does not answer, or the caller lacks the permission.
    """
    try:
        yield cluster.kube
    except KubeError as error:
        does = "does not answer" if error.status == 0 else "refuses"
        raise CommandError(f"cluster {cluster.name} {does}: {error.message}") from error


def close(clusters: Iterable[Cluster]) -> None:
    """Close the connections to clusters."""
    for cluster in clusters:
        cluster.kube.close()


def dns_endpoint(cluster: Json) -> str:
    """Return the DNS endpoint of a cluster in GKE's API.

    Raises:
        CloudError: It has none.
    """
    settings: dict[str, Any] = cluster.get("controlPlaneEndpointsConfig") or {}
    by_name: Any = settings.get("dnsEndpointConfig") or {}
    endpoint: Any = by_name.get("endpoint")
    if not endpoint:
        raise CloudError(f"cluster {cluster.get('name')} has no DNS endpoint")
    return str(endpoint)

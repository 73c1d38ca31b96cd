"""Whether a pod reaches Google's APIs and the metadata server (rule network.google)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from gke_inference.catalogue.google_addresses import (
    APIS,
    METADATA_SERVER,
    METADATA_SERVER_OF_DATAPLANE_V2,
)
from gke_inference.catalogue.load_balancing import HTTPS_PORT
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.network_policies import out_of_the_cluster
from twin.cluster.base.pod_network import cluster_record, enforces_policies, has_dataplane_v2
from twin.cluster.gateway.cluster_network import network_of
from twin.cluster.gateway.translation.vpc import ClusterNetwork, decision
from twin.wire.kube import JsonObject
from twin.world.store import Store

NOBODY: Final = "127.0.0.1:1"
"""Host and port at which no program answers."""
_METADATA: Final = "GCE_METADATA_HOST"
_SIGNED: Final = frozenset(
    {
        "BIGQUERY_EMULATOR_HOST",
        "IAM_CREDENTIALS_ENDPOINT",
        "PUBSUB_EMULATOR_HOST",
        "SECRET_MANAGER_ENDPOINT",
        "STORAGE_EMULATOR_HOST",
    }
)
"""Variables with servers of the twin whose APIs need a token of the metadata server."""
_PUBLIC: Final = "IAP_KEYS"


@dataclass(frozen=True)
class GoogleAccess:
    """What a pod does not reach."""

    apis: str = ""
    """Why the pod does not reach Google's APIs; empty if it does."""
    metadata: str = ""
    """Why the pod does not reach the metadata server; empty if it does."""

    def applied(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return variables in which nobody answers at the addresses that the pod cannot reach."""
        closed: set[str] = set()
        if self.apis or self.metadata:
            closed |= _SIGNED
        if self.apis:
            closed.add(_PUBLIC)
        if self.metadata:
            closed.add(_METADATA)
        return {
            name: _nobody(value) if name in closed else value for name, value in environment.items()
        }

    def check_mount(self) -> None:
        """Reject the mount of a bucket, which the pod's sidecar reads.

        The driver on the node passes it the token, so the metadata server does not matter.

        Raises:
            ConfigError: The pod does not reach Google's APIs.
        """
        if self.apis:
            raise ConfigError(
                "rpc error: code = DeadlineExceeded desc = gcsfuse failed with error: "
                f"connection timed out: {self.apis}"
            )


def access_of(context: ClusterContext, pod: JsonObject) -> GoogleAccess:
    """Return what a pod does not reach, by the policies and firewall rules of this moment.

    Args:
        context: Cluster of the pod.
        pod: The pod.

    Raises:
        twin.wire.kube.KubeError: The policies cannot be listed.
    """
    if not context.paths.cloud_db.exists():
        return GoogleAccess()
    cluster = cluster_record(Store(context.paths.cloud_db), context.spec)
    if cluster is None:
        return GoogleAccess()
    policies: list[JsonObject] = []
    if enforces_policies(context.spec, cluster):
        space = pod["metadata"]["namespace"]
        path = f"/apis/networking.k8s.io/v1/namespaces/{space}/networkpolicies"
        policies = context.kube.list(path)
    network = network_of(context.paths, context.spec)
    is_new = has_dataplane_v2(context.spec, cluster)
    host, port = METADATA_SERVER_OF_DATAPLANE_V2 if is_new else METADATA_SERVER
    return GoogleAccess(
        _refusal_of_apis(policies, pod, network),
        out_of_the_cluster(policies, pod, host, port) or "",
    )


def _refusal_of_apis(
    policies: Iterable[JsonObject], pod: JsonObject, network: ClusterNetwork | None
) -> str:
    """Return why no way to Google's APIs is open; empty if one is."""
    listed = list(policies)
    found = [
        out_of_the_cluster(listed, pod, address, HTTPS_PORT) or _closed(network, pod, address)
        for address in APIS.values()
    ]
    return found[0] if all(found) else ""


def _closed(network: ClusterNetwork | None, pod: JsonObject, address: str) -> str:
    """Return why the firewall drops what leaves for an address; empty if it does not."""
    if network is None:
        return ""
    # pods leave the network with the address of their node, as GKE translates them by default
    to = IPv4Network(address)
    if decision(network.leaving, to, HTTPS_PORT, network.nodes) is not False:
        return ""
    sender = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return f"{sender} to {address}:{HTTPS_PORT}: a firewall rule of {network.name} denies egress"


def _nobody(value: str) -> str:
    return f"http://{NOBODY}" if value.startswith("http") else NOBODY

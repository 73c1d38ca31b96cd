"""The traffic between the pods of a cluster, as Dataplane V2 filters it (rule network.policies)."""

import logging
import threading
import time

from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.base.fields import text_map
from twin.cluster.base.informer import Informer
from twin.cluster.base.network_policies import between_pods
from twin.wire.kube import JsonObject
from twin.wire.property_values import get_path
from twin.world.store import Record, Store

_LOG = logging.getLogger(__name__)
_CLUSTER = "gcp:container/cluster:Cluster"
_NAMESPACES = "/api/v1/namespaces"
_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
_LOOK_SECONDS = 2.0
CONTROL_PLANE: JsonObject = {
    "metadata": {
        "labels": {"k8s-app": "konnectivity-agent"},
        "name": "konnectivity-agent",
        "namespace": "kube-system",
    },
    "spec": {},
}
"""Pod through which the API server of GKE reaches pods."""


def cluster_record(store: Store, spec: ClusterSpec) -> Record | None:
    """Return a cluster in the twin's cloud; None if the cloud does not have it."""
    name = f"projects/{spec.project}/locations/{spec.location}/clusters/{spec.name}"
    return store.get(_CLUSTER, name)


def enforces_policies(spec: ClusterSpec, cluster: Record) -> bool:
    """Return whether a cluster enforces NetworkPolicies."""
    return (
        has_dataplane_v2(spec, cluster) or get_path(cluster.inputs, "networkPolicy.enabled") is True
    )


def has_dataplane_v2(spec: ClusterSpec, cluster: Record) -> bool:
    """Return whether a cluster has Dataplane V2, as every Autopilot cluster does."""
    return spec.autopilot or cluster.inputs.get("datapathProvider") == "ADVANCED_DATAPATH"


class PodNetwork:
    """Decides which connections between pods of one cluster are made."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        wake = threading.Event()
        self._namespaces = Informer(ctx.watches, _NAMESPACES, wake)
        self._policies = Informer(ctx.watches, _POLICIES, wake)
        self._enforces = False
        self._look_at = 0.0
        self._reported: set[str] = set()

    def start(self, stop: threading.Event) -> None:
        """Follow the cluster's objects until `stop` is set."""
        for each in (self._namespaces, self._policies):
            each.start(stop)

    def refusal(self, sender: JsonObject, receiver: JsonObject, port: int) -> str | None:
        """Return why a pod does not reach a port of another pod, and log it; None if it does."""
        if not self._is_enforced():
            return None
        labels = {
            str(each["metadata"]["name"]): text_map(each["metadata"], "labels")
            for each in self._namespaces.items()
        }
        found = between_pods(self._policies.items(), labels, sender, receiver, port)
        if found is not None and found not in self._reported:
            self._reported.add(found)
            _LOG.warning("dropped: %s", found)
        return found

    def refusal_of_control_plane(self, receiver: JsonObject, port: int) -> str | None:
        """Return why the API server does not reach a port of a pod; None if it does."""
        return self.refusal(CONTROL_PLANE, receiver, port)

    def _is_enforced(self) -> bool:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._enforces = self._look()
        return self._enforces

    def _look(self) -> bool:
        if not self._ctx.paths.cloud_db.exists():
            return False
        cluster = cluster_record(Store(self._ctx.paths.cloud_db), self._ctx.spec)
        return cluster is not None and enforces_policies(self._ctx.spec, cluster)

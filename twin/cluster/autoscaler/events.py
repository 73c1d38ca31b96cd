"""The autoscaler's reports: events on pods, conditions on compute classes, the timeline."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from gke_inference.catalogue.versions import ApiKind, api
from twin.cluster.autoscaler.pods import Pod
from twin.cluster.autoscaler.rungs import Class, Offer
from twin.cluster.autoscaler.state import Cluster
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.reports import pod_event, timestamp
from twin.wire.kube import JsonObject, KubeError
from twin.world.capacity import Answer

_LOG = logging.getLogger(__name__)
_KEPT = 10_000
_MAX_NODES = 1000
_BUFFER = api("capacity_buffer")


class EventRecorder:
    """A writer that reports each fact once."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._last: dict[str, str] = {}
        self._pending: set[str] = set()
        self._health: dict[str, tuple[str, str]] = {}

    def pending(self, pod: Pod) -> None:
        """Record in the timeline that a pod has no node."""
        if pod.uid in self._pending:
            return
        if len(self._pending) > _KEPT:
            self._pending.clear()
        self._pending.add(pod.uid)
        self._ctx.events.emit(
            "pod.pending",
            pod.key,
            f"{pod.key} has no node",
            cluster=self._ctx.dir.name,
            compute_class=pod.compute_class,
        )

    def triggered(self, pods: Sequence[Pod], offer: Offer) -> None:
        """Report that nodes are being created for pods."""
        limit = _MAX_NODES
        if offer.pool is not None:
            limit = offer.pool.max_per_zone or offer.pool.max_total or _MAX_NODES
        text = (
            f"pod triggered scale-up: [{{https://www.googleapis.com/compute/v1/projects/"
            f"{self._ctx.spec.project}/zones/{offer.zone}/instanceGroups/gke-{self._ctx.spec.name}-"
            f"{offer.shape.pool}-grp 0->{offer.hosts} (max: {limit})}}]"
        )
        self._events(pods, "TriggeredScaleUp", text)

    def failed(self, pods: Sequence[Pod], offer: Offer, answer: Answer) -> None:
        """Report that no machine was available. There is no such event about a buffer."""
        kinds = {
            "quota": "GCE quota exceeded",
            "not-found": "GCE resource not found",
            "refused": "Internal error",
        }
        what = kinds.get(answer.outcome, "GCE out of resources")
        text = (
            f"Node scale up in zones {offer.zone} associated with this pod failed: {what}. "
            f"Pod is at risk of not being scheduled. ({answer.code}: {answer.message})"
        )
        for pod in pods:
            if pod.buffer is None:
                self._event(pod, "Warning", "FailedScaleUp", text)

    def not_triggered(self, pods: Sequence[Pod], message: str) -> None:
        """Report why no node is created."""
        self._events(pods, "NotTriggerScaleUp", message)

    def unknown_class(self, name: str, pods: Sequence[Pod]) -> None:
        """Report that pods name a class that does not exist."""
        text = f"pod didn't trigger scale-up: compute class {name} does not exist"
        self._events(pods, "NotTriggerScaleUp", text)

    def evicted(self, pod: JsonObject, reason: str, text: str) -> None:
        """Report why a running pod is removed."""
        meta: JsonObject = pod["metadata"]
        self._post(meta["namespace"], meta["name"], meta["uid"], "Warning", reason, text)

    def _events(self, pods: Sequence[Pod], reason: str, text: str) -> None:
        """Report a fact about each pod; about units of a buffer, report it once on the buffer."""
        units: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.buffer is None:
                self._event(pod, "Normal", reason, text)
            else:
                units.setdefault(pod.uid.rpartition("-")[0], []).append(pod)
        for uid, found in units.items():
            first, number = found[0], len(found)
            about = f"capacity buffer {number} fake pods {text.removeprefix('pod ')}"
            buffer = replace(first, uid=uid, name=str(first.buffer))
            self._event(buffer, "Normal", reason, about)

    def _event(self, pod: Pod, kind: str, reason: str, text: str) -> None:
        if self._last.get(pod.uid) == reason + text:
            return
        if len(self._last) > _KEPT:
            self._last.clear()
        self._last[pod.uid] = reason + text
        about = None if pod.buffer is None else _BUFFER
        self._post(pod.namespace, pod.name, pod.uid, kind, reason, text, about)

    def _post(
        self,
        namespace: str,
        name: str,
        uid: str,
        kind: str,
        reason: str,
        text: str,
        about: ApiKind | None = None,
    ) -> None:
        pod = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
        body = pod_event(pod, "cluster-autoscaler", kind, reason, text)
        if about is not None:
            body["involvedObject"] |= {"apiVersion": about.api_version, "kind": about.kind}
        try:
            self._ctx.kube.post(f"/api/v1/namespaces/{namespace}/events", body)
        except KubeError as error:
            _LOG.debug("event of %s/%s: %s", namespace, name, error)

    def conditions(self, cluster: Cluster) -> None:
        """Write the Health condition of each class (rule rung.health)."""
        for klass in cluster.classes.values():
            status, reason, message = health(klass, cluster)
            if self._health.get(klass.name) == (status, message):
                continue
            condition = {
                "type": "Health",
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": timestamp(),
                "observedGeneration": cluster.class_items[klass.name]["metadata"]["generation"],
            }
            path = f"/apis/cloud.google.com/v1/computeclasses/{klass.name}/status"
            try:
                self._ctx.kube.patch(path, {"status": {"conditions": [condition]}})
            except KubeError as error:
                if error.status != 404:
                    raise
            self._health[klass.name] = (status, message)


def health(klass: Class, cluster: Cluster) -> tuple[str, str, str]:
    """Return (status, reason, message) of a class's Health condition."""
    for rung in klass.rungs:
        for pool in rung.pools:
            if pool not in cluster.pools:
                return "False", "NodePoolNotExist", f"Node pool {pool} does not exist."
            if cluster.pools[pool].shape.compute_class != klass.name:
                text = f"Node pool {pool} has no label cloud.google.com/compute-class={klass.name}."
                return "False", "NodePoolMisconfigured", text
    return "True", "Health", "Crd is healthy."

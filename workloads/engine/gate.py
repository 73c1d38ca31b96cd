"""Weights gate: starts model servers once their weights exist. Run as `python3 -m engine.gate`.

A workload that reads its weights from a bucket is created with zero replicas, so that it requests
no node before it can serve. Its annotations contain the weights that it reads and its initial
number of replicas. The gate waits for the manifests and scales the workload once, from zero to that
number. After that, the autoscaler controls the workload and the gate is not involved.

A workload from git is created with one replica. Its manifest has no replica count, because applying
one would undo the autoscaler's changes. While its weights are missing and none of its replicas is
ready, the gate scales it to zero, and then opens it like any other workload.

An autoscaler wakes a target from zero only if it scaled it to zero itself. A new autoscaler over a
target at zero, for example one from a backup, leaves it there forever (ScalingDisabled). The gate
gives such a target one replica, and the autoscaler controls it from then on.

The ConfigMap `weights-state` contains the result for each workload. The gate never opens a workload
twice, because a later scale to zero is intentional.

Needs only the standard library. The pod's service account can scale and list workloads, list
autoscalers, and write that one ConfigMap.
"""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from .bucket import BucketError
from .kube import Kube, KubeError
from .log import say
from .spec import ADAPTER_NEED, DELIVERED, NEEDS, REPLICAS, STATE
from .weights import MissingError, adapter, place, whole
from .weights_manifest import split

_WORKLOADS = (
    ("apis/apps/v1", "deployments"),
    ("apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    ("apis/ray.io/v1", "rayclusters"),
)
_SCALERS = "apis/autoscaling/v2"
_TARGETS = {
    "Deployment": "apis/apps/v1",
    "LeaderWorkerSet": "apis/leaderworkerset.x-k8s.io/v1",
    "RayClusterSet": "apis/gke-inference.internal/v1",
}
"""Kinds that an autoscaler of this platform scales, by API path."""
_LOOK_SECONDS = 2
_QUIET_SECONDS = 30
_BREATH_SECONDS = 0.3
_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Workload:
    """A Deployment, LeaderWorkerSet or RayCluster that may wait for weights."""

    path: str
    name: str
    uid: str
    needs: "tuple[str, ...]"
    wanted: int
    replicas: int
    is_fresh: bool = False
    """Whether it comes from git and still has the replica that it was created with."""
    has_scale: bool = True
    """Whether it has a replica count; a RayCluster is suspended or resumed instead."""

    def change(self, replicas: int) -> "tuple[str, dict[str, Any]]":
        """Return the path and body of the request that sets the number of replicas."""
        if self.has_scale:
            return f"{self.path}/scale", {"spec": {"replicas": replicas}}
        return self.path, {"spec": {"suspend": not replicas}}

    @classmethod
    def of(cls, path: str, item: "dict[str, Any]") -> "Workload | None":
        """Return a workload, or None if it waits for nothing."""
        metadata: dict[str, Any] = item["metadata"]
        notes: dict[str, str] = metadata.get("annotations") or {}
        status: dict[str, Any] = item.get("status") or {}
        if NEEDS not in notes or REPLICAS not in notes:
            return None
        suspended: bool | None = item["spec"].get("suspend")
        return cls(
            has_scale=suspended is None,
            path=f"{path}/{metadata['name']}",
            name=str(metadata["name"]),
            uid=str(metadata["uid"]),
            needs=tuple(json.loads(notes[NEEDS])),
            wanted=int(notes[REPLICAS]),
            replicas=int(item["spec"].get("replicas", 0 if suspended else 1)),
            is_fresh=notes.get(DELIVERED) == "git" and not status.get("readyReplicas"),
        )


class Gate:
    """Checks the workloads of one namespace.

    Args:
        kube: Client of the API server.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._base = f"namespaces/{kube.namespace}"
        self._version = ""
        self._config = f"api/v1/{self._base}/configmaps"

    def look(self) -> bool:
        """Open the workloads whose weights exist, and return whether any still waits.

        Raises:
            KubeError: The API server rejects a request.
            OSError: The API server does not answer.
        """
        state = self._state()
        waits = False
        held: set[str] = set()
        for workload in self._workloads():
            before = state.get(workload.name, {})
            if before.get("uid") == workload.uid and before.get("open"):
                continue
            is_shut = workload.is_fresh or not workload.replicas
            missing = missing_of(workload.needs) if is_shut else ""
            replicas = 0 if missing else max(workload.replicas, workload.wanted)
            if is_shut and replicas != workload.replicas:
                self._kube.call("PATCH", *workload.change(replicas))
            now = {"open": not missing, "uid": workload.uid, "waits_for": missing}
            if now != before:
                self._keep(workload.name, now)
                text = f"waits for weights: {missing}" if missing else "has its weights"
                say("WARNING" if missing else "INFO", f"{workload.name} {text}")
            waits = waits or bool(missing)
            held |= {workload.name} if missing else set()
        self._wake(held)
        return waits

    def _wake(self, held: "set[str]") -> None:
        """Give a replica to each target that a new autoscaler would leave at zero.

        Args:
            held: Names of workloads that wait for weights; they stay at zero.
        """
        for scaler in self._kube.call("GET", f"{_SCALERS}/{self._base}/horizontalpodautoscalers")[
            "items"
        ]:
            target: dict[str, str] = scaler["spec"]["scaleTargetRef"]
            kind, name = target["kind"], target["name"]
            if name in held or kind not in _TARGETS or not is_stuck(scaler):
                continue
            path = f"{_TARGETS[kind]}/{self._base}/{kind.lower()}s/{name}/scale"
            self._kube.call("PATCH", path, {"spec": {"replicas": 1}})
            say("WARNING", f"{name} gets a replica: its new autoscaler would leave it at zero")

    def wait(self, seconds: int) -> None:
        """Wait until a Deployment changes, or until the timeout."""
        group, plural = _WORKLOADS[0]
        self._kube.wait(f"{group}/{self._base}/{plural}", self._version, seconds)

    def _workloads(self) -> "list[Workload]":
        found: list[Workload] = []
        for group, plural in _WORKLOADS:
            path = f"{group}/{self._base}/{plural}"
            try:
                answer = self._kube.call("GET", path)
            except KubeError as error:
                if error.code == 404:  # the cluster does not have this kind
                    continue
                raise
            if plural == "deployments":
                self._version = str(answer["metadata"]["resourceVersion"])
            each = (Workload.of(path, item) for item in answer["items"])
            found += [workload for workload in each if workload is not None]
        return found

    def _state(self) -> "dict[str, dict[str, Any]]":
        try:
            answer = self._kube.call("GET", f"{self._config}/{STATE}")
        except KubeError as error:
            if error.code != 404:
                raise
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE}}
            answer = self._kube.call("POST", self._config, body)
        texts: dict[str, str] = answer.get("data") or {}
        return {name: json.loads(text) for name, text in texts.items()}

    def _keep(self, name: str, state: "dict[str, Any]") -> None:
        text = json.dumps(state, sort_keys=True)
        self._kube.call("PATCH", f"{self._config}/{STATE}", {"data": {name: text}})


def is_stuck(scaler: "dict[str, Any]") -> bool:
    """Return whether an autoscaler allows zero, found its target there, and will never scale it.

    One that has scaled before (`lastScaleTime`) and is disabled was paused by a person, who set the
    target to zero. See kubernetes v1.37.0, pkg/controller/podautoscaler/horizontal.go,
    getScaledToZeroConditionStatus.
    """
    status: dict[str, Any] = scaler.get("status") or {}
    conditions: list[dict[str, str]] = status.get("conditions") or []
    disabled = any(
        (each["type"], each["status"], each.get("reason"))
        == ("ScalingActive", "False", "ScalingDisabled")
        for each in conditions
    )
    is_new = not status.get("lastScaleTime") and not status.get("currentReplicas")
    return scaler["spec"].get("minReplicas") == 0 and disabled and is_new


def missing_of(needs: "tuple[str, ...]") -> str:
    """Return the first missing item, or ''."""
    try:
        for need in needs:
            if need.startswith(ADAPTER_NEED):
                adapter(place(need.removeprefix(ADAPTER_NEED)))
                continue
            folder, version = split(need)
            at = place(folder)
            whole(at if version is None else at.below(version), version is None, version)
    except (MissingError, BucketError) as missing:
        return str(missing)
    return ""


def main() -> NoReturn:
    """Check the workloads until the pod ends."""
    gate = Gate(Kube())
    while True:
        try:
            waits = gate.look()
            time.sleep(_BREATH_SECONDS)
            gate.wait(_LOOK_SECONDS if waits else _QUIET_SECONDS)
        except (KubeError, OSError, ValueError, http.client.HTTPException) as error:
            say("WARNING", f"looks again in {_RETRY_SECONDS:.0f} s: {error}")
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    main()

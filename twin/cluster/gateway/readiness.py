"""Readiness gates: pods that wait for the load balancers of their pools."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from twin.cluster.base.reports import timestamp
from twin.cluster.gateway.translation.model import GatewayModel
from twin.cluster.gateway.translation.objects import (
    LOAD_BALANCER_READY,
    JsonObject,
    Key,
    gates,
    held,
    is_endpoint,
    key_of,
    mapping,
)
from twin.wire.kube import Kube, KubeError
from twin.world.rules import Rules

_log = logging.getLogger(__name__)
_POOL = "pool/"
Healthy = Callable[[], set[tuple[str, str]]]
"""Returns (backend, address) of the endpoints that pass their health checks."""


@dataclass
class ReadinessGates:
    """Writes the condition of pods with the gate of load balancers (rule neg.readiness-gate)."""

    rules: Rules
    _written: set[str] = field(default_factory=set[str])

    def write(
        self,
        kube: Kube,
        objects: Mapping[str, Mapping[Key, JsonObject]],
        models: Iterable[GatewayModel],
        healthy: Healthy,
    ) -> None:
        """Write the conditions of pods that need to wait no longer.

        Args:
            kube: API server.
            objects: Pods and InferencePools.
            models: Gateways that are served.
            healthy: Returns the endpoints that pass their health checks.
        """
        waiting = [pod for pod in objects["Pod"].values() if self._waits(pod)]
        if not waiting:
            return
        pools = _selectors(objects["InferencePool"], models)
        passing: set[tuple[str, str]] | None = None
        for pod in waiting:
            own = [name for name, selector in pools if _selects(selector, pod)]
            if not own:
                self._open(kube, pod, "LoadBalancerNegReady", "Pod does not belong to any NEG.")
                continue
            if self._is_late(pod):
                text = "Timeout waiting for pod to become healthy in at least one of the NEG(s)."
                self._open(kube, pod, "LoadBalancerNegTimeout", text)
                continue
            if not is_endpoint(pod):
                continue
            passing = healthy() if passing is None else passing
            if any((name, pod["status"]["podIP"]) in passing for name in own):
                self._open(kube, pod, "LoadBalancerNegReady", "Pod has become Healthy in NEG.")

    def _waits(self, pod: JsonObject) -> bool:
        return (
            LOAD_BALANCER_READY in gates(pod)
            and LOAD_BALANCER_READY not in held(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["uid"] not in self._written
        )

    def _is_late(self, pod: JsonObject) -> bool:
        created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).astimezone(UTC)
        return time.time() - created.timestamp() > self.rules.scaled("neg.readiness-gate")

    def _open(self, kube: Kube, pod: JsonObject, reason: str, message: str) -> None:
        namespace, name = key_of(pod)
        condition = {
            "type": LOAD_BALANCER_READY,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(),
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        try:
            kube.patch(path, {"status": {"conditions": [condition]}}, "strategic")
        except KubeError as error:  # the next look tries again
            if error.status not in {404, 409}:
                _log.warning("pod %s/%s: %s", namespace, name, error)
            return
        self._written.add(pod["metadata"]["uid"])


def _selectors(
    pools: Mapping[Key, JsonObject], models: Iterable[GatewayModel]
) -> list[tuple[str, tuple[str, JsonObject]]]:
    """Return backend, namespace and labels of the pools that gateways use."""
    found: list[tuple[str, tuple[str, JsonObject]]] = []
    for name in dict.fromkeys(each.name for model in models for each in model.backends):
        namespace, _, own = name.removeprefix(_POOL).partition("/")
        obj = pools.get((namespace, own)) if name.startswith(_POOL) else None
        if obj is not None:
            found.append((name, (namespace, mapping(obj["spec"]["selector"], "matchLabels"))))
    return found


def _selects(selector: tuple[str, JsonObject], pod: JsonObject) -> bool:
    namespace, wanted = selector
    metadata = pod["metadata"]
    is_own = metadata.get("namespace", "") == namespace
    return is_own and bool(wanted) and wanted.items() <= mapping(metadata, "labels").items()

"""Readiness of pods, and reasons why the pods of a workload are not ready."""

from collections import Counter
from typing import Any

from twin.providers.kubernetes.manifests.fields import entries, section
from twin.providers.kubernetes.waits.state import (
    READY,
    State,
    condition,
    failing,
    is_condition,
    waiting,
)
from twin.wire.kube import JsonObject, Kube, KubeError

_SHOWN = 4
_HARMLESS = frozenset(["ContainerCreating", "PodInitializing", ""])


def pod_ready(pod: JsonObject, kube: Kube) -> State:
    """A pod is ready when its condition is true, or when it completed."""
    phase = section(pod, "status").get("phase")
    if phase == "Succeeded" or is_condition(pod, "Ready"):
        return READY
    reason = why_not_ready(pod, kube)
    return failing(reason) if phase == "Failed" else waiting(reason)


def why_not_ready(pod: JsonObject, kube: Kube | None = None) -> str:
    """Return in one line why a pod is not ready, from scheduler, containers or the last event."""
    status: dict[str, Any] = section(pod, "status")
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}".strip()
    if status.get("phase") == "Failed":
        return f"{status.get('reason') or 'Failed'}: {status.get('message') or _ended(status)}"
    reasons = [
        reason
        for group in ("initContainerStatuses", "containerStatuses")
        for container in entries(status, group)
        if (reason := _container(container))
    ]
    if kube is not None and (not reasons or all("not ready" in reason for reason in reasons)):
        event = _last_warning(pod, kube)
        if event:
            reasons.append(event)
    return "; ".join(reasons) or f"{status.get('phase', 'Pending')}, containers are starting"


def _container(container: dict[str, Any]) -> str:
    state: dict[str, Any] = section(container, "state")
    name = container.get("name")
    wait = section(state, "waiting")
    ended = section(state, "terminated")
    if wait and wait.get("reason", "") not in _HARMLESS:
        return f"container {name}: {wait['reason']}: {wait.get('message', '')}".rstrip(": ")
    if ended and ended.get("exitCode"):
        detail = ended.get("message") or f"exit code {ended['exitCode']}"
        return f"container {name}: {ended.get('reason', 'Error')}: {detail}"
    if state.get("running") and not container.get("ready"):
        return f"container {name}: runs, not ready"
    return ""


def _ended(status: dict[str, Any]) -> str:
    reasons = [_container(entry) for entry in entries(status, "containerStatuses")]
    return "; ".join(reason for reason in reasons if reason) or "the pod failed"


def _last_warning(pod: JsonObject, kube: Kube) -> str:
    """Return the newest warning event about a pod; empty if there is none."""
    metadata = pod["metadata"]
    try:
        events = kube.list(
            f"/api/v1/namespaces/{metadata['namespace']}/events",
            field_selector=f"involvedObject.uid={metadata['uid']},type=Warning",
        )
    except KubeError:
        return ""  # events only explain; without them the rest still stands
    if not events:
        return ""
    last = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
    return f"{last.get('reason')}: {last.get('message')}"


def summary(workload: JsonObject, kube: Kube) -> str:
    """Return why pods of a workload are not ready, with equal reasons grouped."""
    selector = section(workload, "spec", "selector", "matchLabels")
    namespace = workload["metadata"]["namespace"]
    try:
        pods = kube.list(
            f"/api/v1/namespaces/{namespace}/pods",
            label_selector=",".join(f"{key}={value}" for key, value in selector.items()),
        )
    except KubeError as error:
        return f"its pods cannot be listed: {error.message}"
    stuck = [pod for pod in pods if not is_condition(pod, "Ready")]
    reasons = Counter(why_not_ready(pod, kube) for pod in stuck[:20])
    if not pods:
        return _replica_failure(workload)
    parts = [
        f"{count} x {text}" if count > 1 else text for text, count in reasons.most_common(_SHOWN)
    ]
    return "; ".join(parts)


def _replica_failure(workload: JsonObject) -> str:
    failure = condition(workload, "ReplicaFailure")
    return str(failure.get("message", "")) if failure.get("status") == "True" else ""

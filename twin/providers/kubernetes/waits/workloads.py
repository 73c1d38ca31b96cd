"""Rollouts: Deployment, StatefulSet, DaemonSet and Job."""

from twin.providers.kubernetes.manifests.fields import section
from twin.providers.kubernetes.waits import pods
from twin.providers.kubernetes.waits.state import (
    READY,
    State,
    condition,
    failing,
    is_condition,
    waiting,
)
from twin.wire.kube import JsonObject, Kube


def deployment_ready(obj: JsonObject, kube: Kube) -> State:
    """A Deployment is ready when every desired replica has the newest template and is available."""
    spec, status = section(obj, "spec"), section(obj, "status")
    wanted = int(spec.get("replicas", 1))
    if not _observed(obj):
        return waiting("waiting for the controller to see it")
    updated, available = (
        int(status.get("updatedReplicas", 0)),
        int(status.get("availableReplicas", 0)),
    )
    total = int(status.get("replicas", 0))
    if updated >= wanted and available >= wanted and total == updated:
        return READY
    message = _progress(f"{min(updated, available)} of {wanted} replicas ready", obj, kube)
    if condition(obj, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        return failing(message)
    return waiting(message)


def stateful_set_ready(obj: JsonObject, kube: Kube) -> State:
    """A StatefulSet is ready when all its replicas are ready and have the same revision.

    A partition does not shorten the wait. With `OnDelete`, an update needs no new revision.
    """
    spec, status = section(obj, "spec"), section(obj, "status")
    wanted = int(spec.get("replicas", 1))
    if not _observed(obj):
        return waiting("waiting for the controller to see it")
    ready = int(status.get("readyReplicas", 0))
    is_complete = wanted == ready == int(status.get("replicas", 0))
    by_hand = section(spec, "updateStrategy").get("type") == "OnDelete"
    if not by_hand or int(obj["metadata"].get("generation", 1)) == 1:
        revision = status.get("currentRevision")
        is_complete = is_complete and wanted == int(status.get("currentReplicas", 0))
        is_complete = is_complete and bool(revision) and revision == status.get("updateRevision")
    if is_complete:
        return READY
    return waiting(_progress(f"{ready} of {wanted} replicas ready", obj, kube))


def daemon_set_ready(obj: JsonObject, kube: Kube) -> State:
    """A DaemonSet is ready when every eligible node runs its newest pod.

    This also applies with `OnDelete`: you must delete its old pods during the wait.
    """
    status = section(obj, "status")
    if not _observed(obj):
        return waiting("waiting for the controller to see it")
    wanted = int(status.get("desiredNumberScheduled", 0))
    counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    least = min(int(status.get(name, 0)) for name in counts)
    if least >= wanted:
        return READY
    return waiting(_progress(f"{least} of {wanted} nodes ready", obj, kube))


def job_ready(obj: JsonObject, kube: Kube) -> State:
    """A Job is ready when it is complete, even if it was suspended."""
    if is_condition(obj, "Complete"):
        return READY
    failure = condition(obj, "Failed")
    if failure.get("status") == "True":
        return failing(f"{failure.get('reason')}: {failure.get('message')}")
    wanted = int(obj["spec"].get("completions", 1))
    done = int(section(obj, "status").get("succeeded", 0))
    return waiting(_progress(f"{done} of {wanted} pods complete", obj, kube))


def _observed(obj: JsonObject) -> bool:
    seen = int(section(obj, "status").get("observedGeneration", 0))
    return seen >= int(obj["metadata"].get("generation", 0))


def _progress(count: str, obj: JsonObject, kube: Kube) -> str:
    reasons = pods.summary(obj, kube)
    return f"{count}: {reasons}" if reasons else count

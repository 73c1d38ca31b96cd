"""Roll-outs: Deployment, StatefulSet, DaemonSet and Job."""

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
    """A Deployment is ready when every wanted replica is of the newest template and available."""
    spec, status = section(obj, "spec"), section(obj, "status")
    if spec.get("paused"):
        return READY
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
    """A StatefulSet is ready when its replicas are ready and of the newest revision."""
    spec, status = section(obj, "spec"), section(obj, "status")
    wanted = int(spec.get("replicas", 1))
    if not _observed(obj):
        return waiting("waiting for the controller to see it")
    ready = int(status.get("readyReplicas", 0))
    strategy = section(spec, "updateStrategy")
    partition = int(section(strategy, "rollingUpdate").get("partition", 0))
    rolled = (
        strategy.get("type") == "OnDelete"
        or status.get("currentRevision") == status.get("updateRevision")
        or int(status.get("updatedReplicas", 0)) >= wanted - partition
    )
    if ready >= wanted and rolled:
        return READY
    return waiting(_progress(f"{ready} of {wanted} replicas ready", obj, kube))


def daemon_set_ready(obj: JsonObject, kube: Kube) -> State:
    """A DaemonSet is ready when every node that should run its newest pod does."""
    status = section(obj, "status")
    if not _observed(obj):
        return waiting("waiting for the controller to see it")
    wanted = int(status.get("desiredNumberScheduled", 0))
    available = int(status.get("numberAvailable", 0))
    updated = int(status.get("updatedNumberScheduled", 0))
    by_hand = section(obj, "spec", "updateStrategy").get("type") == "OnDelete"
    rolled = by_hand or updated >= wanted
    if available >= wanted and rolled:
        return READY
    return waiting(_progress(f"{min(available, updated)} of {wanted} nodes ready", obj, kube))


def job_ready(obj: JsonObject, kube: Kube) -> State:
    """A Job is ready when it is complete; a suspended one is not waited for."""
    if is_condition(obj, "Complete") or obj["spec"].get("suspend"):
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

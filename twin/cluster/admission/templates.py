"""Pod templates of the workloads that admission sees. Pure."""

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

PATHS: dict[str, tuple[str, ...]] = {
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "Job": ("spec", "template"),
    "Pod": (),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
}
"""Path of the pod template by kind."""


def template_of(workload: JsonObject) -> JsonObject:
    """Return the pod template of a workload; that of a pod is the pod."""
    return part(workload, *PATHS[workload["kind"]])


def is_daemon(workload: JsonObject) -> bool:
    """Return whether the pods of a workload run once on each node."""
    owners = parts(part(workload, "metadata"), "ownerReferences")
    return workload["kind"] == "DaemonSet" or any(each["kind"] == "DaemonSet" for each in owners)


def requested(container: JsonObject, name: str) -> object | None:
    """Return what a container requests of a resource, which is its limit by default."""
    resources = part(container, "resources")
    return part(resources, "requests").get(name, part(resources, "limits").get(name))

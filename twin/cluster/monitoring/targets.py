"""The pods that a PodMonitoring selects, and the labels of their series. Pure.

The labels are those of the Managed Prometheus operator: GoogleCloudPlatform/prometheus-engine,
pkg/operator/apis/monitoring/v1/pod_config.go.
"""

import re
from collections.abc import Callable, Iterable

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.matching import selects
from twin.wire.kube import JsonObject

Resolve = Callable[[JsonObject, int], tuple[str, int]]
"""Returns the actual address and port of a pod's container port."""
_OVER = ("Failed", "Succeeded")
_REPLICA_SET = re.compile(r"^(.+)-[a-z0-9]+$")
_CRON_JOB = re.compile(r"^(.+)-\d{8}$")


def controller_of(pod: JsonObject) -> tuple[str, str]:
    """Return (name, kind) of a pod's top-level owner: a Deployment, not its ReplicaSet."""
    metadata = pod["metadata"]
    for owner in parts(metadata, "ownerReferences"):
        if not owner.get("controller"):
            continue
        name, kind = str(owner["name"]), str(owner["kind"])
        replica_set = _REPLICA_SET.match(name)
        if kind == "ReplicaSet" and replica_set and "pod-template-hash" in metadata["labels"]:
            return replica_set[1], "Deployment"
        cron_job = _CRON_JOB.match(name)
        if kind == "Job" and cron_job:
            return cron_job[1], "CronJob"
        return name, kind
    return "", ""


def selected_pods(monitoring: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the pods that a PodMonitoring or a ClusterPodMonitoring selects."""
    spec = monitoring["spec"]
    namespace = monitoring["metadata"].get("namespace")
    running_only = spec.get("filterRunning") is not False
    return [
        pod
        for pod in pods
        if namespace in (None, pod["metadata"]["namespace"])
        and part(pod, "status").get("podIP")
        and not (running_only and pod["status"].get("phase") in _OVER)
        and selects(part(spec, "selector"), text_map(pod["metadata"], "labels"))
    ]


def targets_of(
    monitoring: JsonObject,
    endpoint: JsonObject,
    pods: Iterable[JsonObject],
    resolve: Resolve,
    cluster: dict[str, str],
) -> list[JsonObject]:
    """Return the targets of one endpoint in the format of Prometheus file discovery.

    Args:
        monitoring: PodMonitoring or ClusterPodMonitoring.
        endpoint: one of its endpoints.
        pods: selected pods.
        resolve: returns the actual address of a pod's port.
        cluster: labels of all series of the cluster.
    """
    found: list[JsonObject] = []
    for pod in pods:
        for number, port_name, container in _ports(pod, endpoint["port"]):
            try:
                address, port = resolve(pod, number)
            except LookupError:
                continue
            labels = cluster | _labels(monitoring, pod, container)
            labels["instance"] = f"{_instance(pod)}:{port_name or number}"
            labels = {key: value for key, value in labels.items() if value}
            found.append({"targets": [f"{address}:{port}"], "labels": labels})
    return found


def _ports(pod: JsonObject, wanted: int | str) -> list[tuple[int, str, str]]:
    """Return (number, name, container) of the selected ports; a number needs no declaration.

    A port number does not determine the container. Prometheus discovers the ports of init
    containers as well, and Managed Prometheus keeps them (prometheus-engine, pod_config.go).
    """
    if isinstance(wanted, int):
        return [(wanted, "", "")]
    return [
        (int(entry["containerPort"]), str(entry["name"]), str(container["name"]))
        for container in (*parts(pod["spec"], "initContainers"), *parts(pod["spec"], "containers"))
        for entry in parts(container, "ports")
        if re.fullmatch(wanted, str(entry.get("name") or ""))
    ]


def _instance(pod: JsonObject) -> str:
    owners = parts(pod["metadata"], "ownerReferences")
    if any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners):
        return str(pod["spec"].get("nodeName", ""))
    return str(pod["metadata"]["name"])


def _labels(monitoring: JsonObject, pod: JsonObject, container: str) -> dict[str, str]:
    wanted: list[str] | None = part(monitoring["spec"], "targetLabels").get("metadata")
    is_namespaced = "namespace" in monitoring["metadata"]
    name, kind = controller_of(pod)
    known = {
        "container": container,
        "namespace": pod["metadata"]["namespace"],
        "node": pod["spec"].get("nodeName", ""),
        "pod": pod["metadata"]["name"],
        "top_level_controller_name": name,
        "top_level_controller_type": kind,
    }
    keys = set(wanted or ())
    if is_namespaced or wanted is None:
        keys.add("namespace")
    labels = {key: known[key] for key in sorted(keys) if key in known}
    held = text_map(pod["metadata"], "labels")
    for mapping in parts(part(monitoring["spec"], "targetLabels"), "fromPod"):
        labels[mapping.get("to") or mapping["from"]] = held.get(mapping["from"], "")
    return labels | {"job": monitoring["metadata"]["name"]}

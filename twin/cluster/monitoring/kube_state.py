"""The kube-state series that GKE collects, in Prometheus' text format. Pure.

Which ones: docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics, packages POD,
DEPLOYMENT, STATEFULSET, DAEMONSET and HPA. Labels and values are those of kube-state-metrics.
"""

from collections.abc import Callable, Iterable

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

Row = tuple[str, tuple[tuple[str, str], ...], float]
"""Name, labels and value of a sample."""
_PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_STATUSES = ("true", "false", "unknown")
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = {"averageValue": "average", "averageUtilization": "utilization", "value": "value"}
_SUFFIXES = {"m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def rows_of(kind: str, obj: JsonObject) -> list[Row]:
    """Return the samples about one object of a kind in `COLLECTIONS`."""
    return COLLECTIONS[kind][1](obj)


def page(rows: Iterable[Row]) -> str:
    """Return samples as a page that Prometheus reads; all are gauges."""
    families: dict[str, list[str]] = {}
    for name, labels, value in rows:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        families.setdefault(name, []).append(f"{name}{{{pairs}}} {value!r}\n")
    return "".join(
        f"# TYPE {name} gauge\n{''.join(lines)}" for name, lines in sorted(families.items())
    )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _pod(pod: JsonObject) -> list[Row]:
    metadata, status = pod["metadata"], part(pod, "status")
    own = (("namespace", metadata["namespace"]), ("pod", metadata["name"]))
    uid = ("uid", metadata["uid"])
    now = status.get("phase", "Unknown")
    rows: list[Row] = [
        ("kube_pod_status_phase", (*own, ("phase", phase), uid), float(phase == now))
        for phase in _PHASES
    ]
    if any(condition.get("reason") == "Unschedulable" for condition in parts(status, "conditions")):
        rows.append(("kube_pod_status_unschedulable", (*own, uid), 1.0))
    for container in parts(status, "containerStatuses"):
        labels = (*own, ("container", container["name"]), uid)
        rows.append(
            ("kube_pod_container_status_ready", labels, float(bool(container.get("ready"))))
        )
        reason = part(container, "state", "waiting").get("reason")
        if reason:
            name = "kube_pod_container_status_waiting_reason"
            rows.append((name, (*labels, ("reason", reason)), 1.0))
    return rows


def _counts(prefix: str, kind: str, fields: dict[str, tuple[str, str]]) -> Callable[..., list[Row]]:
    """Return a function that reads numbers: suffix of the name, and (part, field) it is in."""

    def rows(obj: JsonObject) -> list[Row]:
        metadata = obj["metadata"]
        labels = (("namespace", metadata["namespace"]), (kind, metadata["name"]))
        return [
            (f"{prefix}_{suffix}", labels, float(part(obj, section).get(field) or 0))
            for suffix, (section, field) in fields.items()
        ]

    return rows


def _autoscaler(hpa: JsonObject) -> list[Row]:
    metadata, spec, status = hpa["metadata"], part(hpa, "spec"), part(hpa, "status")
    prefix = "kube_horizontalpodautoscaler"
    own = (
        ("namespace", metadata["namespace"]),
        ("horizontalpodautoscaler", metadata["name"]),
    )
    least = spec.get("minReplicas", 1)
    rows: list[Row] = [
        (f"{prefix}_spec_max_replicas", own, float(spec["maxReplicas"])),
        (f"{prefix}_spec_min_replicas", own, float(least)),
        (f"{prefix}_status_current_replicas", own, float(status.get("currentReplicas") or 0)),
        (f"{prefix}_status_desired_replicas", own, float(status.get("desiredReplicas") or 0)),
    ]
    for condition in parts(status, "conditions"):
        for word in _STATUSES:
            labels = (*own, ("condition", condition["type"]), ("status", word))
            held = float(condition["status"].lower() == word)
            rows.append((f"{prefix}_status_condition", labels, held))
    for metric in parts(spec, "metrics"):
        source: JsonObject = metric[_SOURCES[metric["type"]]]
        name = part(source, "metric").get("name") or source.get("name", "")
        for field, word in _TARGETS.items():
            wanted = part(source, "target").get(field)
            if wanted is not None:
                labels = (*own, ("metric_name", name), ("metric_target_type", word))
                rows.append((f"{prefix}_spec_target_metric", labels, quantity(str(wanted))))
    return rows


def quantity(text: str) -> float:
    """Return a Kubernetes quantity such as `800m` as a number.

    Raises:
        ValueError: it is none.
    """
    for suffix, factor in sorted(_SUFFIXES.items(), key=lambda item: -len(item[0])):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


COLLECTIONS: dict[str, tuple[str, Callable[[JsonObject], list[Row]]]] = {
    "Pod": ("/api/v1/pods", _pod),
    "Deployment": (
        "/apis/apps/v1/deployments",
        _counts(
            "kube_deployment",
            "deployment",
            {
                "spec_replicas": ("spec", "replicas"),
                "status_replicas_available": ("status", "availableReplicas"),
                "status_replicas_updated": ("status", "updatedReplicas"),
            },
        ),
    ),
    "StatefulSet": (
        "/apis/apps/v1/statefulsets",
        _counts(
            "kube_statefulset",
            "statefulset",
            {
                "replicas": ("spec", "replicas"),
                "status_replicas_ready": ("status", "readyReplicas"),
                "status_replicas_updated": ("status", "updatedReplicas"),
            },
        ),
    ),
    "DaemonSet": (
        "/apis/apps/v1/daemonsets",
        _counts(
            "kube_daemonset",
            "daemonset",
            {
                "status_desired_number_scheduled": ("status", "desiredNumberScheduled"),
                "status_number_misscheduled": ("status", "numberMisscheduled"),
                "status_number_ready": ("status", "numberReady"),
                "status_updated_number_scheduled": ("status", "updatedNumberScheduled"),
            },
        ),
    ),
    "HorizontalPodAutoscaler": (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        _autoscaler,
    ),
}
"""Collection of each kind, and what is told about one of its objects."""

"""Metrics of Kueue in Managed Prometheus: who may read them, and which are stored.

Kueue serves metrics over TLS, with a certificate that it signs itself, to callers whose token may
get `/metrics` (sigs.k8s.io/kueue v0.19.2, cmd/kueue/main.go). Managed Prometheus sends a token from
a Secret that its collector may read (GoogleCloudPlatform/prometheus-engine,
examples/inference-optimized-gateway/secret.yaml).
"""

from typing import Final

from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    role_binding,
    service_account,
)
from gke_inference.catalogue.managed_prometheus import COLLECTOR

from .queue_permissions import rule

METRICS_PORT: Final = 8443
METRICS: Final = (
    "kueue_admission_wait_time_seconds_(bucket|count|sum)",
    "kueue_admitted_active_workloads",
    "kueue_cluster_queue_nominal_quota",
    "kueue_cluster_queue_resource_usage",
    "kueue_evicted_workloads_total",
    "kueue_pending_workloads",
)
"""Stored metrics, as regular expressions (pkg/metrics/metrics.go)."""
JOB: Final = "kueue"
"""Name of the PodMonitoring, the label `job` of its series."""

_COMPONENT: Final = "queue-monitoring"
_READER: Final = "kueue-metrics-reader"
_CHECKER: Final = "kueue-metrics-auth-role"
_COLLECTORS_ROLE: Final = "kueue-metrics-collector-role"


def monitoring_objects(
    operator: str, namespace: str, collectors: str, selector: dict[str, str]
) -> dict[str, Manifest]:
    """Return the objects by role, in creation order: Kubernetes deletes a token without an account.

    Args:
        operator: Service account of Kueue, which checks the tokens of callers.
        namespace: Namespace of Kueue.
        collectors: Namespace of the Managed Prometheus collectors.
        selector: Labels of Kueue's pods.
    """
    labels = labels_for(JOB, _COMPONENT)
    checks = [
        rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]
    reads = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    secret = rule("", ["secrets"], ["get", "list", "watch"], [_READER])
    kueue, reader = service_account(operator, namespace), service_account(_READER, namespace)
    collector = service_account(COLLECTOR, collectors)
    return {
        "checker": manifest("cluster_role", _CHECKER, labels=labels, rules=checks),
        "checking": role_binding(f"{_CHECKER}binding", _CHECKER, [kueue], labels=labels),
        "reader": manifest("service_account", _READER, namespace, labels=labels),
        "may-read": manifest("cluster_role", _READER, labels=labels, rules=reads),
        "reading": role_binding(f"{_READER}-binding", _READER, [reader], labels=labels),
        "token": manifest(
            "secret",
            _READER,
            namespace,
            annotations={"kubernetes.io/service-account.name": _READER},
            labels=labels,
            type="kubernetes.io/service-account-token",
        ),
        "may-collect": manifest("role", _COLLECTORS_ROLE, namespace, labels=labels, rules=[secret]),
        "collecting": role_binding(
            f"{_COLLECTORS_ROLE}binding", _COLLECTORS_ROLE, [collector], namespace, labels=labels
        ),
        "monitoring": _pod_monitoring(namespace, labels, selector),
    }


def _pod_monitoring(namespace: str, labels: dict[str, str], selector: dict[str, str]) -> Manifest:
    keep = {"action": "keep", "regex": "|".join(METRICS), "sourceLabels": ["__name__"]}
    secret = {"key": "token", "name": _READER}
    return manifest(
        "pod_monitoring",
        JOB,
        namespace,
        labels=labels,
        spec={
            "endpoints": [
                {
                    "authorization": {"credentials": {"secret": secret}},
                    "interval": "30s",
                    "metricRelabeling": [keep],
                    "path": "/metrics",
                    "port": "metrics",
                    "scheme": "https",
                    "tls": {"insecureSkipVerify": True},  # upstream's monitor does so too
                }
            ],
            "selector": {"matchLabels": selector},
        },
    )

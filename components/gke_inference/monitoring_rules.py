"""PromQL of one model: what is recorded, and what wakes somebody up."""

from .engine_metrics import (
    KV_CACHE_USE,
    PREEMPTIONS,
    QUEUE_LENGTH,
    RUNNING,
    TIME_TO_FIRST_TOKEN,
    UNPLACED_REPLICAS,
)
from .manifests import Manifest

_KV_CACHE_FULL = 0.95
_REFUSED_SHARE = 0.05
_SUMMARIES = {
    "AcceleratorsNotObtained": "Replicas wait for accelerators on every rung they may use.",
    "FirstTokenTooSlow": "One request in twenty waits longer for its first token than the SLO.",
    "KvCacheFull": "A replica has no KV cache left; requests queue or are preempted.",
    "NoReadyReplica": "No replica is ready; every request fails.",
    "QueueTooLong": "Requests wait on every replica: more are needed than there are.",
    "RequestsPreempted": "Computed KV cache is thrown away: context or batch is too large.",
    "RequestsRefused": "The picker refuses more than one request in twenty.",
}


def recording_rules(model: str, namespace: str, deployment: str) -> list[Manifest]:
    """Returns the series another Deployment's autoscaler fills in for: replicas without a node."""
    return [
        {
            "expr": _pending(namespace, f"{deployment}-.*"),
            "labels": {"model": model},
            "record": UNPLACED_REPLICAS,
        }
    ]


def alert_rules(
    model: str,
    namespace: str,
    deployments: list[str],
    *,
    pool_name: str | None,
    queue_limit: int,
    ttft_p95_ms: int | None,
) -> list[Manifest]:
    """Returns the alerts of a model; `job` is the name of its PodMonitoring, the model's key.

    Readiness is judged by what is scraped: an engine answers `/metrics` once it serves, and the
    picker's own `inference_pool_ready_pods` keeps its last value when the last replica is gone
    (v1.2.0, pkg/epp/backend/metrics/logger.go).
    """
    job = f'{{job="{model}"}}'
    pending = _pending(namespace, _any_pod_of(deployments))
    rules = [
        _alert("NoReadyReplica", "critical", "2m", f"absent({RUNNING}{job})"),
        _alert("QueueTooLong", "warning", "5m", f"avg({QUEUE_LENGTH}{job}) > {queue_limit}"),
        _alert("KvCacheFull", "warning", "10m", f"max({KV_CACHE_USE}{job}) > {_KV_CACHE_FULL}"),
        _alert("RequestsPreempted", "warning", "10m", f"sum(rate({PREEMPTIONS}{job}[5m])) > 0"),
        _alert("AcceleratorsNotObtained", "warning", "15m", f"{pending} > 0"),
    ]
    if pool_name is not None:
        rules.append(_alert("RequestsRefused", "warning", "5m", _refused_share(pool_name)))
    if ttft_p95_ms is not None:
        buckets = f"sum by (le) (rate({TIME_TO_FIRST_TOKEN}_bucket{job}[5m]))"
        slow = f"histogram_quantile(0.95, {buckets}) > {ttft_p95_ms / 1000}"
        rules.append(_alert("FirstTokenTooSlow", "critical", "5m", slow))
    for rule in rules:
        rule["annotations"] = {"summary": f"{model}: {_SUMMARIES[rule['alert']]}"}
        rule["labels"]["model"] = model
    return rules


def _pending(namespace: str, pods: str) -> str:
    return f'sum(kube_pod_status_phase{{phase="Pending",namespace="{namespace}",pod=~"{pods}"}})'


def _any_pod_of(deployments: list[str]) -> str:
    names = sorted(deployments)
    return f"{names[0]}-.*" if len(names) == 1 else f"({'|'.join(names)})-.*"


def _refused_share(pool_name: str) -> str:
    job = f'{{job="{pool_name}-picker"}}'
    refused = f"sum(rate(inference_objective_request_error_total{job}[5m]))"
    return f"{refused} / sum(rate(inference_objective_request_total{job}[5m])) > {_REFUSED_SHARE}"


def _alert(name: str, severity: str, lasting: str, expression: str) -> Manifest:
    return {"alert": name, "expr": expression, "for": lasting, "labels": {"severity": severity}}

"""PromQL of one model: the series that are recorded for its autoscalers."""

from .engine_metrics import UNPLACED_REPLICAS
from .manifests import Manifest


def recording_rules(model: str, namespace: str, deployment: str) -> list[Manifest]:
    """Returns the series another Deployment's autoscaler fills in for: replicas without a node."""
    return [
        {
            "expr": _pending(namespace, f"{deployment}-.*"),
            "labels": {"model": model},
            "record": UNPLACED_REPLICAS,
        }
    ]


def _pending(namespace: str, pods: str) -> str:
    return f'sum(kube_pod_status_phase{{phase="Pending",namespace="{namespace}",pod=~"{pods}"}})'

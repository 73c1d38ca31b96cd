"""PromQL of one model: the series that are recorded for its autoscalers."""

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engine_metrics import UNPLACED_REPLICAS


def recording_rules(
    model: str, namespace: str, deployment: str, *, is_group: bool = False
) -> list[Manifest]:
    """Returns the series another Deployment's autoscaler fills in for: replicas without a node.

    Of a LeaderWorkerSet only leaders count, which are called NAME-GROUP.
    """
    pods = f"{deployment}-[0-9]+" if is_group else f"{deployment}-.*"
    return [
        {
            "expr": _pending(namespace, pods),
            "labels": {"model": model},
            "record": UNPLACED_REPLICAS,
        }
    ]


def _pending(namespace: str, pods: str) -> str:
    return f'sum(kube_pod_status_phase{{phase="Pending",namespace="{namespace}",pod=~"{pods}"}})'

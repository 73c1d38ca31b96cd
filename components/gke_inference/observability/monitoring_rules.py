"""PromQL of one model: the recorded series for its autoscalers."""

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engine_metrics import UNPLACED_REPLICAS


def recording_rules(
    model: str, namespace: str, deployment: str, *, is_group: bool = False
) -> list[Manifest]:
    """Return the series that another Deployment's autoscaler follows: replicas without a node.

    Of a LeaderWorkerSet, only leaders count, which are named NAME-GROUP. A pod that has a node and
    pulls its image is also Pending but needs no replacement, so only pods that the scheduler could
    not place count. The metric exists for such pods only, and an autoscaler whose metric has no
    value never scales in, so the absence of pods is recorded as 0.
    """
    pods = f"{deployment}-[0-9]+" if is_group else f"{deployment}-.*"
    return [
        {
            "expr": _unschedulable(namespace, pods),
            "labels": {"model": model},
            "record": UNPLACED_REPLICAS,
        }
    ]


def _unschedulable(namespace: str, pods: str) -> str:
    """Return the expression for the number of pods that cannot be scheduled.

    In GKE's package POD (docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics).
    """
    return (
        f'sum(kube_pod_status_unschedulable{{namespace="{namespace}",pod=~"{pods}"}}) or vector(0)'
    )

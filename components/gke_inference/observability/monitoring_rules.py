"""PromQL of one model: the series that are recorded for its autoscalers."""

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engine_metrics import UNPLACED_REPLICAS


def recording_rules(
    model: str, namespace: str, deployment: str, *, is_group: bool = False
) -> list[Manifest]:
    """Returns the series another Deployment's autoscaler fills in for: replicas without a node.

    Of a LeaderWorkerSet only leaders count, which are called NAME-GROUP. A pod that has a node and
    pulls its image is Pending, too, and needs no other: what counts is what the scheduler could not
    place. The metric exists for such pods only, and an autoscaler with a metric that has no value
    never scales in, so that nothing is recorded as 0.
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
    """Returns the count of pods that no node takes.

    In GKE's package POD (docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics).
    """
    return (
        f'sum(kube_pod_status_unschedulable{{namespace="{namespace}",pod=~"{pods}"}}) or vector(0)'
    )

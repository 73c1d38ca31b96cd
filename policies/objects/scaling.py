"""The autoscaler of a workload, and the number of replicas that it may have."""

from policies.framework.reading import entries
from policies.objects.index import Obj
from policies.objects.pods import PodOf


def scaler_of(pod: PodOf) -> Obj | None:
    """Return the HorizontalPodAutoscaler of a workload, or of the set of a RayCluster, if any."""
    at = _set_of(pod)
    name = (pod.obj.kind, pod.obj.name) if at is None else (at[0].kind, at[0].name)
    for each in pod.world.of("HorizontalPodAutoscaler"):
        target = ("spec", "scaleTargetRef")
        found = (each.at(*target, "kind"), each.at(*target, "name"))
        if each.namespace == pod.obj.namespace and found == name:
            return each
    return None


def replicas(pod: PodOf) -> tuple[int, int]:
    """Return the minimum and maximum number of replicas of a workload.

    A RayCluster is one replica of its set, and the minimum counts only the first clusters.
    """
    scaler, at = scaler_of(pod), _set_of(pod)
    if scaler is None:
        return pod.replicas, pod.replicas
    low, high = scaler.at("spec", "minReplicas"), scaler.at("spec", "maxReplicas")
    low, high = int(1 if low is None else low), int(high or 1)
    return (low, high) if at is None else (int(at[1] < low), int(at[1] < high))


def _set_of(pod: PodOf) -> tuple[Obj, int] | None:
    """Return the RayClusterSet of a RayCluster and its index in it, if any."""
    if pod.obj.kind != "RayCluster":
        return None
    for each in pod.world.of("RayClusterSet"):
        names = [str(name) for name in entries(each.body, "spec", "clusters")]
        if each.namespace == pod.obj.namespace and pod.obj.name in names:
            return each, names.index(pod.obj.name)
    return None

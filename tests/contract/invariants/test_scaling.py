"""How many replicas a workload may have."""

from typing import Any

from policies.objects.index import Obj
from policies.objects.scaling import replicas, scaler_of
from policies.objects.world import World

TEMPLATE = {"metadata": {}, "spec": {"containers": [{"name": "vllm", "image": "vllm:1"}]}}


def obj(version: str, kind: str, name: str, **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": "models"}
    return Obj({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, "")


def cluster(number: int) -> Obj:
    workers = [{"replicas": 1, "template": TEMPLATE}]
    head = {"template": TEMPLATE}
    name = f"big-{number}"
    return obj("ray.io/v1", "RayCluster", name, headGroupSpec=head, workerGroupSpecs=workers)


def scaler(kind: str, name: str, least: int, most: int) -> Obj:
    target = {"kind": kind, "name": name}
    bounds = {"maxReplicas": most, "minReplicas": least}
    return obj("autoscaling/v2", "HorizontalPodAutoscaler", name, scaleTargetRef=target, **bounds)


def found(*objects: Obj) -> dict[str, tuple[int, int]]:
    return {pod.obj.name: replicas(pod) for pod in World("c", objects, None).pods}


def test_a_workload_has_as_many_as_its_autoscaler_allows_or_its_own():
    one = obj("apps/v1", "Deployment", "a", replicas=3, template=TEMPLATE)
    assert found(one) == {"a": (3, 3)}
    assert found(one, scaler("Deployment", "a", 0, 5)) == {"a": (0, 5)}
    assert found(one, scaler("LeaderWorkerSet", "a", 0, 5)) == {"a": (3, 3)}


def test_a_ray_cluster_is_one_replica_of_its_set_and_only_the_first_ones_always_run():
    names = ["big-0", "big-1", "big-2"]
    made = obj("gke-inference.internal/v1", "RayClusterSet", "big", clusters=names, replicas=1)
    scaled = scaler("RayClusterSet", "big", 1, 2)
    objects = (*map(cluster, range(4)), made, scaled)
    assert found(*objects) == {"big-0": (1, 1), "big-1": (0, 1), "big-2": (0, 0), "big-3": (1, 1)}
    world = World("c", objects, None)
    by_name = {pod.obj.name: scaler_of(pod) for pod in world.pods}
    assert by_name == {"big-0": scaled, "big-1": scaled, "big-2": scaled, "big-3": None}

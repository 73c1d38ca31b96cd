"""Multi-host models as KubeRay clusters: one RayCluster for each replica.

Like the leader of a LeaderWorkerSet, the head runs vLLM's server and holds a part of the model. A
worker on every other host holds the rest. An InferencePool therefore has one endpoint for each
replica, with vLLM's own metrics. docs/adr/0040-ray-clusters.md explains why this is not a
RayService.

Differences from the groups of a LeaderWorkerSet:

- A RayCluster has no scale. All clusters exist, those beyond the number of replicas are suspended,
  and a RayClusterSet has the scale (see `serving.ray`).
- KubeRay does not update running pods when their template changes, so a change replaces the
  cluster.
- KubeRay re-creates single pods, not the group. If a host is lost, the engine ends and workers end
  with the Ray head. The kubelet restarts both.

Sources: ray-project/kuberay v1.5.1, controllers/ray/common/pod.go and service.go; docs.vllm.ai
projects/production-stack, pipeline parallelism with KubeRay. Not tested on real hardware.
"""

from typing import Final

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.catalogue.input_error import InputError
from gke_inference.serving.groups import Meeting, leader_and_worker
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.pod_spec import Pod

HOSTS_VARIABLE: Final = "RAY_CLUSTER_HOSTS"
"""Environment variable of the head that contains the number of hosts in its cluster."""
CLUSTER_LABEL: Final = "ray.io/cluster"

_KUBERAY: Final = Meeting("FQ_RAY_IP", HOSTS_VARIABLE, CLUSTER_LABEL)
_LONGEST_NAME: Final = 53  # kuberay v1.5.1, utils.MaxRayClusterNameLength
_OWN_COMMAND: Final = "ray.io/overwrite-container-cmd"
_WORKERS: Final = "hosts"


def ray_clusters(
    name: str,
    namespace: str,
    pod: Pod,
    node: Hardware,
    server: Manifest,
    serving: Serving,
    *,
    replicas: int,
    most: int,
) -> dict[str, Manifest]:
    """Return the RayClusters by index. As with groups, Pulumi does not wait for them.

    Those from index `replicas` are suspended: they have no pods until an autoscaler needs them.

    Args:
        name: Name prefix of the clusters.
        namespace: Namespace of the model's servers.
        pod: Settings that all pods of the model share.
        node: Hardware of one host, and the number of hosts.
        server: Pod template of a server on one host, with the arguments of the whole cluster.
        serving: Serving configuration of a cluster.
        replicas: Initial number of clusters that run.
        most: Number of clusters.

    Raises:
        InputError: KubeRay would reject their names.
    """
    longest = cluster_name(name, most - 1)
    if len(longest) > _LONGEST_NAME:
        rule = f"must be shorter: its Ray clusters may have names of {_LONGEST_NAME} characters"
        raise InputError("model", rule, longest)
    head, worker = leader_and_worker(pod, node, server, serving, _KUBERAY)
    hosts = {"name": HOSTS_VARIABLE, "value": str(node.hosts)}
    head["spec"]["containers"][0]["env"].append(hosts)
    _watch_the_process(worker["spec"]["containers"][0])
    workers = node.hosts - 1
    return {
        str(number): manifest(
            "ray_cluster",
            cluster_name(name, number),
            namespace,
            # KubeRay would insert its own `ray start` before commands that it does not recognize.
            annotations={_OWN_COMMAND: "true", "pulumi.com/skipAwait": "true"},
            labels=server["metadata"]["labels"],
            spec={
                "headGroupSpec": {"rayStartParams": {}, "template": head},
                "suspend": number >= replicas,
                "workerGroupSpecs": [
                    {
                        "groupName": _WORKERS,
                        "maxReplicas": workers,
                        "minReplicas": workers,
                        "rayStartParams": {},
                        "replicas": workers,
                        "template": worker,
                    }
                ],
            },
        )
        for number in range(most)
    }


def cluster_name(name: str, number: int) -> str:
    """Return the name of a cluster by its index. `name` is the prefix of a model's clusters."""
    return f"{name}-{number}"


def _watch_the_process(container: Manifest) -> None:
    """Add a liveness probe to a worker that passes while its process runs.

    Without one, KubeRay adds a probe that queries Ray's dashboard agent with wget, which some
    engine images do not have. `ray start --block` ends by itself when its node is lost.
    """
    container["livenessProbe"] = {
        "exec": {"command": ["true"]},
        "failureThreshold": 3,
        "periodSeconds": 60,
    }

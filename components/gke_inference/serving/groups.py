"""A model over several hosts: one group of pods for each replica, as a LeaderWorkerSet.

The leader serves; a worker on every other host holds its part of the model. What follows:

- one group is one replica: on TPU one slice, whose nodes are a pool of their own and come and go
  together; on GPU as many nodes as the rung says, in one zone where there is room;
- a pod that ends or restarts ends its group: what is left of a model split over hosts answers
  nothing, and a process that joins later finds its collectives half open. Requests on that group
  fail, visibly; others go to other groups;
- a worker that is asked to go waits until its leader has answered what it has, as the leader does;
- only leaders carry the label that the InferencePool, the PodMonitoring and the autoscaler select.

Sources: sigs.k8s.io/lws v0.9.0; docs.vllm.ai deployment/frameworks/lws and
serving/parallelism_scaling; vllm-project/tpu-inference @b8692ff for Ray on TPU. Not tried on real
hardware.
"""

import copy

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launch import HEALTH_PORT, command
from gke_inference.serving.launcher.spec import PORT, Serving
from gke_inference.serving.pod_spec import HARDWARE_LABEL, MODEL_LABEL, STARTUP_MINUTES, Pod

WORKER_LABEL = "gke-inference/worker-of"
GROUP_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_NODE_POOL = "cloud.google.com/gke-nodepool"
_ZONE = "topology.kubernetes.io/zone"
_RAY_PORT = 6379
_CHECK_SECONDS = 15
_LEADER = f'"http://" + os.environ["LWS_LEADER_ADDRESS"] + ":{PORT}"'

RAY_HEAD = f"""\
set -eu
ray start --head --port={_RAY_PORT} --disable-usage-stats
python3 - <<'END'
import os, ray, time
ray.init(address="auto")
while sum(node["Alive"] for node in ray.nodes()) < int(os.environ["LWS_GROUP_SIZE"]):
    time.sleep(2)
END
"""
"""Starts Ray's head and waits until every host has joined."""

RAY_WORKER = f"""\
set -eu
until ray health-check --address "$LWS_LEADER_ADDRESS:{_RAY_PORT}" >/dev/null 2>&1; do sleep 2; done
exec ray start --address="$LWS_LEADER_ADDRESS:{_RAY_PORT}" --block
"""
"""Joins the leader's Ray and ends when that ends."""

DRAIN = """\
import os, sys, time, urllib.request
time.sleep({settle})
end = time.monotonic() + {longest}
busy = ("vllm:num_requests_running", "vllm:num_requests_waiting{{")
while time.monotonic() < end:
    with urllib.request.urlopen({metrics}, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    if not sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(busy)):
        sys.exit()
    time.sleep(1)
"""
"""Keeps a worker, whose loss would end the group, until its leader has no request left."""

_LEADER_CHECK = f"""\
import os, urllib.request
urllib.request.urlopen({_LEADER} + "/health", timeout=5)
"""
_LEADER_STARTED = f"""\
import os, urllib.request
leader = os.environ["LWS_LEADER_ADDRESS"]
urllib.request.urlopen("http://" + leader + ":{HEALTH_PORT}/startz", timeout=5)
"""


def group_of(
    name: str,
    namespace: str,
    pod: Pod,
    node: Hardware,
    server: Manifest,
    serving: Serving,
    *,
    replicas: int,
    updates: Manifest,
) -> Manifest:
    """Returns the LeaderWorkerSet; nothing waits for it, as a slice may be out of stock for hours.

    Args:
        name: of the set, and of its autoscaler.
        namespace: of the model's servers.
        pod: what all pods of the model have in common.
        node: hardware of one host, and how many there are.
        server: pod template of a server on one host, with the arguments of the whole group.
        serving: what the group serves.
        replicas: groups at the start.
        updates: `maxSurge` and `maxUnavailable`.
    """
    leader = copy.deepcopy(server)
    _speak(leader["spec"]["containers"][0], serving)
    if node.kind == "gpu":
        leader["spec"]["affinity"] = _near_its_group(pod, node)
    worker = _worker(pod, leader, serving)
    annotations = {"pulumi.com/skipAwait": "true"}
    if node.kind == "tpu":
        annotations[EXCLUSIVE] = _NODE_POOL
    return manifest(
        "leader_worker_set",
        name,
        namespace,
        annotations=annotations,
        labels=server["metadata"]["labels"],
        spec={
            "leaderWorkerTemplate": {
                "leaderTemplate": leader,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "size": node.hosts,
                "workerTemplate": worker,
            },
            # A headless Service for each group: names of one group never point into another.
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "replicas": replicas,
            "rolloutStrategy": {
                "rollingUpdateConfiguration": {**updates, "partition": 0},
                "type": "RollingUpdate",
            },
            "startupPolicy": "LeaderCreated",
        },
    )


def group_pods_labels(pod: Pod) -> dict[str, str]:
    """Returns labels that all pods of a model have, leaders, workers and single servers."""
    return {"app.kubernetes.io/component": "model-server", "app.kubernetes.io/name": pod.model}


def _speak(container: Manifest, serving: Serving) -> None:
    """Gives a leader the command and environment of its group's way to span hosts."""
    container["env"].append(
        {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    )
    if serving.spanning == "ray":
        if serving.kind == "tpu":
            container["env"].append({"name": "TPU_MULTIHOST_BACKEND", "value": "ray"})
        serve = f'exec {" ".join(command(serving))} "$@"\n'
        container["command"] = ["bash", "-c", RAY_HEAD + serve, "engine"]


def _worker(pod: Pod, leader: Manifest, serving: Serving) -> Manifest:
    template = copy.deepcopy(leader)
    labels = template["metadata"]["labels"]
    del labels[MODEL_LABEL]
    labels[WORKER_LABEL] = pod.model
    template["spec"].pop("topologySpreadConstraints", None)
    container = template["spec"]["containers"][0]
    drain = DRAIN.format(
        longest=pod.longest_request_seconds,
        metrics=f'{_LEADER} + "/metrics"',
        settle=pod.settle_seconds,
    )
    container["lifecycle"] = {"preStop": {"exec": {"command": ["python3", "-c", drain]}}}
    for name in ("livenessProbe", "ports"):
        container.pop(name)
    # Ready with its leader, and given as long to start: LeaderWorkerSet counts whole groups.
    container["readinessProbe"] = {**_asks(_LEADER_CHECK), "periodSeconds": _CHECK_SECONDS}
    container["startupProbe"] = {
        **_asks(_LEADER_STARTED),
        "failureThreshold": STARTUP_MINUTES * 60 // _CHECK_SECONDS,
        "periodSeconds": _CHECK_SECONDS,
    }
    if serving.spanning == "ray":
        container["command"] = ["bash", "-c", RAY_WORKER]
        del container["args"]
    else:
        # It has no API, so there is nothing for a launcher to ask: it finds the weights, and goes.
        container["command"] = command(serving, ["--worker"])
        container["args"] = [*container["args"], "--headless"]
    return template


def _asks(program: str) -> Manifest:
    return {"exec": {"command": ["python3", "-c", program]}, "timeoutSeconds": 10}


def _near_its_group(pod: Pod, node: Hardware) -> Manifest:
    """Returns the wish for one zone: stages talk at every token. A wish, as a zone may be full."""
    term = {
        "labelSelector": {"matchLabels": {**group_pods_labels(pod), HARDWARE_LABEL: node.kind}},
        "matchLabelKeys": [GROUP_INDEX_LABEL],
        "topologyKey": _ZONE,
    }
    return {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"podAffinityTerm": term, "weight": 100}
            ]
        }
    }

"""Multi-host models as a LeaderWorkerSet: one group of pods for each replica.

The leader serves, and a worker on every other host holds its part of the model.

- One group is one replica. On TPU, it is one slice, whose nodes form a pool of their own and are
  created and deleted together. On GPU, it is as many nodes as the rung specifies, in one zone where
  there is room.
- A pod that ends or restarts ends its group, because the rest of a split model cannot answer, and a
  process that joins later cannot enter open collectives. Requests on that group fail with an error.
  New requests go to other groups.
- A worker that is being terminated waits until its leader has finished its open requests, as the
  leader does.
- With expert parallelism and hybrid load balancing, every pod serves the requests of its own
  devices and carries the labels of a leader. All pods of a group drain together (`drain.Group`).
- Otherwise, only leaders carry the label that the InferencePool and the PodMonitoring select.
- The autoscaler reads the metrics of leaders only, in both cases: `status.hpaPodSelector` of a
  LeaderWorkerSet selects worker index 0.

Sources: sigs.k8s.io/lws v0.9.0; docs.vllm.ai deployment/frameworks/lws and
serving/parallelism_scaling; vllm-project/tpu-inference @b8692ff for Ray on TPU. Not tested on real
hardware.
"""

import copy
from dataclasses import dataclass

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launch import HEALTH_PORT, command
from gke_inference.serving.launcher.spec import PORT, Serving
from gke_inference.serving.pod_spec import (
    HARDWARE_LABEL,
    MODEL_LABEL,
    Pod,
    model_pods_labels,
)
from gke_inference.serving.rdma import close_together
from gke_inference.serving.startup import start_minutes

WORKER_LABEL = "gke-inference/worker-of"
GROUP_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_NODE_POOL = "cloud.google.com/gke-nodepool"
_ZONE = "topology.kubernetes.io/zone"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OWN_GROUP = 10
"""Weight of nodes close to the own group; those close to the other role have 1."""
_RAY_PORT = 6379
_CHECK_SECONDS = 15


@dataclass(frozen=True)
class Meeting:
    """Variables and label that the operator sets, and by which a group's pods find each other."""

    leader: str
    """Environment variable of workers that contains the leader's address."""
    size: str
    """Environment variable of the leader that contains the number of hosts."""
    label: str
    """Label whose value all pods of a group share."""

    @property
    def url(self) -> str:
        """Python expression for the URL of the leader's API."""
        return f'"http://" + os.environ["{self.leader}"] + ":{PORT}"'

    @property
    def ray_head(self) -> str:
        """Script that starts the Ray head and waits until every host has joined."""
        return _RAY_HEAD.format(port=_RAY_PORT, size=self.size)

    @property
    def ray_worker(self) -> str:
        """Script that joins the leader's Ray cluster and ends when the cluster ends."""
        return _RAY_WORKER.format(leader=self.leader, port=_RAY_PORT)


LEADER_WORKER_SET = Meeting("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", GROUP_INDEX_LABEL)

_RAY_HEAD = """\
set -eu
ray start --head --port={port} --disable-usage-stats
python3 - <<'END'
import os, ray, time
ray.init(address="auto")
while sum(node["Alive"] for node in ray.nodes()) < int(os.environ["{size}"]):
    time.sleep(2)
END
"""
_RAY_WORKER = """\
set -eu
command -v ray >/dev/null || {{ echo "ray: not found: this image has no Ray" >&2; exit 127; }}
tries=0
until said=$(ray health-check --address "${leader}:{port}" 2>&1); do
  tries=$((tries + 1))
  if [ $((tries % 30)) -eq 1 ]; then echo "waiting for Ray on ${leader}:{port}: $said" >&2; fi
  sleep 2
done
exec ray start --address="${leader}:{port}" --block
"""

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
"""preStop hook that keeps a worker running until its leader has no open requests.

Losing the worker would end the group.
"""

_LEADER_CHECK = """\
import os, urllib.request
urllib.request.urlopen({url} + "/health", timeout=5)
"""
_LEADER_STARTED = """\
import os, urllib.request
leader = os.environ["{leader}"]
urllib.request.urlopen("http://" + leader + ":{port}/startz", timeout=5)
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
    """Return the LeaderWorkerSet.

    Pulumi does not wait for it, because a slice may be out of stock for hours.

    Args:
        name: Name of the set and of its autoscaler.
        namespace: Namespace of the model's servers.
        pod: Settings that all pods of the model share.
        node: Hardware of one host, and the number of hosts.
        server: Pod template of a server on one host, with the arguments of the whole group.
        serving: Serving configuration of the group.
        replicas: Initial number of groups.
        updates: `maxSurge` and `maxUnavailable`.
    """
    leader, worker = leader_and_worker(pod, node, server, serving, LEADER_WORKER_SET)
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
            # Each group has its own headless Service, so its names never resolve to another group.
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "replicas": replicas,
            "rolloutStrategy": {
                "rollingUpdateConfiguration": {**updates, "partition": 0},
                "type": "RollingUpdate",
            },
            "startupPolicy": "LeaderCreated",
        },
    )


def leader_and_worker(
    pod: Pod, node: Hardware, server: Manifest, serving: Serving, meeting: Meeting
) -> tuple[Manifest, Manifest]:
    """Return the pod templates of a group.

    Args:
        pod: Settings that all pods of the model share.
        node: Hardware of one host.
        server: Pod template of a server on one host, with the arguments of the whole group.
        serving: Serving configuration of the group.
        meeting: How the pods of the group find each other.
    """
    leader = copy.deepcopy(server)
    _speak(leader["spec"]["containers"][0], serving, meeting)
    if node.kind == "gpu":
        others = leader["spec"].get("affinity", {}).get("podAffinity", {})
        leader["spec"]["affinity"] = _near_its_group(pod, node, meeting, others.get(_PREFERRED, []))
    if serving.hybrid_load_balancing:
        return leader, copy.deepcopy(leader)
    return leader, _worker(pod, leader, serving, meeting)


def group_pods_labels(pod: Pod) -> dict[str, str]:
    """Return the labels of all pods of a model or its role: leaders, workers, single servers."""
    role = {} if pod.role is None else {ROLE_LABEL: pod.role}
    return {**model_pods_labels(pod), **role}


def _speak(container: Manifest, serving: Serving, meeting: Meeting) -> None:
    """Set the command and environment that a leader needs to span hosts."""
    container["env"].append(
        {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    )
    if serving.spanning == "ray":
        if serving.kind == "tpu":
            container["env"].append({"name": "TPU_MULTIHOST_BACKEND", "value": "ray"})
        serve = f'exec {" ".join(command(serving))} "$@"\n'
        container["command"] = ["bash", "-c", meeting.ray_head + serve, "engine"]


def _worker(pod: Pod, leader: Manifest, serving: Serving, meeting: Meeting) -> Manifest:
    template = copy.deepcopy(leader)
    labels = template["metadata"]["labels"]
    del labels[MODEL_LABEL]
    labels[WORKER_LABEL] = pod.model
    template["spec"].pop("topologySpreadConstraints", None)
    container = template["spec"]["containers"][0]
    drain = DRAIN.format(
        longest=pod.longest_request_seconds,
        metrics=f'{meeting.url} + "/metrics"',
        settle=pod.settle_seconds,
    )
    container["lifecycle"] = {"preStop": {"exec": {"command": ["python3", "-c", drain]}}}
    for name in ("livenessProbe", "ports"):
        container.pop(name)
    # A worker is ready when its leader is, and has as long to start, because LeaderWorkerSet
    # counts whole groups.
    container["readinessProbe"] = {
        **_asks(_LEADER_CHECK.format(url=meeting.url)),
        "periodSeconds": _CHECK_SECONDS,
    }
    container["startupProbe"] = {
        **_asks(_LEADER_STARTED.format(leader=meeting.leader, port=HEALTH_PORT)),
        "failureThreshold": start_minutes(pod.intent, [serving]) * 60 // _CHECK_SECONDS,
        "periodSeconds": _CHECK_SECONDS,
    }
    if serving.spanning == "ray":
        container["command"] = ["bash", "-c", meeting.ray_worker]
        del container["args"]
    else:
        # A worker has no API to check, so its launcher waits for the weights and then exits.
        container["command"] = command(serving, ["--worker"])
        container["args"] = [*container["args"], "--headless"]
    return template


def _asks(program: str) -> Manifest:
    return {"exec": {"command": ["python3", "-c", program]}, "timeoutSeconds": 10}


def _near_its_group(pod: Pod, node: Hardware, meeting: Meeting, others: list[Manifest]) -> Manifest:
    """Return the affinity of a group to one zone, because stages communicate for every token.

    The groups of each role are numbered from 0, so the role is part of the selection.
    A preference, because a zone may be full; a requirement with RDMA, which reaches no other zone.
    Nodes with TCPX or TCPXO prefer the block of their group, in which the latency is low.
    `others` are weaker preferences.
    """
    term = {
        "labelSelector": {"matchLabels": {**group_pods_labels(pod), HARDWARE_LABEL: node.kind}},
        "matchLabelKeys": [meeting.label],
        "topologyKey": _ZONE,
    }
    if node.has_rdma:
        near: Manifest = {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            _PREFERRED: [*close_together(term, _OWN_GROUP), *others],
        }
        return {"podAffinity": near}
    closer = close_together(term, _OWN_GROUP) if node.interface_network else []
    return {"podAffinity": {_PREFERRED: [{"podAffinityTerm": term, "weight": 100}, *closer]}}

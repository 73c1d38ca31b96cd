"""A batch on a slice of several hosts: a JobSet with a job of one pod for each host.

The first job, `leader`, serves and answers the batch. Each of the `workers` holds a part of the
model. The set is complete when the leader is; the operator then deletes the workers. If a pod
fails, all of them start again, because the rest of a split model cannot answer.

Only the leader's engine has a limit on its start. A worker that waits for an engine which never
starts must stay: its end would create all pods again, and with them the time for which the service
of batches lets an engine start.

Sources: sigs.k8s.io/jobset v0.12.0 (jobset_types.go, failure_policy.go); the variables for TPU are
those that LeaderWorkerSet sets (lws v0.9.0, pkg/utils/accelerators/tpu.go). That GKE's own webhook
for TPU leaves variables that exist is assumed. Not tested on real hardware.
"""

from typing import Any, Final

from gke_inference.base.job_sets import ATTEMPT_LABEL, INDEX_LABEL, NAME_LABEL, UID_LABEL
from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import catalogue_labels
from gke_inference.serving.groups import LEADER_WORKER_SET

LEADER: Final = "leader"
WORKERS: Final = "workers"
"""Replicated jobs of a set."""
SET_VARIABLE: Final = "BATCH_SET"
"""Environment variable that contains the name of the set."""
_PROCESS_PORT: Final = 8476
_INTERRUPTED: Final = "PodFailurePolicy"
"""Reason of a job that its pod failure policy failed (batch/v1)."""


def set_spec(
    leader: Manifest,
    worker: Manifest,
    *,
    container: str,
    hosts: int,
    namespace: str,
    restarts: int,
) -> Manifest:
    """Return the spec of the JobSet.

    Args:
        leader: Pod template of the leader.
        worker: Pod template of the other hosts.
        container: Container of the leader whose exit code 143 is no failure: it was terminated,
            and has stored its answers. Workers have no such code: Ray exits with 1.
        hosts: Hosts of the slice, two or more.
        namespace: Namespace of the set.
        restarts: Restarts of the whole set after failures. Preempted machines do not count.
    """
    jobs: list[Manifest] = []
    terminated = {"containerName": container, "operator": "In", "values": [143]}
    stored: Manifest = {"action": "FailJob", "onExitCodes": terminated}
    disrupted: Manifest = {
        "action": "FailJob",
        "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}],
    }
    for each in worker["spec"]["containers"]:
        each.pop("startupProbe", None)
    for name, count, template, interruptions in (
        (LEADER, 1, leader, [disrupted, stored]),
        (WORKERS, hosts - 1, worker, [disrupted]),
    ):
        pod = template["spec"]
        pod["affinity"] = _whole_slice()
        for each in (*pod.get("initContainers", []), *pod["containers"]):
            if "google.com/tpu" in each["resources"].get("limits", {}):
                each["env"] = [*_variables(hosts, namespace), *each["env"]]
        job = {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podFailurePolicy": {"rules": interruptions},
            "template": template,
        }
        jobs.append({"name": name, "replicas": count, "template": {"spec": job}})
    return {
        "failurePolicy": {
            "maxRestarts": restarts,
            "rules": [
                {
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "name": "interrupted",
                    "onJobFailureReasons": [_INTERRUPTED],
                }
            ],
        },
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "replicatedJobs": jobs,
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [LEADER]},
    }


def _whole_slice() -> Manifest:
    """Return the affinity of a set's pods to one node pool, which is one slice, without other sets.

    Both terms are requirements: two sets that share two slices would wait for each other. Sets of
    other models and of other namespaces count too, as in the exclusive placement of JobSet. That
    is for each job, and each of these jobs has one pod.
    """
    pool = catalogue_labels()["node_pool"]
    of_sets = {"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]}
    here = {"labelSelector": of_sets, "topologyKey": pool}
    others = {**here, "mismatchLabelKeys": [UID_LABEL], "namespaceSelector": {}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "podAffinity": {required: [{**here, "matchLabelKeys": [UID_LABEL, ATTEMPT_LABEL]}]},
        "podAntiAffinity": {required: [others]},
    }


def _variables(hosts: int, namespace: str) -> list[dict[str, Any]]:
    """Return the variables of a group of hosts, which LeaderWorkerSet's webhook sets otherwise."""
    name = f"$({SET_VARIABLE})"
    jobs = [f"{name}-{LEADER}-0", *(f"{name}-{WORKERS}-{at}" for at in range(hosts - 1))]
    addresses = [f"{job}-0.{name}.{namespace}" for job in jobs]
    index = _label(INDEX_LABEL)
    return [
        {"name": SET_VARIABLE, "valueFrom": _label(NAME_LABEL)},
        {"name": LEADER_WORKER_SET.leader, "value": addresses[0]},
        {"name": LEADER_WORKER_SET.size, "value": str(hosts)},
        {"name": "LWS_WORKER_INDEX", "valueFrom": index},
        {"name": "TPU_NAME", "value": name},
        {"name": "TPU_PROCESS_ADDRESSES", "value": _joined(addresses, f":{_PROCESS_PORT}")},
        {"name": "TPU_PROCESS_PORT", "value": str(_PROCESS_PORT)},
        {"name": "TPU_WORKER_HOSTNAMES", "value": _joined(addresses)},
        {"name": "TPU_WORKER_ID", "valueFrom": index},
    ]


def _joined(addresses: list[str], suffix: str = "") -> str:
    return ",".join(f"{address}{suffix}" for address in addresses)


def _label(name: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{name}']"}}

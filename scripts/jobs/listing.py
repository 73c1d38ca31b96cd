"""The jobs of teams, with queue, state and reason for waiting."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from gke_inference.base.job_sets import UID_LABEL
from gke_inference.catalogue.accelerators import catalogue_resources
from gke_inference.catalogue.versions import api
from gke_inference.operators.queue_webhooks import QUEUED_NAMESPACE
from scripts.shared.clusters import Cluster, answering
from scripts.terminal.tables import Column, Listing, figure, prose
from twin.cluster.base.fields import part, parts, text_map
from twin.wire.kube import JsonObject, Kube, KubeError

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_SCALE_UPS: Final = ("FailedScaleUp", "NotTriggerScaleUp", "TriggeredScaleUp")


@dataclass(frozen=True)
class QueuedJob:
    """One job of a team."""

    queue: str
    """Queue; empty if the job names none."""
    team: str
    """Its namespace."""
    job: str
    cluster: str
    state: str
    """`queued`, `preempted`, `held`, `stopped`, `waiting for nodes`, `starting`, `running`,
    `succeeded` or `failed`."""
    chips: int
    """Total request of its pods."""
    flavor: str
    """Compute class of its nodes; empty until it has chips."""
    reason: str
    """Reason for waiting, stopping or failing."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields as `jobs -o json` shows them."""
        return asdict(self)


def find_jobs(clusters: Iterable[Cluster]) -> list[QueuedJob]:
    """Return the jobs in clusters, by queue, team and age.

    Raises:
        CommandError: A cluster does not answer.
    """
    found: list[QueuedJob] = []
    for cluster in clusters:
        with answering(cluster) as kube:
            for namespace in _namespaces(kube):
                found += _jobs_in(kube, cluster.name, namespace)
    return sorted(found, key=lambda one: (one.queue, one.team))


def job_table(jobs: list[QueuedJob]) -> Listing:
    """Return the table of jobs."""
    table = Listing(
        "QUEUE", "TEAM", "JOB", "STATE", figure("CHIPS"), Column("FLAVOR", spare=1), prose("WHY")
    )
    for one in jobs:
        table.add_row(
            one.queue or "none",
            one.team,
            one.job,
            one.state,
            str(one.chips),
            one.flavor,
            one.reason,
        )
    return table


def _namespaces(kube: Kube) -> list[str]:
    selector = ",".join(f"{key}={value}" for key, value in QUEUED_NAMESPACE.items())
    spaces = kube.list("/api/v1/namespaces", label_selector=selector)
    return sorted(each["metadata"]["name"] for each in spaces)


def _jobs_in(kube: Kube, cluster: str, namespace: str) -> Iterator[QueuedJob]:
    alone = kube.list(f"/apis/{api('job').api_version}/namespaces/{namespace}/jobs")
    jobs = [job for job in alone if UID_LABEL not in _labels(job)] + _sets(kube, namespace)
    kind = api("queued_workload")
    workloads = {
        uid: each
        for each in kube.list(f"/apis/{kind.api_version}/namespaces/{namespace}/workloads")
        for uid in _owners(each)
    }
    pods = kube.list(f"/api/v1/namespaces/{namespace}/pods")
    for job in sorted(jobs, key=lambda one: one["metadata"]["creationTimestamp"]):
        metadata = job["metadata"]
        workload = workloads.get(metadata["uid"])
        own = [pod for pod in pods if _is_of(pod, metadata["uid"])]
        state, reason = state_of(job, workload, own, lambda pod: _node_news(kube, pod))
        yield QueuedJob(
            queue=_labels(job).get(QUEUE_LABEL, ""),
            team=namespace,
            job=metadata["name"],
            cluster=cluster,
            state=state,
            chips=_chips(job),
            flavor=_flavor(workload),
            reason=reason,
        )


def _sets(kube: Kube, namespace: str) -> list[JsonObject]:
    """Return the JobSets of a namespace; a cluster without the operator has none."""
    try:
        return kube.list(f"/apis/{api('job_set').api_version}/namespaces/{namespace}/jobsets")
    except KubeError as error:
        if error.status == 404:
            return []
        raise


def state_of(
    job: JsonObject,
    workload: JsonObject | None,
    pods: list[JsonObject],
    node_news: Callable[[JsonObject], str],
) -> tuple[str, str]:
    """Return the state of a job and the reason, which is empty for self-explanatory states.

    Args:
        job: The Job or JobSet.
        workload: Workload of Kueue; None before Kueue has created it.
        pods: Its pods.
        node_news: Returns the autoscaler's last event for a pod that has no node.
    """
    ended = _conditions(job)
    if {"Complete", "Completed"} & ended.keys():
        return "succeeded", ""
    if "Failed" in ended:
        return "failed", ended["Failed"].get("message", "")
    if QUEUE_LABEL not in _labels(job):
        return "held", f"it names no queue in its label {QUEUE_LABEL}"
    if workload is None or _is_stopped(workload) or "Admitted" not in _conditions(workload):
        return _in_queue(workload)
    homeless = [pod for pod in pods if _is_waiting(pod)]
    if homeless:
        return "waiting for nodes", node_news(homeless[0])
    is_up = any(part(pod, "status").get("phase") == "Running" for pod in pods)
    return ("running" if is_up else "starting"), ""


def _in_queue(workload: JsonObject | None) -> tuple[str, str]:
    """Return the state of a job without chips, or with chips no longer."""
    if workload is None:
        return "queued", ""
    if _is_stopped(workload):
        return "stopped", _conditions(workload).get("Evicted", {}).get("message", "")
    true, every = _conditions(workload), _conditions(workload, only_true=False)
    checks = parts(part(workload, "status"), "admissionChecks")
    if "QuotaReserved" in true and checks:
        return "waiting for nodes", next(
            (each["message"] for each in checks if each.get("message")), ""
        )
    waits = "" if "QuotaReserved" in true else every.get("QuotaReserved", {}).get("message", "")
    if "Preempted" in true:
        return "preempted", waits or true["Preempted"]["message"]
    return "queued", waits


def _is_stopped(workload: JsonObject) -> bool:
    """Return whether Kueue has stopped a job."""
    return part(workload, "spec").get("active") is False


def _labels(obj: JsonObject) -> dict[str, str]:
    return text_map(obj["metadata"], "labels")


def _conditions(obj: JsonObject, *, only_true: bool = True) -> dict[str, JsonObject]:
    found = parts(part(obj, "status"), "conditions")
    return {each["type"]: each for each in found if not only_true or each["status"] == "True"}


def _is_of(pod: JsonObject, uid: str) -> bool:
    return uid in {*_owners(pod), _labels(pod).get(UID_LABEL)}


def _owners(obj: JsonObject) -> set[str]:
    return {each["uid"] for each in parts(obj["metadata"], "ownerReferences")}


def _is_waiting(pod: JsonObject) -> bool:
    return (
        not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and part(pod, "status").get("phase", "Pending") == "Pending"
    )


def _node_news(kube: Kube, pod: JsonObject) -> str:
    namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
    events = [
        each
        for each in kube.list(f"/api/v1/namespaces/{namespace}/events")
        if part(each, "involvedObject").get("uid") == uid and each.get("reason") in _SCALE_UPS
    ]
    last = max(events, key=lambda one: one.get("lastTimestamp") or "", default=None)
    return "" if last is None else f"{last['reason']}: {last['message']}"


def _chips(job: JsonObject) -> int:
    """Return the chips of all pods that run in parallel.

    An engine beside the worker of a batch is an init container.
    """
    of_set = parts(job["spec"], "replicatedJobs")
    if of_set:
        return sum(int(each.get("replicas", 1)) * _chips(each["template"]) for each in of_set)
    wanted = set(catalogue_resources().values())
    one = 0
    pod = job["spec"]["template"]["spec"]
    for container in (*parts(pod, "containers"), *parts(pod, "initContainers")):
        limits = text_map(part(container, "resources"), "limits")
        one += sum(int(amount) for name, amount in limits.items() if name in wanted)
    return one * int(job["spec"].get("parallelism", 1))


def _flavor(workload: JsonObject | None) -> str:
    admission = part(part(workload or {}, "status"), "admission")
    flavors = (text_map(each, "flavors") for each in parts(admission, "podSetAssignments"))
    return ", ".join(sorted({name for each in flavors for name in each.values()}))

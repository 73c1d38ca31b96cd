"""Placement of replicas: location, rung of their capacity, and start time."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.pod_spec import MODEL_LABEL
from infra.estimate.cold_starts import Start, starts
from infra.plan import ServedModel
from scripts.accept.deployed import Cluster, Deployed, Object, seen
from scripts.accept.row import Row, Subject
from scripts.shared.placements import is_on


def replicas(cluster: Cluster, served: ServedModel) -> list[Object]:
    """Return one pod for each replica of a model: the leader in a group of hosts.

    Raises:
        KubeError: The cluster does not answer.
    """
    selector = f"{MODEL_LABEL}={served.object_name}"
    if served.role != "serve":
        selector += f",{ROLE_LABEL}={served.role}"
    return [pod for pod in cluster.pods(selector) if not pod["metadata"].get("deletionTimestamp")]


def ready_since(pod: Object) -> datetime | None:
    """Return the time since which a pod is ready; None if it is not ready."""
    conditions: list[Object] = pod.get("status", {}).get("conditions") or []
    for condition in conditions:
        if condition["type"] == "Ready" and condition["status"] == "True":
            return datetime.fromisoformat(str(condition["lastTransitionTime"]))
    return None


def nodes(cluster: Cluster) -> dict[str, Object]:
    """Return the nodes of a cluster by name.

    Raises:
        KubeError: The cluster does not answer.
    """
    return {node["metadata"]["name"]: node for node in cluster.api.list("/api/v1/nodes")}


def rung_of(served: ServedModel, pod: Object, known: Mapping[str, Object]) -> int | None:
    """Return the index of the rung that a replica runs on; None if there is none."""
    node = known.get(str(pod["spec"].get("nodeName", "")), {})
    labels: dict[str, str] = node.get("metadata", {}).get("labels", {})
    return next((at for at, rung in served.rungs.items() if is_on(rung, labels)), None)


def placements(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each model has its replicas on rungs of its capacity."""
    for region, cluster in deployed.clusters.items():
        for served in deployed.plan.regions[region].served:
            for role in served.roles:
                first = next(iter(role.rungs.values()))
                least = role.replicas.min + role.standby
                name = f"{_name(role)} in {region}"
                predicted = f"at least {least} ready, preferably on {first.label}"
                subject = Subject("placement", name, predicted)
                yield seen(subject, lambda s=subject, c=cluster, r=role: _placed(s, c, r))


def _name(served: ServedModel) -> str:
    return served.name if served.role == "serve" else f"{served.name} ({served.role})"


def _placed(subject: Subject, cluster: Cluster, served: ServedModel) -> Row:
    known = nodes(cluster)
    pods = [pod for pod in replicas(cluster, served) if ready_since(pod) is not None]
    found = Counter(rung_of(served, pod, known) for pod in pods)
    stray = found.pop(None, 0)
    first = next(iter(served.rungs))
    parts = [
        f"{count} on {served.rungs[at].label}"
        + ("" if at == first else f" (fallback, rung {list(served.rungs).index(at) + 1})")
        for at, count in sorted(found.items())
        if at is not None
    ]
    if stray:
        parts.append(f"{stray} on a node that belongs to no rung of the stack")
    least = served.replicas.min + served.standby
    says = f"{len(pods)} ready" + (f": {', '.join(parts)}" if parts else "")
    return subject.judged(says, is_met=len(pods) >= least and not stray)


def cold_starts(deployed: Deployed) -> Iterator[Row]:
    """Yield the start time of the newest replica on each rung, with the estimate."""
    estimates = {(each.model, each.region, each.rung): each for each in starts(deployed.plan)}
    for region, cluster in deployed.clusters.items():
        for served in deployed.plan.regions[region].served:
            if served.version is None:
                yield from _starts(deployed, cluster, served, estimates)


def _starts(
    deployed: Deployed,
    cluster: Cluster,
    served: ServedModel,
    estimates: Mapping[tuple[str, str, str], Start],
) -> Iterator[Row]:
    where = f"{served.name} in {served.region}"
    found: dict[int, tuple[Object, Object]] = {}

    def look() -> Row:
        known = nodes(cluster)
        for pod in sorted(replicas(cluster, served), key=_created):
            at = rung_of(served, pod, known)
            if at is not None and ready_since(pod) is not None:
                found[at] = pod, known[pod["spec"]["nodeName"]]
        return subject.skipped("no replica is ready")

    subject = Subject("cold start", where, "an estimate for each rung")
    row = seen(subject, look)
    if not found:
        yield row
    for at, (pod, node) in found.items():
        rung = served.rungs[at].label
        estimate = estimates[served.name, served.region, rung]
        yield started(deployed.speed, f"{where} on {rung}", estimate, pod, node)


def _created(item: Object) -> datetime:
    return datetime.fromisoformat(str(item["metadata"]["creationTimestamp"]))


def started(speed: float, name: str, estimate: Start, pod: Object, node: Object) -> Row:
    """Return the time from a replica's creation until it was ready, with the estimate.

    The estimate is for a first start, without compiled programs, and excludes the node's start if
    the node existed before. A clock that runs faster than the machine's also stretches the work of
    the machine itself, and Kubernetes times are whole seconds, so nothing is judged there.

    Args:
        speed: Speed of the platform's clock as a multiple of real time.
        name: Name of the row.
        estimate: Estimate of the planner.
        pod: Ready pod.
        node: Node of the pod.
    """
    had_node = _created(node) < _created(pod)
    stages = [each for each in estimate.first.stages if not (had_node and each.name == "node")]
    predicted = sum(each.seconds for each in stages)
    low, high = estimate.start.low, sum(each.high for each in stages)
    if had_node:
        low = sum(each.low for each in estimate.start.stages if each.name != "node")
    kind = "on an existing node" if had_node else "with a new node"
    subject = Subject("cold start", name, f"{predicted:.0f} s ({low:.0f} to {high:.0f}), {kind}")
    statuses: list[Object] = pod["status"].get("containerStatuses") or []
    since = ready_since(pod)
    if since is None or any(each.get("restartCount") for each in statuses):
        return subject.skipped("a container has restarted, so its first start time is unknown")
    took = (since - _created(pod)).total_seconds() * speed
    if speed != 1:
        reason = f"{took:.0f} s, by a clock that runs {speed:g} times faster than this machine's"
        return subject.skipped(reason)
    return subject.judged(f"{took:.0f} s", is_met=took <= high)

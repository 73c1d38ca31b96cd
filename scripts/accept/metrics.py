"""Metrics: scrape targets in the models' namespace, and the metrics of autoscalers."""

from collections.abc import Iterator, Sequence

from scripts.accept.deployed import Cluster, Deployed, Object, seen
from scripts.accept.placement import ready_since
from scripts.accept.row import Row, Subject
from twin.cluster.base.matching import selects
from twin.cluster.monitoring.promql import Sample

_MONITORINGS = "/apis/monitoring.googleapis.com/v1/namespaces/{}/podmonitorings"
_AUTOSCALERS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"


def targets(deployed: Deployed) -> Iterator[Row]:
    """Yield whether every ready pod of a PodMonitoring is a target that is up."""
    for region, cluster in deployed.clusters.items():
        subject = Subject("scrape targets", region, "every ready pod of a PodMonitoring is up")
        yield seen(subject, lambda s=subject, c=cluster: _targets(s, c))


def _targets(subject: Subject, cluster: Cluster) -> Row:
    monitorings = cluster.api.list(_MONITORINGS.format(cluster.namespace))
    if not monitorings:
        return subject.not_met("the namespace has no PodMonitoring")
    pods = [pod for pod in cluster.pods() if ready_since(pod) is not None]
    up = cluster.query(f'up{{{cluster.matchers},namespace="{cluster.namespace}"}}')
    problems: list[str] = []
    wanted = 0
    for monitoring in monitorings:
        meant = _meant(monitoring, pods)
        wanted += len(meant)
        problems += _problems(monitoring["metadata"]["name"], meant, up)
    says = f"{wanted} pods of {len(monitorings)} PodMonitorings"
    if problems:
        return subject.not_met(f"{says}: {'; '.join(problems)}")
    return subject.met(f"{says} are up")


def _meant(monitoring: Object, pods: Sequence[Object]) -> list[str]:
    selector: Object = monitoring["spec"].get("selector", {})
    return [
        pod["metadata"]["name"]
        for pod in pods
        if selects(selector, pod["metadata"].get("labels") or {})
    ]


def _problems(job: str, meant: Sequence[str], up: Sequence[Sample]) -> Iterator[str]:
    values: dict[str, float] = {}
    for sample in up:
        if sample.labels.get("job") == job:
            pod = sample.labels.get("pod") or sample.labels.get("instance", "").rpartition(":")[0]
            values[pod] = min(values.get(pod, 1.0), sample.value)
    for pod in meant:
        if pod not in values:
            yield f"{pod} of {job} is not a target"
        elif values[pod] != 1:
            yield f"{pod} of {job} is down"


def autoscalers(deployed: Deployed) -> Iterator[Row]:
    """Yield whether every autoscaler of a model reads all its metrics."""
    for region, cluster in deployed.clusters.items():
        for served in deployed.plan.regions[region].served:
            for role in served.roles:
                for name in role.deployments.values():
                    subject = Subject(
                        "autoscaler", f"{name} in {region}", "every metric has a value"
                    )
                    yield seen(subject, lambda s=subject, c=cluster, n=name: _scaler(s, c, n))


def _scaler(subject: Subject, cluster: Cluster, name: str) -> Row:
    listed = cluster.api.list(_AUTOSCALERS.format(cluster.namespace))
    found = {each["metadata"]["name"]: each for each in listed}
    if name not in found:
        return subject.not_met("there is none")
    return judged_scaler(subject, found[name])


def judged_scaler(subject: Subject, scaler: Object) -> Row:
    """Return whether an autoscaler reads all its metrics.

    A metric without a value has an entry without a source in `currentMetrics`, which kubectl shows
    as `<unknown>`. Metrics of pods have none while there are no pods.
    """
    status: Object = scaler.get("status") or {}
    current: list[Object] = status.get("currentMetrics") or []
    has_pods = bool(status.get("currentReplicas"))
    wanted = [
        metric
        for metric in scaler["spec"]["metrics"]
        if has_pods or metric["type"] not in {"Pods", "Resource", "ContainerResource"}
    ]
    known = {_name(each) for each in current}
    missing = [_name(each) for each in wanted if _name(each) not in known]
    if missing:
        return subject.not_met(f"unknown: {', '.join(missing)}{_why(status)}")
    if not wanted:
        return subject.skipped("it has no replicas, and only metrics of pods")
    says = f"{len(wanted)} of {len(scaler['spec']['metrics'])} metrics"
    return subject.met(says if has_pods else f"{says}; it has no replicas, so the others have none")


def _name(metric: Object) -> str:
    """Return the short name of a metric; empty if it has no source."""
    kind = str(metric.get("type") or "")
    source: Object = metric.get(kind[:1].lower() + kind[1:]) or {}
    full = str(source.get("metric", {}).get("name") or source.get("name") or "")
    parts = full.split("|")
    return parts[1] if len(parts) == 3 else full


def _why(status: Object) -> str:
    """Return the problems in an autoscaler's conditions."""
    conditions: list[Object] = status.get("conditions") or []
    for each in conditions:
        if each["type"] == "ScalingActive" and each["status"] != "True":
            return f" ({each.get('reason')}: {each.get('message')})"
    return ""

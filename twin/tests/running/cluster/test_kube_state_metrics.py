"""The real kube-state-metrics over a real API server: the series that alerts and dashboards use."""

import os
import urllib.request
from pathlib import Path

import pytest

from twin.cluster.monitoring import promql
from twin.cluster.monitoring.kube_state_metrics import METRICS, KubeStateMetrics, process_name
from twin.cluster.monitoring.server import address_of
from twin.cluster.monitoring.system_jobs import RESTART_COUNT, RESTARTS
from twin.host import processes

pytestmark = pytest.mark.needs_tools
_SPACE = "counted"
_CONTAINERS = [{"name": "main", "image": "demo"}]
_LISTENING = "0A"
_LOOPBACK = "0100007F"  # as the kernel writes 127.0.0.1


def workload(kind: str, api: str, name: str, **spec):
    """Return an object of the test's namespace."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": _SPACE}} | (
        {"spec": spec} if spec else {}
    )


def of_pods(name: str, **spec):
    """Return the part of a workload about its pods, which no node takes."""
    labels = {"app": name}
    pod = {"containers": _CONTAINERS, "nodeSelector": {"nowhere": "true"}}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **spec,
    }


def autoscaler(name: str, least: int, metrics):
    """Return an autoscaler of the Deployment of its name."""
    return workload(
        "HorizontalPodAutoscaler",
        "autoscaling/v2",
        name,
        scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        minReplicas=least,
        maxReplicas=4,
        metrics=metrics,
    )


@pytest.fixture(scope="module")
def counted(cluster):
    """A workload of each kind, and a pod whose container waits for its image."""
    pod = {"containers": _CONTAINERS, "nodeSelector": {"nowhere": "true"}}
    target = {"type": "AverageValue", "averageValue": "800m"}
    of_replicas = {"type": "Pods", "pods": {"metric": {"name": "kv"}, "target": target}}
    queue = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE}},
        workload("ServiceAccount", "v1", "default"),
        workload("Pod", "v1", "alone", **pod),
        workload("Deployment", "apps/v1", "web", **of_pods("web", replicas=1)),
        workload("StatefulSet", "apps/v1", "db", **of_pods("db", replicas=3, serviceName="db")),
        workload("DaemonSet", "apps/v1", "each", **of_pods("each")),
        autoscaler("web", least=2, metrics=[of_replicas]),
        autoscaler("idle", least=0, metrics=[{"type": "External", "external": queue}]),
    )
    waiting = {"name": "main", "ready": False, "state": {"waiting": {"reason": "ErrImagePull"}}}
    cluster.kube.patch(
        f"/api/v1/namespaces/{_SPACE}/pods/alone/status",
        {
            "status": {
                "containerStatuses": [
                    {**waiting, "image": "demo", "imageID": "", "restartCount": 0}
                ]
            }
        },
    )
    yield cluster
    cluster.kube.delete(f"/api/v1/namespaces/{_SPACE}")


def ask(cluster, expression):
    """Return the samples of an expression; none while Prometheus starts."""
    address = address_of(cluster.ctx.dir)
    try:
        return promql.query(address, expression) if address else []
    except promql.QueryError:
        return []


def values(cluster, metric, by=""):
    """Return the value of each series of a metric in the test's namespace, by one label."""
    samples = ask(cluster, f'{metric}{{namespace="{_SPACE}"}}')
    return {sample.labels.get(by, ""): sample.value for sample in samples}


def until(cluster, metric, wanted, by=""):
    """Wait until a metric has the expected values."""
    cluster.until(lambda: values(cluster, metric, by) == wanted, f"{metric}: {wanted}")


def test_a_pod_has_a_series_for_each_phase_and_one_of_them_holds(counted):
    phases = dict.fromkeys(("Failed", "Running", "Succeeded", "Unknown"), 0.0)
    wanted = phases | {"Pending": 1.0}
    alone = f'kube_pod_status_phase{{namespace="{_SPACE}",pod="alone"}}'
    found = counted.until(lambda: ask(counted, alone), "phases")
    assert {sample.labels["phase"]: sample.value for sample in found} == wanted
    (uid,) = {sample.labels.pop("uid") for sample in found}
    pod = counted.kube.get(f"/api/v1/namespaces/{_SPACE}/pods/alone")
    assert uid == pod["metadata"]["uid"]
    assert found[0].labels == {
        "__name__": "kube_pod_status_phase",
        "cluster": "test",
        "instance": "kube-state-metrics-0:k8s-objects",
        "job": "kube-state-metrics",
        "location": "us-central1",
        "namespace": _SPACE,
        "phase": found[0].labels["phase"],
        "pod": "alone",
        "project_id": "acme",
    }


def test_a_pod_that_no_node_takes_and_a_container_that_waits_are_reported(counted):
    pods = {"alone", "db-0"}
    counted.until(
        lambda: set(values(counted, "kube_pod_status_unschedulable", "pod")) >= pods,
        "unschedulable pods",
    )
    until(counted, "kube_pod_container_status_waiting_reason", {"ErrImagePull": 1.0}, "reason")
    until(counted, "kube_pod_container_status_ready", {"alone": 0.0}, "pod")


def test_wanted_and_ready_replicas_of_each_kind_are_reported(counted):
    until(counted, "kube_deployment_spec_replicas", {"web": 2.0}, "deployment")
    until(counted, "kube_deployment_status_replicas_available", {"web": 0.0}, "deployment")
    until(counted, "kube_deployment_status_replicas_updated", {"web": 2.0}, "deployment")
    until(counted, "kube_statefulset_replicas", {"db": 3.0}, "statefulset")
    until(counted, "kube_statefulset_status_replicas_ready", {"db": 0.0}, "statefulset")
    until(counted, "kube_statefulset_status_replicas_updated", {"db": 1.0}, "statefulset")
    for name in METRICS["daemonsets"]:
        until(counted, name, {"each": 0.0}, "daemonset")


def test_an_autoscaler_reports_its_bounds_and_its_targets_in_plain_numbers(counted):
    prefix, by = "kube_horizontalpodautoscaler", "horizontalpodautoscaler"
    until(counted, f"{prefix}_spec_max_replicas", {"idle": 4.0, "web": 4.0}, by)
    until(counted, f"{prefix}_spec_min_replicas", {"idle": 0.0, "web": 2.0}, by)
    # one replica is under the least: the autoscaler wants two without a metric
    until(counted, f"{prefix}_status_desired_replicas", {"idle": 0.0, "web": 2.0}, by)
    until(counted, f"{prefix}_status_current_replicas", {"idle": 0.0, "web": 2.0}, by)
    until(counted, f"{prefix}_spec_target_metric", {"kv": 0.8, "queue": 5.0}, "metric_name")
    types = {"average": 0.8, "value": 5.0}
    until(counted, f"{prefix}_spec_target_metric", types, "metric_target_type")
    condition = f'{prefix}_status_condition{{namespace="{_SPACE}",condition="AbleToScale"}} == 1'
    # the Deployment of the idle one does not exist
    counted.until(
        lambda: (
            {held.labels[by]: held.labels["status"] for held in ask(counted, condition)}
            == {"idle": "false", "web": "true"}
        ),
        "a condition of each",
    )


def test_gkes_series_are_stored_and_no_others(counted):
    wanted = {name for names in METRICS.values() for name in names} - {RESTARTS} | {RESTART_COUNT}
    every = 'group by (__name__) ({job="kube-state-metrics",__name__=~"(kube_|kubernetes_io:).*"})'
    counted.until(
        lambda: {sample.labels["__name__"] for sample in ask(counted, every)} == wanted,
        "every metric of GKE's packages",
    )


def test_it_listens_on_loopback_alone(counted):
    counted.until(lambda: values(counted, "kube_deployment_spec_replicas"), "an answer")
    pid = processes.pid_of(counted.ctx.paths, process_name(counted.ctx.dir))
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    hosts = [
        line[1].split(":")[0] for line in lines if line[3] == _LISTENING and line[9] in sockets
    ]
    assert hosts == [_LOOPBACK, _LOOPBACK]


def test_one_that_is_ended_comes_back_at_its_address(counted):
    paths, name = counted.ctx.paths, process_name(counted.ctx.dir)
    before = KubeStateMetrics(counted.ctx).address
    first = processes.pid_of(paths, name)
    processes.stop(paths, name)
    counted.until(lambda: processes.pid_of(paths, name) not in (None, first), "another process")
    counted.until(lambda: is_live(before), "an answer at the same address")


def is_live(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/healthz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False

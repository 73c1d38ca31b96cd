"""Monitoring objects, a real API server and a real Prometheus."""

import http.server
import threading
import time
import urllib.parse
from datetime import UTC, datetime, timedelta

import pytest

from gke_inference.intent.replicas import ReplicaRange
from gke_inference.intent.schedule import ReplicaSchedule, ReplicaWindow
from gke_inference.observability.monitoring import MonitoringArgs, recorded_series
from gke_inference.observability.monitoring import rules as recording
from gke_inference.serving.autoscaling import AutoscalingArgs, autoscaler
from gke_inference.settings.week import Day
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.server import address_of, process_name
from twin.host import processes
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

PAGE = """# TYPE demo_queue gauge
demo_queue 3
# TYPE demo_secret gauge
demo_secret 1
"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves PAGE to everybody."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, format, *args):  # noqa: A002 - the base's name
        del format, args


@pytest.fixture(scope="module")
def metrics_port():
    """A program that exports metrics on every address of a pod, where no agent runs one."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def replica(cluster, metrics_port):
    """A pod of a namespace `monitored` whose address is this process'."""
    labels = {"app": "demo", "team": "search"}
    port = {"name": "metrics", "containerPort": metrics_port}
    containers = [{"name": "main", "image": "demo", "ports": [port]}]
    path = "/api/v1/namespaces/monitored/pods/demo-0"
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitored"}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "monitored"},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "demo-0", "namespace": "monitored", "labels": labels},
            "spec": {"containers": containers, "nodeSelector": {"nowhere": "true"}},
        },
    )
    cluster.kube.patch(
        f"{path}/status", {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    )
    yield "demo-0"
    cluster.kube.delete(path)


def monitoring(name, **spec):
    """Return a PodMonitoring of the pods `app: demo`."""
    drop = {"action": "drop", "sourceLabels": ["__name__"], "regex": "demo_secret"}
    endpoint = {"port": "metrics", "interval": "15s", "metricRelabeling": [drop]}
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": {"name": name, "namespace": "monitored"},
        "spec": {"selector": {"matchLabels": {"app": "demo"}}, "endpoints": [endpoint], **spec},
    }


def rules(name, *rules, kind="Rules"):
    """Return a rules object of one group."""
    metadata = {"name": name} | ({"namespace": "monitored"} if kind == "Rules" else {})
    groups = [{"name": "g", "interval": "15s", "rules": list(rules)}]
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"groups": groups},
    }


def ask(cluster, expression):
    """Return the samples of an expression; none while Prometheus starts."""
    address = address_of(cluster.ctx.dir)
    try:
        return promql.query(address, expression) if address else []
    except promql.QueryError:
        return []


def condition(cluster, obj):
    """Return the condition of an object that tells whether it became configuration."""
    try:
        status = cluster.kube.get(cluster.kube.path_of(obj)).get("status", {})
    except KubeError:
        return None
    return next(iter(status.get("conditions", [])), None)


def test_pods_are_scraped_with_the_labels_of_managed_prometheus(cluster, replica):
    labels = {"metadata": ["pod", "container"], "fromPod": [{"from": "team", "to": "owner"}]}
    wanted = monitoring("demo", targetLabels=labels)
    cluster.apply(wanted)
    (found,) = cluster.until(lambda: ask(cluster, "demo_queue"), "the scraped gauge")
    assert found.value == 3
    assert found.labels == {
        "__name__": "demo_queue",
        "cluster": "test",
        "container": "main",
        "instance": f"{replica}:metrics",
        "job": "demo",
        "location": "us-central1",
        "namespace": "monitored",
        "owner": "search",
        "pod": replica,
        "project_id": "acme",
    }
    assert ask(cluster, "demo_secret") == []
    assert cluster.until(lambda: condition(cluster, wanted), "a status")["status"] == "True"


def test_what_would_change_a_protected_label_is_refused_and_the_rest_goes_on(cluster, replica):
    taken = {"action": "replace", "sourceLabels": ["a"], "targetLabel": "b", "regex": "("}
    endpoint = {"port": "metrics", "interval": "15s", "metricRelabeling": [taken]}
    broken = monitoring("broken", endpoints=[endpoint])
    cluster.apply(broken, monitoring("second"))
    cluster.until(lambda: ask(cluster, 'demo_queue{job="second"}'), "the other one's gauge")
    found = cluster.until(lambda: condition(cluster, broken), "a status")
    assert found["status"] == "False"
    assert "invalid regex" in found["message"]


def test_rules_see_their_own_namespace_and_cluster_rules_the_cluster(cluster, replica):
    cluster.apply(
        monitoring("demo"),
        rules("own", {"record": "own:pods", "expr": "sum(kube_pod_status_phase)"}),
        rules(
            "all", {"record": "all:pods", "expr": "sum(kube_pod_status_phase)"}, kind="ClusterRules"
        ),
        rules("bad", {"record": "bad:pods", "expr": 'x{namespace="other"}'}),
    )
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "elsewhere", "namespace": "gmp-public"},
            "spec": {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"no": "where"}},
        }
    )
    (own,) = cluster.until(lambda: ask(cluster, "own:pods"), "the recorded series")
    assert own.value == 1
    assert own.labels["namespace"] == "monitored"
    cluster.until(lambda: ask(cluster, "all:pods > 1"), "every namespace's pods")
    bad = rules("bad", {"expr": ""})
    refused = cluster.until(lambda: condition(cluster, bad), "a status")
    assert refused["status"] == "False"
    assert "conflicting label matcher" in refused["message"]
    cluster.kube.delete("/api/v1/namespaces/gmp-public/pods/elsewhere")


def test_prometheus_comes_back_at_its_address_with_what_it_knew(cluster, replica):
    cluster.apply(monitoring("demo"))
    cluster.until(lambda: ask(cluster, "demo_queue"), "the scraped gauge")
    before = address_of(cluster.ctx.dir)
    # `min`: samples of an earlier test have other labels
    oldest = "min(min_over_time(timestamp(demo_queue{job='demo'})[1h:1s]))"
    (first,) = ask(cluster, oldest)
    processes.stop(cluster.ctx.paths, process_name(cluster.ctx.dir))
    (again,) = cluster.until(lambda: ask(cluster, oldest), "an answer")
    assert address_of(cluster.ctx.dir) == before
    assert again.value <= first.value + 1


def test_a_pod_monitoring_that_goes_ends_its_job(cluster, replica):
    cluster.apply(monitoring("short"))
    cluster.until(lambda: ask(cluster, 'up{job="short"}'), "the job")
    cluster.kube.delete(cluster.kube.path_of(monitoring("short")))
    # its last samples stay visible for Prometheus' lookback: what ends is new ones
    old = 'time() - timestamp(up{job="short"}) > 4'
    cluster.until(lambda: ask(cluster, old), "the end of the job")


def scaler(metric):
    """Return an autoscaler of a Deployment `scaled` that follows a metric of its pods."""
    name = f"prometheus.googleapis.com|{metric}"
    pods = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": "1"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaled", "namespace": "monitored"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
            "minReplicas": 1,
            "maxReplicas": 2,
            "metrics": [{"type": "Pods", "pods": pods}],
        },
    }


@pytest.mark.soak  # tests/platform/observe/test_recorded_series.py has the series at every edge
def test_the_autoscaler_follows_the_start_of_a_window_and_keeps_it_through_a_restart(cluster):
    begins = (datetime.now(UTC) + timedelta(seconds=75)).replace(second=0, microsecond=0)
    ends = begins + timedelta(minutes=1)
    days = list(Day)
    window = ReplicaWindow(
        days=(days[begins.weekday()],), start=f"{begins:%H:%M}", end=f"{ends:%H:%M}", min=3
    )
    schedule = ReplicaSchedule(time_zone="UTC", windows=(window,))
    monitored = MonitoringArgs(
        deployments=["clock"], model="clock", namespace="default", selector={"app": "clock"},
        schedules={"clock": schedule},
    )  # fmt: skip
    recorded = recording(monitored, recorded_series(monitored))
    followed = AutoscalingArgs(
        cluster_location=cluster.ctx.spec.location, cluster_name=cluster.ctx.spec.name,
        model="clock", namespace="default",
        replicas=ReplicaRange(min=1, max=4, schedule=schedule), scale_in_delay_seconds=0,
        target_name="clock",
    )  # fmt: skip
    metadata = {"name": "clock", "namespace": "default"}
    template = {
        "metadata": {"labels": {"app": "clock"}},
        "spec": {"containers": [{"name": "c", "image": "c"}], "nodeSelector": {"no": "where"}},
    }
    target = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "clock"}}, "template": template},
    }
    cluster.apply(target, recorded, autoscaler(followed))

    def replicas():
        return cluster.kube.get(cluster.kube.path_of(target))["spec"]["replicas"]

    series = 'gke_inference:scheduled_replicas{scale_target="clock"}'
    cluster.until(lambda: ask(cluster, series), "the series")
    while datetime.now(UTC) < begins:
        assert replicas() == 1
        time.sleep(1)
    cluster.until(lambda: replicas() == 3, "the replicas of the window", 45)
    assert datetime.now(UTC) < ends
    processes.stop(cluster.ctx.paths, process_name(cluster.ctx.dir))
    cluster.apply(recorded, autoscaler(followed))  # as `up` does: nothing changes
    while datetime.now(UTC) < ends:
        assert replicas() == 3
        time.sleep(1)
    for each in (autoscaler(followed), recorded, target):
        cluster.kube.delete(cluster.kube.path_of(each))


def test_a_metric_of_a_wrong_name_or_kind_has_no_descriptor(cluster, replica):
    cluster.apply(monitoring("demo"))
    cluster.until(lambda: ask(cluster, "demo_queue"), "the scraped gauge")
    api = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/monitored/pods"

    def value(metric):
        name = f"prometheus.googleapis.com|{metric}"
        return cluster.kube.get(f"{api}/{replica}/{urllib.parse.quote(name, safe='')}")["items"]

    (found,) = cluster.until(lambda: value("demo_queue|gauge"), "the adapter's value")
    assert found["describedObject"]["name"] == replica
    assert int(found["value"]) % 3 == 0  # each monitoring object that scrapes the pod adds 3
    for wrong in ("demo_qeue|gauge", "demo_queue|counter"):
        path = f"prometheus.googleapis.com/{wrong.replace('|', '/')}"
        with pytest.raises(KubeError, match=f'descriptor for metric "{path}"') as refused:
            value(wrong)
        assert refused.value.status == 404


@pytest.mark.soak  # the test above has the answers that the autoscaler gets
def test_an_autoscaler_with_a_wrong_metric_name_or_kind_reports_why(cluster, replica):
    cluster.apply(monitoring("demo"))
    cluster.until(lambda: ask(cluster, "demo_queue"), "the scraped gauge")
    template = {
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"containers": [{"name": "c", "image": "demo"}], "nodeSelector": {"no": "where"}},
    }
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "scaled", "namespace": "monitored"},
            "spec": {"selector": {"matchLabels": {"app": "demo"}}, "template": template},
        }
    )

    def active(metric):
        """Return reason and message of ScalingActive once they are about a metric."""
        found = cluster.kube.get(cluster.kube.path_of(scaler(metric))).get("status", {})
        for each in found.get("conditions", []):
            about = each["type"] == "ScalingActive" and (
                metric in each["message"].replace("/", "|") or each["status"] == "True"
            )
            if about:
                return each["reason"], each["message"]
        return None

    for wrong in ("demo_qeue|gauge", "demo_queue|counter"):
        cluster.apply(scaler(wrong))
        reason, message = cluster.until(lambda wrong=wrong: active(wrong), "a condition", 60)
        path = f"prometheus.googleapis.com/{wrong.replace('|', '/')}"
        assert reason == "FailedGetPodsMetric"
        assert f'the server could not find the descriptor for metric "{path}"' in message
    # only values of running pods count
    path = f"/api/v1/namespaces/monitored/pods/{replica}/status"
    cluster.kube.patch(path, {"status": {"phase": "Running"}})
    cluster.apply(scaler("demo_queue|gauge"))
    reason, _ = cluster.until(
        lambda: (found := active("demo_queue|gauge")) and found[0] == "ValidMetricFound" and found,
        "a value",
        60,
    )
    assert reason == "ValidMetricFound"
    cluster.kube.delete(cluster.kube.path_of(scaler("")))
    cluster.kube.delete("/apis/apps/v1/namespaces/monitored/deployments/scaled")

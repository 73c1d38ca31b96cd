"""The service of batches and its workers: what their objects say."""

from typing import Any

import pulumi
import pytest

from gke_inference import BatchBucket, BatchService
from tests.contract.components_k8s.crds import check
from workloads.batch.settings import Model, read_settings

ARGS: dict[str, Any] = {
    "bucket": "acme-batches",
    "callers": {"metrics_namespace": "gmp-system", "proxies_cidr": "10.2.0.0/23"},
    "cluster_name": "acme-us",
    "endpoint": "http://10.0.0.5",
    "exposure": "internal",
    "gateway_name": "acme-gateway",
    "models": {
        "llama": {"endpoints": ["/v1/chat/completions"], "objective": "llama-batch"},
    },
    "namespace": "models",
    "pickers": ["llama-picker.models.svc:9090"],
    "service_account": "batch",
    "service_name": "batch",
}


def service(recorder: Any, **changes: Any) -> None:
    args: Any = {**ARGS, **changes}
    recorder.run(lambda: BatchService("batch", args).service_name)


def test_the_settings_are_those_that_the_programs_read(recorder: Any, tmp_path: Any) -> None:
    service(recorder, key_secret="k", teams={"red": [], "blue": ["llama"]}, retention_days=7)
    text = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]["settings.json"]
    file = tmp_path / "settings.json"
    file.write_text(text)
    read = read_settings(file)
    assert read.models == {"llama": Model(("/v1/chat/completions",), "llama-batch")}
    assert read.teams == {"red": None, "blue": ("llama",)}
    assert read.metrics_of_pickers == ("http://llama-picker.models.svc:9090/metrics",)
    assert (read.key_file, read.retention_days, read.replicas) == ("/etc/batch-key/key", 7, 2)
    assert (read.port, read.metrics_port) == (8000, 9090)


def test_only_the_gateway_reaches_the_service_and_only_collectors_the_workers(
    recorder: Any,
) -> None:
    service(recorder)
    kind = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
    metrics, calls = recorder.object(kind, "batch")["spec"]["ingress"]
    assert [peer["ipBlock"]["cidr"] for peer in calls["from"]] == [
        "10.2.0.0/23",
        "130.211.0.0/22",
        "35.191.0.0/16",
    ]
    assert [port["port"] for port in calls["ports"]] == [8000]
    assert recorder.object(kind, "batch-worker")["spec"]["ingress"] == [metrics]
    assert [port["port"] for port in metrics["ports"]] == [9090]


def test_workers_follow_the_requests_that_the_service_reports(recorder: Any) -> None:
    service(recorder, min_workers=0, max_workers=6)
    spec = recorder.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    (metric,) = spec["metrics"]
    assert metric["external"] == {
        "metric": {
            "name": "prometheus.googleapis.com|gke_inference_batch_backlog|gauge",
            "selector": {
                "matchLabels": {
                    "resource.labels.cluster": "acme-us",
                    "resource.labels.namespace": "models",
                }
            },
        },
        "target": {"averageValue": "500", "type": "AverageValue"},
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (0, 6)
    workers = recorder.object("kubernetes:apps/v1:Deployment", "batch-worker")["spec"]
    assert "replicas" not in workers
    assert recorder.object("kubernetes:apps/v1:Deployment", "batch")["spec"]["replicas"] == 2


def test_a_worker_that_goes_has_time_for_what_it_began(recorder: Any) -> None:
    service(recorder, deadline_seconds=300)
    workers = recorder.object("kubernetes:apps/v1:Deployment", "batch-worker")["spec"]
    assert workers["template"]["spec"]["terminationGracePeriodSeconds"] == 360
    for each in recorder.all("kubernetes:monitoring.googleapis.com/v1:PodMonitoring"):
        check(each.inputs)


def test_files_go_after_some_days_for_good(recorder: Any) -> None:
    args: Any = {"bucket_name": "acme-batches", "location": "us-central1", "project": "acme"}
    recorder.run(lambda: BatchBucket("b", args).bucket_name)
    bucket = recorder.one("gcp:storage/bucket:Bucket").inputs
    assert bucket["lifecycleRules"][0]["condition"] == {"age": 30}
    assert bucket["publicAccessPrevention"] == "enforced"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {}}, "must have at least 1 entry, got 0"),
        ({"min_workers": 2}, "must be 0 to 1, got 2"),
        ({"max_workers": 0}, "must be 1 to 100, got 0"),
        ({"deadline_seconds": 5}, "must be 10 to 3600, got 5"),
        ({"retention_days": 1}, "must be 2 to 365, got 1"),
    ],
)
def test_a_service_that_cannot_work_is_refused(
    recorder: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError, match=message):
        service(recorder, **changes)

from typing import Any

import pulumi
import pytest

from gke_inference.intent.replicas import ReplicaRange
from gke_inference.serving.autoscaling import Autoscaling, AutoscalingArgs

TYPE = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
QUEUE = "prometheus.googleapis.com|vllm:num_requests_waiting|gauge"
KV_CACHE = "prometheus.googleapis.com|vllm:kv_cache_usage_perc|gauge"
RUNNING = "prometheus.googleapis.com|vllm:num_requests_running|gauge"
UNPLACED = "prometheus.googleapis.com|gke_inference:unplaced_replicas|gauge"

FILLS: Any = {  # a part of the arguments
    "cluster_location": "us-east5",
    "cluster_name": "acme-prod-us-east5",
    "standby": 0,
}


def args() -> AutoscalingArgs:
    return {
        "model": "llama-8b",
        "namespace": "serving",
        "replicas": ReplicaRange(min=1, max=12),
        "target_name": "llama-8b-tpu",
    }


def spec_of(recorder, arguments):
    recorder.run(lambda: Autoscaling("scaling", arguments).hpa_name)
    return recorder.one(TYPE).inputs["spec"]


def test_replicas_follow_the_queue_and_then_the_kv_cache(recorder):
    spec = spec_of(recorder, args())
    assert spec["metrics"] == [
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": QUEUE},
                "target": {"type": "AverageValue", "averageValue": "5"},
            },
        },
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": KV_CACHE},
                "target": {"type": "AverageValue", "averageValue": "800m"},
            },
        },
    ]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 12)
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "llama-8b-tpu",
    }


def test_a_standby_gets_one_replica_for_each_that_has_no_node(recorder):
    spec = spec_of(recorder, {**args(), **FILLS})
    assert spec["metrics"][0] == {
        "type": "External",
        "external": {
            "metric": {
                "name": UNPLACED,
                "selector": {
                    "matchLabels": {
                        "metric.labels.model": "llama-8b",
                        "resource.labels.cluster": "acme-prod-us-east5",
                        "resource.labels.location": "us-east5",
                        "resource.labels.namespace": "serving",
                    }
                },
            },
            "target": {"type": "AverageValue", "averageValue": "1"},
        },
    }
    assert spec["minReplicas"] == 0


def test_replicas_come_at_once_and_go_slowly(recorder):
    behavior = spec_of(recorder, {**args(), "scale_in_delay_seconds": 600})["behavior"]
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600
    assert behavior["scaleDown"]["policies"] == [{"periodSeconds": 120, "type": "Pods", "value": 1}]


def test_replicas_go_as_far_apart_as_is_asked(recorder):
    behavior = spec_of(recorder, {**args(), "scale_in_every_seconds": 30})["behavior"]
    assert behavior["scaleDown"]["policies"] == [{"periodSeconds": 30, "type": "Pods", "value": 1}]


def test_replicas_follow_the_batch_where_that_is_asked(recorder):
    metrics = spec_of(recorder, {**args(), "targets": {"running_requests": 24}})["metrics"]
    assert metrics[-1]["pods"] == {
        "metric": {"name": RUNNING},
        "target": {"type": "AverageValue", "averageValue": "24"},
    }


def test_a_group_of_hosts_is_scaled_as_one(recorder):
    target = spec_of(recorder, {**args(), "target_kind": "LeaderWorkerSet"})["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": {"min": 0, "max": 4}}, "clusterLocation.*set with replicas.min 0, got none"),
        ({"replicas": {"min": -1, "max": 4}}, "replicas.min.*0 to 1000, got -1"),
        ({"standby": -1}, "standby.*0 to 1000, got -1"),
        ({**FILLS, "standby": 13}, r"standby.*at most replicas.max \(12\), got 13"),
        ({"replicas": {"min": 5, "max": 4}}, r"replicas.min.*at most max \(4\), got 5"),
        ({"replicas": {"min": 1, "max": 0}}, "replicas.max.*1 to 1000, got 0"),
        ({"targets": {"kv_cache_percent": 96}}, "targets.kvCachePercent.*10 to 95, got 96"),
        ({"targets": {"queue_depth": 0}}, "targets.queueDepth.*got 0"),
        ({"targets": {"running_requests": 0}}, "targets.runningRequests.*got 0"),
        ({"scale_in_every_seconds": 0}, "scaleInEverySeconds.*1 to 1800, got 0"),
        ({"scale_in_delay_seconds": 3601}, "scaleInDelaySeconds.*0 to 3600"),
        ({"target_kind": "StatefulSet"}, "targetKind.*got 'StatefulSet'"),
        ({"chips_by_model": {"a": 4}}, "chipsByModel.*must not be set with engine 'vllm'"),
        ({"engine": "diffusion", "chips_by_model": {"a": 0}}, "chipsByModel.*at least 1, got 0"),
    ],
)
def test_an_autoscaler_that_could_not_work_is_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        spec_of(recorder, {**args(), **change})
    assert recorder.all(TYPE) == []


@pytest.mark.parametrize("field", ["cluster_location", "cluster_name"])
def test_a_standby_must_say_whose_unplaced_replicas_it_fills(recorder, field):
    arguments = {**args(), **FILLS}
    del arguments[field]
    with pytest.raises(pulumi.InputPropertyError, match="must be set with standby"):
        spec_of(recorder, arguments)


@pytest.mark.parametrize(("signal", "metric"), [("queue", QUEUE), ("kv-cache", KV_CACHE)])
def test_a_role_follows_its_own_signal_alone(recorder, signal, metric):
    spec = spec_of(recorder, {**args(), "signals": [signal]})
    assert [each["pods"]["metric"]["name"] for each in spec["metrics"]] == [metric]


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ([], "signals.*must have at least 1 entry, got 0"),
        (["cpu"], r"signals\[0\].*must be one of queue, kv-cache, got 'cpu'"),
        (["queue", "cpu"], r"signals\[1\].*must be one of queue, kv-cache, got 'cpu'"),
    ],
)
def test_a_signal_nobody_knows_is_refused(recorder, signals, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        spec_of(recorder, {**args(), "signals": signals})


def test_an_autoscaler_says_why_its_size_is_fixed(recorder):
    recorder.run(
        lambda: (
            Autoscaling("scaling", {**args(), "replicas": ReplicaRange(min=12, max=12)}).hpa_name
        )
    )
    metadata = recorder.one(TYPE).inputs["metadata"]
    assert metadata["annotations"] == {
        "gke-inference/fixed-size-because": "the stack asks for this size"
    }

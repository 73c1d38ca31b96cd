"""The workers of a stream and its topics: what their objects say."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference import StreamTable, StreamTopics, StreamWorker
from policies.invariants.scaling.room import most_from_zero
from tests.contract.components_k8s.crds import check
from workloads.stream.settings import read_settings

AGENT = "serviceAccount:service-7@gcp-sa-pubsub.iam.gserviceaccount.com"
TOPICS: dict[str, Any] = {
    "project": "acme",
    "project_number": "7",
    "stream_name": "acme-summaries",
    "worker": "principal://worker",
}
WORKER: dict[str, Any] = {
    "dead_letters": "projects/acme/topics/dead",
    "endpoint": "http://10.0.0.5",
    "model": "llama-3.1-8b",
    "names": ["llama-3.1-8b", "sql"],
    "namespace": "models",
    "objective": "llama-3-1-8b-batch",
    "picker": "llama-3-1-8b-picker.models.svc:9090",
    "results": {"kind": "topic"},
    "results_topic": "projects/acme/topics/results",
    "service_account": "stream-summaries",
    "stream_name": "summaries",
    "subscription": "projects/acme/subscriptions/acme-summaries",
    "worker_name": "stream-summaries",
}
KAFKA: dict[str, Any] = {
    "brokers": ["kafka-0:9092"],
    "cluster_name": "acme-us",
    "group": "summaries",
    "min_workers": 1,
    "results": {"kind": "topic", "topic": "in-results"},
    "source_topic": "in",
    "subscription": "",
}


def topics(recorder: Any, **changes: Any) -> None:
    args: Any = {**TOPICS, **changes}
    recorder.run(lambda: StreamTopics("stream", args).subscription)


def worker(recorder: Any, **changes: Any) -> None:
    args: Any = {**WORKER, **changes}
    recorder.run(lambda: StreamWorker("stream", args).worker_name)


def scaled_by(recorder: Any) -> tuple[Any, Any]:
    spec = recorder.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    (metric,) = spec["metrics"]
    return metric["external"], (spec["minReplicas"], spec["maxReplicas"])


def test_workers_at_zero_may_start_however_long_they_have_slept(recorder: Any) -> None:
    worker(recorder)
    spec = recorder.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    assert spec["minReplicas"] == 0
    assert most_from_zero(spec["behavior"]["scaleUp"]) == 1


def test_pubsub_itself_may_move_dead_letters_and_nobody_else_has_more(recorder: Any) -> None:
    topics(recorder)
    kind = "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember"
    reads = {each.inputs["member"]: each.inputs for each in recorder.all(kind)}
    assert set(reads) == {AGENT, "principal://worker"}
    assert {each["role"] for each in reads.values()} == {"roles/pubsub.subscriber"}
    writes = [
        (each.inputs["topic"], each.inputs["member"], each.inputs["role"])
        for each in recorder.all("gcp:pubsub/topicIAMMember:TopicIAMMember")
    ]
    dead = "acme-summaries-dead-letters"
    assert sorted(writes) == [
        (dead, "principal://worker", "roles/pubsub.publisher"),
        (dead, AGENT, "roles/pubsub.publisher"),
    ]


def test_the_subscription_waits_between_deliveries_and_lives_without_readers(recorder: Any) -> None:
    topics(recorder, retry_seconds=20, ordered=True)
    kind = "gcp:pubsub/subscription:Subscription"
    found = {each.inputs["name"]: each.inputs for each in recorder.all(kind)}
    assert set(found) == {"acme-summaries", "acme-summaries-dead-letters"}
    read = found["acme-summaries"]
    assert read["retryPolicy"] == {"maximumBackoff": "60s", "minimumBackoff": "20s"}
    assert read["deadLetterPolicy"]["maxDeliveryAttempts"] == 100
    assert read["enableMessageOrdering"] is True
    assert {each["expirationPolicy"]["ttl"] for each in found.values()} == {""}
    assert {each["messageRetentionDuration"] for each in found.values()} == {"604800s"}


def test_answers_that_are_messages_have_a_topic_that_keeps_them(recorder: Any) -> None:
    topics(recorder, keeps_results=True, topic="projects/other/topics/there")
    names = {each.inputs["name"] for each in recorder.all("gcp:pubsub/topic:Topic")}
    assert names == {"acme-summaries-dead-letters", "acme-summaries-results"}
    kind = "gcp:pubsub/subscription:Subscription"
    found = {each.inputs["name"]: each.inputs["topic"] for each in recorder.all(kind)}
    assert found["acme-summaries"] == "projects/other/topics/there"
    assert "acme-summaries-results" in found


def grants_of_table(recorder: Any) -> list[tuple[str, str, str, str]]:
    """Return project, place, member and role of the grants on a table and its dataset."""
    table = recorder.one("gcp:bigquery/iamMember:IamMember").inputs
    dataset = recorder.one("gcp:bigquery/datasetAccess:DatasetAccess").inputs
    return [
        (
            table["project"],
            f"{table['datasetId']}.{table['tableId']}",
            table["member"],
            table["role"],
        ),
        (dataset["project"], dataset["datasetId"], dataset["iamMember"], dataset["role"]),
    ]


TABLE_GRANTS = [
    ("acme-data", "answers.rows", "principal://worker", "roles/bigquery.dataEditor"),
    ("acme-data", "answers", "principal://worker", "roles/bigquery.metadataViewer"),
]


def test_workers_may_insert_into_their_table_and_see_its_dataset(recorder: Any) -> None:
    topics(recorder, results_table="acme-data.answers.rows")
    assert grants_of_table(recorder) == TABLE_GRANTS


def test_workers_of_kafka_get_the_same_access_to_a_table(recorder: Any) -> None:
    args: Any = {"table": "acme-data.answers.rows", "worker": "principal://worker"}
    recorder.run(lambda: StreamTable("stream", args).table)
    assert grants_of_table(recorder) == TABLE_GRANTS


def test_workers_follow_the_backlog_of_their_subscription_down_to_none(recorder: Any) -> None:
    worker(recorder, backlog_per_worker=50, max_workers=6)
    external, bounds = scaled_by(recorder)
    assert external["metric"] == {
        "name": "pubsub.googleapis.com|subscription|num_undelivered_messages",
        "selector": {"matchLabels": {"resource.labels.subscription_id": "acme-summaries"}},
    }
    assert external["target"] == {"averageValue": "50", "type": "AverageValue"}
    assert bounds == (0, 6)
    spec = recorder.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    assert "replicas" not in spec


def test_workers_of_kafka_follow_what_they_report_in_their_own_cluster(recorder: Any) -> None:
    worker(recorder, **KAFKA)
    external, bounds = scaled_by(recorder)
    assert external["metric"] == {
        "name": "prometheus.googleapis.com|gke_inference_stream_backlog|gauge",
        "selector": {
            "matchLabels": {
                "metric.labels.stream": "summaries",
                "resource.labels.cluster": "acme-us",
                "resource.labels.namespace": "models",
            }
        },
    }
    assert bounds == (1, 8)


def test_the_settings_are_those_that_the_program_reads(recorder: Any, tmp_path: Any) -> None:
    worker(recorder, deadline_seconds=300, key_secret="stream-key")
    text = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]["settings.json"]
    file = tmp_path / "settings.json"
    file.write_text(text)
    read = read_settings(file)
    assert read.source == {"kind": "pubsub", "subscription": WORKER["subscription"]}
    assert read.results == {"kind": "topic", "topic": WORKER["results_topic"]}
    assert read.metrics_of_picker == f"http://{WORKER['picker']}/metrics"
    assert (read.deadline_seconds, read.key_file) == (300, "/etc/stream-key/key")
    worker_kafka = json.loads(text)
    assert worker_kafka["names"] == ["llama-3.1-8b", "sql"]


def test_a_worker_that_goes_has_time_for_what_it_began(recorder: Any) -> None:
    worker(recorder, deadline_seconds=300)
    pod = recorder.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 330
    check(recorder.one("kubernetes:monitoring.googleapis.com/v1:PodMonitoring").inputs)


def test_only_collectors_reach_a_worker(recorder: Any) -> None:
    worker(recorder)
    spec = recorder.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    ((peer,),) = [rule["from"] for rule in spec["ingress"]]
    labels = peer["namespaceSelector"]["matchLabels"]
    assert labels == {"kubernetes.io/metadata.name": "gmp-system"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_workers": 9}, r"must be at most max \(8\), got 9"),
        ({"deadline_seconds": 5}, "must be 10 to 3600, got 5"),
        ({"results": {"kind": "tape"}}, "must be one of topic, bucket, bigquery, got 'tape'"),
        ({"subscription": ""}, "must be set without brokers, got none"),
        ({**KAFKA, "min_workers": 0}, "must be 1 or more when the source is Kafka"),
        ({**KAFKA, "group": ""}, "must be set with brokers, got none"),
    ],
)
def test_workers_that_cannot_work_are_refused(
    recorder: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError, match=message):
        worker(recorder, **changes)

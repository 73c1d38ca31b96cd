"""Streams of a stack: what a region builds for them, and what stays as it was without them."""

import json
from typing import Any

import pytest

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.plan.gke_version import needed
from infra.reading.load import parse
from tests.contract.infra.broken_stacks import edited

STREAM = {"model": "llama-3.1-8b"}
KAFKA = {
    "model": "llama-3.1-8b",
    "source": {"kind": "kafka", "brokers": ["k:9092"], "topic": "in"},
    "workers": {"min": 1},
}


def platform_with(**streams: Any) -> Any:
    rapid = {"at": ["regions", "us-central1", "release_channel"], "value": "rapid"}
    edits = [rapid, {"at": ["streams"], "value": streams}]
    return parse(json.dumps(edited("dev", edits)))


def settings_of(recorder: Any) -> list[dict[str, Any]]:
    maps = [seen.inputs["data"] for seen in recorder.all("kubernetes:core/v1:ConfigMap")]
    return [json.loads(data["settings.json"]) for data in maps if "settings.json" in data]


def test_a_stream_asks_the_gateway_with_the_priority_of_the_batch(deployed: Any) -> None:
    seen = deployed(platform_with(summaries=STREAM))
    (found,) = settings_of(seen)
    assert found["objective"] == "llama-3-1-8b-batch"
    assert found["endpoint"].startswith("http")
    assert found["source"]["kind"] == "pubsub"
    grants = seen.all("gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember")
    members = [each.inputs["member"] for each in grants]
    assert any(each.endswith("/subject/ns/models/sa/stream-summaries") for each in members)
    policies = seen.all("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    pickers = next(p for p in policies if p.inputs["metadata"]["name"] == "pickers")
    assert "stream-worker" in json.dumps(pickers.inputs["spec"])


def test_workers_act_for_the_team_of_their_stream(deployed: Any) -> None:
    clients = {"teams": {"red": {}, "batches": {"acts_for_teams": True}}}
    edits = [
        {"at": ["clients"], "value": clients},
        {"at": ["streams", "summaries", "key_secret"], "value": "stream-key"},
        {"at": ["streams", "summaries", "team"], "value": "red"},
    ]
    seen = deployed(parse(json.dumps(edited("streaming/streaming", edits))))
    assert [found.get("team") for found in settings_of(seen)] == ["red"]


def test_a_stream_of_kafka_needs_nothing_of_pubsub(deployed: Any) -> None:
    platform = platform_with(summaries=KAFKA)
    seen = deployed(platform)
    assert not seen.all("gcp:pubsub/topic:Topic")
    (found,) = settings_of(seen)
    assert found["dead_letters"] == "in-dead-letters"
    assert found["results"] == {"kind": "topic", "topic": "in-results"}
    assert "pubsub.googleapis.com" not in resolve(platform).project.services
    assert "pubsub.googleapis.com" in resolve(platform_with(summaries=STREAM)).project.services


@pytest.mark.parametrize(("stream", "tables"), [(STREAM, 0), (KAFKA, 1)])
def test_workers_get_access_to_the_table_of_their_answers(
    deployed: Any, stream: dict[str, Any], tables: int
) -> None:
    results = {"kind": "bigquery", "table": "acme-data.answers.rows"}
    seen = deployed(platform_with(summaries={**stream, "results": results}))
    on_table = seen.one("gcp:bigquery/iamMember:IamMember").inputs["member"]
    assert on_table.endswith("/subject/ns/models/sa/stream-summaries")
    assert seen.one("gcp:bigquery/datasetAccess:DatasetAccess").inputs["iamMember"] == on_table
    assert len(seen.all("gke-inference:index:StreamTable")) == tables


def test_workers_that_scale_to_none_need_the_gke_that_does() -> None:
    (region, *_) = resolve(platform_with(summaries=STREAM)).regions.values()
    assert region.idle_streams == ("summaries",)
    always = {"model": "llama-3.1-8b", "workers": {"min": 1}}
    (other, *_) = resolve(platform_with(summaries=always)).regions.values()
    assert other.idle_streams == ()
    assert needed(region)[0] == "1.37"
    assert needed(other)[0] != "1.37"


def test_a_stack_without_streams_has_no_topics(deployed: Any) -> None:
    seen = deployed(platform_with())
    assert not seen.all("gcp:pubsub/topic:Topic")
    assert not settings_of(seen)


def test_pubsub_is_in_the_cost_of_a_stream() -> None:
    def parts(**streams: Any) -> list[str]:
        cost = stack_cost(resolve(platform_with(**streams)))
        return [part.quantity for part in cost.parts if part.what.startswith("Pub/Sub")]

    assert parts(summaries=STREAM, other=STREAM) == ["2 streams"]
    assert parts(summaries=KAFKA) == []

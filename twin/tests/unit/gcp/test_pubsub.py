"""Pub/Sub: errors for subscriptions, and grants for dead letters."""

from typing import Any

import pytest

from twin.providers.gcp.effects import pubsub as effect
from twin.providers.gcp.resources.pubsub import SUBSCRIPTION, TOPIC, grants
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused

AGENT = "serviceAccount:service-314159265358@gcp-sa-pubsub.iam.gserviceaccount.com"
IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"
ON_TOPIC = "gcp:pubsub/topicIAMMember:TopicIAMMember"
PUBLISHER = "roles/pubsub.publisher"


@pytest.fixture(name="calls")
def the_calls(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """What the provider asks of the server; none runs."""
    del cloud
    made: list[tuple[str, str, Any]] = []
    monkeypatch.setattr(effect, "_ensure", lambda _: None)
    monkeypatch.setattr(effect, "_request", lambda _, *words: made.append(words))
    return made


def topic(cloud: Cloud, name: str = "docs") -> Made:
    return cloud.create(TOPIC, name, {"name": name})


def subscription(cloud: Cloud, **fields: Any) -> Made:
    inputs = {"name": "read", "topic": "projects/acme/topics/docs", **fields}
    return cloud.create(SUBSCRIPTION, "read", inputs)


def test_the_server_gets_what_a_subscription_delivers_by(
    cloud: Cloud, calls: list[tuple[str, str, Any]]
) -> None:
    topic(cloud)
    made = subscription(
        cloud,
        topic="docs",
        ackDeadlineSeconds=60,
        enableMessageOrdering=True,
        expirationPolicy={"ttl": ""},
        retryPolicy={"minimumBackoff": "10s"},
    )
    assert made.id == "projects/acme/subscriptions/read"
    assert calls[0] == ("PUT", "/v1/projects/acme/topics/docs", {})
    method, path, body = calls[1]
    assert (method, path) == ("PUT", f"/v1/{made.id}")
    assert (body["topic"], body["ackDeadlineSeconds"]) == ("projects/acme/topics/docs", 60)
    assert body["enableMessageOrdering"] is True
    assert body["retryPolicy"]["minimumBackoff"] == "10s"
    assert "expirationPolicy" not in body
    cloud.delete(made)
    assert calls[2][:2] == ("DELETE", f"/v1/{made.id}")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "googs"}, "name: must be 3 to 255 letters"),
        ({"ackDeadlineSeconds": 9}, "ackDeadlineSeconds: must be 10 to 600, got 9"),
        ({"ackDeadlineSeconds": 601}, "ackDeadlineSeconds: must be 10 to 600, got 601"),
        (
            {"deadLetterPolicy": {"maxDeliveryAttempts": 4}},
            "deadLetterPolicy.maxDeliveryAttempts: must be 5 to 100, got 4",
        ),
        (
            {"deadLetterPolicy": {"maxDeliveryAttempts": 101}},
            "deadLetterPolicy.maxDeliveryAttempts: must be 5 to 100, got 101",
        ),
        (
            {"retryPolicy": {"maximumBackoff": "601s"}},
            "retryPolicy.maximumBackoff: must be 0s to 600s, got 601s",
        ),
        ({"messageRetentionDuration": "599s"}, "messageRetentionDuration: must be 600s to"),
        ({"enableExactlyOnceDelivery": True}, "the twin has no exactly-once delivery"),
        ({"topic": "projects/acme/topics/none"}, "The Topic .* was not found"),
        (
            {"deadLetterPolicy": {"deadLetterTopic": "projects/acme/topics/none"}},
            "The Topic .* was not found",
        ),
    ],
)
def test_what_google_refuses_of_a_subscription_is_refused(
    cloud: Cloud, calls: list[tuple[str, str, Any]], fields: dict[str, Any], message: str
) -> None:
    topic(cloud)
    with pytest.raises(Refused, match=message):
        subscription(cloud, **fields)
    assert len(calls) == 1, "the server has heard of the topic alone"


def test_a_change_is_checked_as_a_new_subscription_is(
    cloud: Cloud, calls: list[tuple[str, str, Any]]
) -> None:
    topic(cloud)
    made = subscription(cloud)
    with pytest.raises(Refused, match="ackDeadlineSeconds: must be 10 to 600, got 5"):
        cloud.update(made, {**made.inputs, "ackDeadlineSeconds": 5})
    assert len(calls) == 2


def test_the_server_knows_what_pubsubs_own_agent_may_do_and_of_nobody_else(
    cloud: Cloud, calls: list[tuple[str, str, Any]]
) -> None:
    topic(cloud, "dead")
    inputs = {"topic": "dead", "role": PUBLISHER, "project": "acme"}
    cloud.create(IDENTITY, "identity", {"service": "pubsub.googleapis.com", "project": "acme"})
    granted = cloud.create(ON_TOPIC, "agent", {**inputs, "member": AGENT})
    cloud.create(ON_TOPIC, "ada", {**inputs, "member": "user:ada@example.com"})
    wanted = [f"projects/acme/topics/dead {PUBLISHER}"]
    assert grants(cloud.world.store) == wanted
    assert calls[-1] == ("PUT", "/grants", wanted)
    cloud.delete(granted)
    assert calls[-1] == ("PUT", "/grants", [])

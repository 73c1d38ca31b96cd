"""Pub/Sub as a process of the twin: leases, waits, dead letters and order."""

import base64
import json
import os
import signal
import time
import urllib.request
from typing import Any

import pytest

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import pubsub
from twin.providers.gcp.effects.registry import effect_of
from twin.providers.gcp.resources.pubsub import SUBSCRIPTION, TOPIC
from twin.providers.gcp.server import world_of
from twin.tests.eventually import eventually
from twin.tests.tools import needed
from twin.world.store import new_record

pytestmark = pytest.mark.needs_tools
P = "projects/acme"
AGENT = "serviceAccount:service-7@gcp-sa-pubsub.iam.gserviceaccount.com"
READ = f"{P}/subscriptions/read"
DEAD = f"{P}/subscriptions/dead"


class Bus:
    """The server of a twin, as the provider and clients use it."""

    def __init__(self, world: Any) -> None:
        self.world = world

    def made(self, kind: str, identity: str, **inputs: Any) -> None:
        """Create a resource as the provider does."""
        name = identity.rpartition("/")[2]
        wanted = {"name": name, "project": "acme", **inputs}
        record = new_record(kind, identity, name, "acme", "urn", wanted, wanted)
        self.world.store.add(record, [])
        effect_of(kind.split(":")[1]).create(self.world, record)
        self.world.store.set(kind, identity, status="ready", outputs=wanted)

    def grant(self, field: str, name: str, role: str) -> None:
        title = field[0].upper() + field[1:]
        kind = f"gcp:pubsub/{field}IAMMember:{title}IAMMember"
        self.made(kind, f"{P}/{name}/{role}", **{field: name}, role=role, member=AGENT)

    def call(self, path: str, **body: Any) -> dict[str, Any]:
        url = f"http://{pubsub.metrics_address(self.world.paths)}/v1/{path}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - of this machine
            return json.loads(answer.read())

    def put(self, text: str, **fields: Any) -> str:
        message = {"data": base64.b64encode(text.encode()).decode(), **fields}
        return self.call(f"{P}/topics/docs:publish", messages=[message])["messageIds"][0]

    def pull(self, subscription: str = READ) -> list[dict[str, Any]]:
        return self.call(f"{subscription}:pull", maxMessages=100).get("receivedMessages", [])

    def extend(self, received: dict[str, Any], seconds: int) -> None:
        ids = [received["ackId"]]
        self.call(f"{READ}:modifyAckDeadline", ackIds=ids, ackDeadlineSeconds=seconds)


@pytest.fixture(name="bus")
def a_bus(tmp_path):
    needed(pubsub.NAME)
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    bus = Bus(world_of(paths))
    bus.made(TOPIC, f"{P}/topics/docs")
    yield bus
    processes.stop(paths, *processes.running(paths))


def text_of(received: dict[str, Any]) -> str:
    return base64.b64decode(received["message"]["data"]).decode()


def test_a_message_comes_again_after_its_backoff_and_an_old_acknowledgement_does_nothing(bus):
    retry = {"minimumBackoff": "1s", "maximumBackoff": "600s"}
    bus.made(SUBSCRIPTION, READ, topic=f"{P}/topics/docs", retryPolicy=retry)
    bus.put("a")
    (first,) = bus.pull()
    bus.extend(first, 0)
    began = time.monotonic()
    (second,) = eventually(bus.pull, 10)
    assert time.monotonic() - began >= 0.9
    assert second["message"]["messageId"] == first["message"]["messageId"]
    bus.call(f"{READ}:acknowledge", ackIds=[first["ackId"]])
    bus.extend(second, 0)
    began = time.monotonic()
    (third,) = eventually(bus.pull, 10)
    assert time.monotonic() - began >= 1.9, "the second wait is twice as long"
    bus.call(f"{READ}:acknowledge", ackIds=[third["ackId"]])
    assert bus.pull() == []


def test_dead_letters_need_both_grants_of_pubsubs_own_agent(bus):
    bus.made(TOPIC, f"{P}/topics/dead")
    bus.made(SUBSCRIPTION, DEAD, topic=f"{P}/topics/dead")
    policy = {"deadLetterTopic": f"{P}/topics/dead", "maxDeliveryAttempts": 5}
    bus.made(SUBSCRIPTION, READ, topic=f"{P}/topics/docs", deadLetterPolicy=policy)
    bus.put("a", attributes={"own": "kept"})
    for attempt in range(1, 7):
        (received,) = bus.pull()
        assert received["deliveryAttempt"] == attempt
        bus.extend(received, 0)
    bus.grant("topic", "dead", "roles/pubsub.publisher")
    (received,) = bus.pull()
    bus.extend(received, 0)
    assert bus.pull(DEAD) == []
    (received,) = bus.pull()
    bus.grant("subscription", "read", "roles/pubsub.subscriber")
    bus.extend(received, 0)
    (letter,) = eventually(lambda: bus.pull(DEAD), 10)
    assert letter["message"]["attributes"]["own"] == "kept"
    source = "CloudPubSubDeadLetterSource"
    assert letter["message"]["attributes"][f"{source}Subscription"] == "read"
    assert letter["message"]["attributes"][f"{source}DeliveryCount"] == "8"
    assert bus.pull() == []


def test_one_message_of_a_key_is_out_at_a_time(bus):
    bus.made(SUBSCRIPTION, READ, topic=f"{P}/topics/docs", enableMessageOrdering=True)
    for text in ("a1", "a2", "b1"):
        bus.put(text, orderingKey=text[0])
    received = bus.pull()
    assert [text_of(each) for each in received] == ["a1", "b1"]
    assert bus.pull() == []
    bus.call(f"{READ}:acknowledge", ackIds=[received[0]["ackId"]])
    assert [text_of(each) for each in bus.pull()] == ["a2"]


def test_a_server_that_died_is_back_with_its_subscriptions_and_empty(bus):
    bus.made(SUBSCRIPTION, READ, topic=f"{P}/topics/docs")
    bus.put("a")
    paths = bus.world.paths
    where = pubsub.address(paths)
    pid = processes.pid_of(paths, pubsub.NAME)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: processes.pid_of(paths, pubsub.NAME) is None, 10)
    pubsub.repair(paths)
    assert pubsub.address(paths) == where
    assert bus.pull() == []
    bus.put("b")
    assert [text_of(each) for each in bus.pull()] == ["b"]

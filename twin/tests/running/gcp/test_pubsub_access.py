"""Pub/Sub on the address of one caller: each method needs a role of the caller."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import pubsub
from twin.providers.gcp.effects.registry import effect_of
from twin.providers.gcp.iam.principals import Principal
from twin.providers.gcp.resources.pubsub import SUBSCRIPTION, TOPIC
from twin.providers.gcp.server import world_of
from twin.tests.eventually import eventually
from twin.world.store import new_record

pytestmark = pytest.mark.needs_tools

TO = "projects/acme/topics/docs"
FROM = "projects/acme/subscriptions/read"
POD = Principal.of_pod("acme", "streams", "worker")
POOL = "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/acme.svc.id.goog"
MEMBER = f"principal:{POOL}/subject/ns/streams/sa/worker"
OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED


class Bus:
    """A twin's server, as the provider and one pod use it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.made(TOPIC, TO)
        self.made(SUBSCRIPTION, FROM, topic=TO)
        where = pubsub.address_for(world.paths, POD)
        assert where is not None
        self.where = where

    def made(self, kind: str, identity: str, **inputs: Any) -> None:
        wanted = {"name": identity.rpartition("/")[2], "project": "acme", **inputs}
        record = new_record(kind, identity, wanted["name"], "acme", "urn", wanted, wanted)
        self.world.store.add(record, [])
        effect_of(kind.split(":")[1]).create(self.world, record)
        self.world.store.set(kind, identity, status="ready", outputs=wanted)

    def grant(self, field: str, name: str, role: str) -> None:
        kind = f"gcp:pubsub/{field}IAMMember:{field.capitalize()}IAMMember"
        identity = f"{name} {role}"
        self.made(kind, identity, **{field: name}, role=role, member=MEMBER)

    def call(self, method: str, request: bytes) -> grpc.StatusCode:
        """Return the status of a call; a stream ends with its first answer."""
        with grpc.insecure_channel(self.where) as channel:
            path = f"/google.pubsub.v1.{method}"
            try:
                if method.endswith("/StreamingPull"):
                    stream: Any = channel.stream_stream(path)
                    over = threading.Event()
                    next(stream(then_open(request, over), timeout=30))
                    over.set()
                else:
                    once: Callable[..., Any] = channel.unary_unary(path)
                    once(request, timeout=30)
            except grpc.RpcError as error:
                found: Any = error
                if found.code() is DENIED:
                    assert found.details() == "User not authorized to perform this action."
                return found.code()
        return OK

    def publish(self) -> grpc.StatusCode:
        return self.call("Publisher/Publish", text(1, TO) + text(2, text(1, "x")))

    def pull(self) -> grpc.StatusCode:
        return self.call("Subscriber/Pull", text(1, FROM) + b"\x18\x01")  # at most 1 message

    def stream(self) -> grpc.StatusCode:
        return self.call("Subscriber/StreamingPull", text(1, FROM) + b"\x28\x0a")  # 10 s


def then_open(request: bytes, over: threading.Event) -> Iterator[bytes]:
    """Yield a request, and leave the stream open until it is over."""
    yield request
    over.wait(30)


def text(number: int, content: str | bytes) -> bytes:
    """Return a field of a Protocol Buffers message with fewer than 128 bytes."""
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


@pytest.fixture(name="bus", scope="module")
def a_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    paths = TwinPaths(tmp_path_factory.mktemp("twin"))
    paths.create()
    try:
        yield Bus(world_of(paths))
    finally:
        processes.stop(paths, *processes.running(paths))


def test_a_pod_publishes_and_receives_only_with_the_roles_for_it(bus: Bus) -> None:
    assert (bus.publish(), bus.pull(), bus.stream()) == (DENIED, DENIED, DENIED)
    bus.grant("topic", "docs", "roles/pubsub.publisher")
    assert (bus.publish(), bus.pull(), bus.stream()) == (OK, DENIED, DENIED)
    bus.grant("subscription", "read", "roles/pubsub.subscriber")
    assert bus.stream() is OK, "the message of before"
    assert (bus.publish(), bus.pull()) == (OK, OK)


def test_a_method_whose_permission_the_twin_does_not_know_is_refused(bus: Bus) -> None:
    listed = bus.call("Publisher/ListTopics", text(1, "projects/acme"))
    assert listed is grpc.StatusCode.UNIMPLEMENTED


def test_a_caller_keeps_its_address_when_the_server_starts_again(bus: Bus) -> None:
    paths = bus.world.paths
    pid = processes.pid_of(paths, pubsub.NAME)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: processes.pid_of(paths, pubsub.NAME) is None, 10)
    pubsub.repair(paths)
    assert pubsub.address_for(paths, POD) == bus.where
    assert bus.call("Publisher/GetTopic", text(1, TO)) is DENIED

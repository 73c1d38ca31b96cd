"""Which requests for nodes that come together are accepted."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.autoscaler.queued import CLASS, QueuedRequests
from twin.cluster.autoscaler.state import Cluster, Node
from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.reports import timestamp
from twin.cluster.nodes import node_objects, pool_spec
from twin.cluster.nodes.node_objects import POOL_LABEL
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.cluster.nodes.provisioning import Provisioner
from twin.host.paths import TwinPaths
from twin.world.events import Events
from twin.world.rules import Rules

ZONE = "us-east5-a"
FULL = "Max nodepool size reached, affected nodepools: gang"


class Answers:
    """An API server with one pod template, which keeps what is reported of requests."""

    def __init__(self) -> None:
        self.reported: dict[str, dict[str, str]] = {}

    def get(self, path: str) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": "1"}
        containers = [{"name": "work", "resources": {"limits": limits, "requests": limits}}]
        spec = {"containers": containers, "nodeSelector": {POOL_LABEL: "gang"}}
        return {"template": {"spec": spec}}

    def patch(self, path: str, body: dict[str, Any]) -> None:
        conditions = body["status"]["conditions"]
        name = path.split("/")[-2]
        self.reported[name] = {each["type"]: each["message"] for each in conditions}


@pytest.fixture
def context(tmp_path: Path) -> Any:
    paths = TwinPaths(tmp_path / "twin")
    folder = paths.cluster("us-east5", "test")
    folder.mkdir(parents=True)
    spec = ClusterSpec("acme", "us-east5", "test", (ZONE,), False, "1.36.3-gke.1", "uid")
    return SimpleNamespace(
        dir=folder,
        events=Events(paths.events_file),
        kube=Answers(),
        paths=paths,
        rules=Rules(speed=1000),
        spec=spec,
    )


@pytest.fixture
def pool(tmp_path: Path) -> PoolSpec:
    """A pool with queued provisioning of at most 4 nodes."""
    config = {
        "flexStart": True,
        "guestAccelerators": [{"count": 1, "type": "nvidia-l4"}],
        "machineType": "g2-standard-12",
    }
    inputs = {
        "autoscaling": {"totalMaxNodeCount": 4, "totalMinNodeCount": 0},
        "nodeConfig": config,
        "queuedProvisioning": {"enabled": True},
    }
    file = tmp_path / "gang.json"
    file.write_text(json.dumps({"inputs": inputs, "name": "gang", "zones": [ZONE]}))
    return pool_spec.load(file, lambda _: None)


def request(name: str, count: int) -> dict[str, Any]:
    sets = [{"count": count, "podTemplateRef": {"name": "p"}}]
    return {
        "metadata": {"name": name, "namespace": "jobs-a", "uid": name},
        "spec": {"podSets": sets, "provisioningClassName": CLASS},
    }


def cluster(pool: PoolSpec, nodes: int, *requests: dict[str, Any]) -> Cluster:
    return Cluster(
        unschedulable=[],
        nodes=[node(pool, f"n{at}") for at in range(nodes)],
        classes={},
        pools={pool.name: pool},
        pool_counts={},
        class_items={},
        autopilot=False,
        zones=(ZONE,),
        requests=list(requests),
    )


def node(pool: PoolSpec, name: str, **annotations: str) -> Node:
    named = {f"gke-inference.dev/{key.replace('_', '-')}": v for key, v in annotations.items()}
    item = node_objects.build(pool.shape, name=name, zone=ZONE, project="acme", annotations=named)
    ready = {"status": "True", "type": "Ready"}
    return Node({**item, "status": {**item["status"], "conditions": [ready]}}, [], [])


def of_request(pool: PoolSpec, uid: str, count: int) -> list[Node]:
    """Return nodes that an autoscaler brought up for a request."""
    return [node(pool, f"n{at}", group="n0", provisioning_request=uid) for at in range(count)]


def test_a_request_fails_while_the_nodes_before_it_leave_no_room(context: Any, pool: PoolSpec):
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    queued.scan(cluster(pool, 3, request("second", 2)))
    assert context.kube.reported == {"second": {"Failed": FULL}}
    queued.scan(cluster(pool, 2, request("again", 2)))
    assert list(context.kube.reported["again"]) == ["Accepted"]


def test_nodes_that_another_request_waits_for_count(context: Any, pool: PoolSpec):
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    first, second = request("first", 3), request("second", 2)
    queued.scan(cluster(pool, 0, first, second))
    assert list(context.kube.reported["first"]) == ["Accepted"]
    assert context.kube.reported["second"] == {"Failed": FULL}
    queued.scan(cluster(pool, 0, request("third", 2)))  # the others are given up
    assert list(context.kube.reported["third"]) == ["Accepted"]


def provisioned(name: str, seconds_ago: float) -> dict[str, Any]:
    at = timestamp(time.time() - seconds_ago)
    condition = {"lastTransitionTime": at, "message": "", "status": "True", "type": "Provisioned"}
    return {**request(name, 2), "status": {"conditions": [condition]}}


def test_nodes_stay_booked_when_the_autoscaler_starts_again(context: Any, pool: PoolSpec):
    context.rules = Rules(speed=1)
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    found = cluster(pool, 0, provisioned("done", 60))
    found.nodes = of_request(pool, "done", 2)
    queued.scan(found)
    assert (found.booked, context.kube.reported) == ({"n0"}, {})


def test_a_booking_ends_when_it_would_have_without_a_restart(context: Any, pool: PoolSpec):
    context.rules = Rules(speed=1)
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    found = cluster(pool, 0, provisioned("done", 601))
    found.nodes = of_request(pool, "done", 2)
    queued.scan(found)
    assert found.booked == set()
    assert list(context.kube.reported["done"]) == ["Provisioned", "BookingExpired"]


def test_a_request_whose_nodes_came_before_a_restart_is_provisioned(context: Any, pool: PoolSpec):
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    found = cluster(pool, 0, request("half", 3))
    found.nodes = of_request(pool, "half", 3)
    queued.scan(found)
    assert list(context.kube.reported["half"]) == ["Provisioned"]
    assert found.booked == {"n0"}


def test_a_request_of_which_some_nodes_came_before_a_restart_begins_again(
    context: Any, pool: PoolSpec
):
    queued = QueuedRequests(context, Provisioner(context, "autoscaler"))
    found = cluster(pool, 0, request("part", 2))
    found.nodes = of_request(pool, "part", 1)
    queued.scan(found)
    assert list(context.kube.reported["part"]) == ["Accepted"]
    assert "n0" not in found.booked

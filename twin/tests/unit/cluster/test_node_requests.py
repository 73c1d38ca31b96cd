"""Nodes of one placement policy, and nodes with networks (placement.compact, quota.networks)."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.nodes import node_objects
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.provisioning import Provisioner
from twin.host.paths import TwinPaths
from twin.world.events import Events
from twin.world.machines import machine
from twin.world.rules import Rules
from twin.world.store import Store

ZONE = "us-central1-b"
POLICY = "acme-nodes-placement"
H200 = NodeShape(machine=machine("a3-ultragpu-8g"), pool="h200", provisioning="spot")
CLOSE = replace(H200, placement=POLICY)
RDMA = replace(
    H200, auto_created=True, labels={"gke.networks.io/accelerator-network-profile": "auto"}
)
CLOSE_H100 = replace(CLOSE, machine=machine("a3-highgpu-8g"), pool="h100")
CLOSE_B200 = replace(CLOSE, machine=machine("a4-highgpu-8g"), pool="b200")


class Api:
    """The nodes of a cluster."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def add(self, shape: NodeShape, count: int) -> None:
        for at in range(len(self.nodes), len(self.nodes) + count):
            self.nodes.append(node_objects.build(shape, name=f"n{at}", zone=ZONE, project="acme"))

    def list(self, path: str, label_selector: str) -> Any:
        assert path == "/api/v1/nodes"
        key, is_value, value = label_selector.partition("=")
        found = ((node, node["metadata"]["labels"].get(key)) for node in self.nodes)
        return [node for node, label in found if label == value or (label and not is_value)]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def provisioner(tmp_path: Path, api: Api) -> Provisioner:
    paths = TwinPaths(tmp_path / "twin")
    folder = paths.cluster("us-central1", "test")
    folder.mkdir(parents=True)
    context: Any = SimpleNamespace(
        dir=folder,
        events=Events(paths.events_file),
        kube=api,
        paths=paths,
        rules=Rules(speed=1000),
        spec=ClusterSpec("acme", "us-central1", "test", (ZONE,), False, "1.36.3-gke.1", "uid"),
    )
    return Provisioner(context, "pools")


def test_a_policy_has_at_most_as_many_nodes_as_its_machines_allow(api, provisioner):
    api.add(CLOSE, 95)
    api.add(H200, 10)  # without the policy
    assert provisioner.request(CLOSE, ZONE)[0].granted
    answer, _ = provisioner.request(CLOSE, ZONE)  # the node before this one is still coming
    assert (answer.outcome, answer.message) == (
        "refused",
        "The resource policy 'acme-nodes-placement' can have at most 96 instances of the machine "
        "series a3.",
    )
    assert provisioner.request(H200, ZONE)[0].granted


def test_the_nodes_of_a_policy_are_of_one_machine_series(api, provisioner):
    api.add(CLOSE, 1)
    assert provisioner.request(CLOSE_H100, ZONE)[0].granted
    answer, _ = provisioner.request(CLOSE_B200, ZONE)
    assert (answer.outcome, answer.message) == (
        "refused",
        "Machine type a4-highgpu-8g cannot use the resource policy 'acme-nodes-placement', whose "
        "instances are of the machine series a3.",
    )
    api.nodes.clear()
    provisioner.groups.clear()
    assert provisioner.request(CLOSE_B200, ZONE)[0].granted


def test_the_networks_of_the_first_node_of_a_machine_type_need_quota(api, provisioner, tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    Store(paths.cloud_db)
    paths.capacity_file.write_text("quota: [{metric: NETWORKS, limit: 3}]")
    assert provisioner.request(RDMA, ZONE)[0].granted
    assert provisioner.request(RDMA, ZONE)[0].granted
    b200 = replace(RDMA, machine=machine("a4-highgpu-8g"))
    answer, _ = provisioner.request(b200, ZONE)
    assert (answer.code, answer.message) == (
        "QUOTA_EXCEEDED",
        "Quota 'NETWORKS' exceeded.  Limit: 3.0 globally.",
    )
    provisioner.groups.clear()
    api.add(RDMA, 1)
    assert provisioner.request(b200, ZONE)[0].message == answer.message
    api.nodes.clear()
    assert provisioner.request(b200, ZONE)[0].granted

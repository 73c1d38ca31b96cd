"""A GPU node is Ready before it has its driver, and reports its GPUs afterwards."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from twin.cluster.autoscaler.state import Node
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.gpu_drivers import GpuDrivers
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.provisioning import creation_seconds
from twin.host.paths import TwinPaths
from twin.world.machines import machine
from twin.world.rules import Rules

SHAPE = NodeShape(machine=machine("g2-standard-24"), pool="gpu")


def new_node(shape: NodeShape = SHAPE) -> dict[str, Any]:
    """Return a node that registered a moment ago."""
    has_driver = not nodes.installs_driver(shape)
    return nodes.build(shape, name="n", zone="us-central1-a", project="p", has_driver=has_driver)


def test_a_new_gpu_node_reports_no_gpu():
    status = new_node()["status"]
    assert "nvidia.com/gpu" not in status["capacity"]
    assert "nvidia.com/gpu" not in status["allocatable"]
    assert status["capacity"]["cpu"] == "24"


@pytest.mark.parametrize(
    "shape",
    [
        NodeShape(machine=machine("ct6e-standard-4t"), pool="tpu", topology="2x2"),
        NodeShape(machine=machine("e2-standard-4"), pool="cpu"),
        NodeShape(
            machine=machine("g2-standard-24"), pool="own", driver_version=nodes.DRIVER_DISABLED
        ),
    ],
)
def test_only_a_driver_that_gke_installs_comes_later(shape):
    assert not nodes.installs_driver(shape)
    assert nodes.promised_devices(new_node(shape)) == {}


def test_the_autoscaler_counts_a_node_with_the_gpus_that_it_will_report():
    room = Node(new_node(), [], []).room()
    assert room.free["nvidia.com/gpu"] == 2


class Kube:
    """The API server's nodes."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        self.patches.append((path, body))
        return {"metadata": {}}


def drivers(tmp_path, found: list[dict[str, Any]], speed: float = 10.0) -> tuple[GpuDrivers, Kube]:
    kube = Kube()
    watches = SimpleNamespace(watch=lambda *_: iter(()))
    ctx: Any = SimpleNamespace(
        kube=kube, watches=watches, rules=Rules(speed=speed), paths=TwinPaths(tmp_path)
    )
    made = GpuDrivers(ctx)
    made._nodes = cast("Any", SimpleNamespace(items=lambda: found))
    return made, kube


def test_the_gpus_and_the_driver_are_there_after_the_rules_time(tmp_path):
    found = [new_node()]
    controller, kube = drivers(tmp_path, found)
    program = tmp_path / "volumes/hosts/n/home/kubernetes/bin/nvidia/bin/nvidia-smi"
    assert controller.scan(100.0)
    assert controller.scan(105.9)
    assert (kube.patches, program.exists()) == ([], False)
    assert not controller.scan(106.0)
    ((path, body),) = kube.patches
    assert path == "/api/v1/nodes/n/status"
    assert body["status"]["allocatable"] == {"nvidia.com/gpu": "2"}
    assert body["metadata"]["annotations"] == {nodes.DRIVER_ANNOTATION: None}
    assert program.stat().st_mode & 0o100
    found.clear()
    assert not controller.scan(107.0)


def test_a_node_with_its_gpus_takes_as_long_as_the_rule_for_gpu_nodes_says():
    own = NodeShape(machine=SHAPE.machine, pool="own", driver_version=nodes.DRIVER_DISABLED)
    rules = Rules(speed=1.0)
    whole = rules.seconds("node.create.gpu")
    assert creation_seconds(SHAPE, rules) + rules.seconds("node.gpu.driver") == whole
    assert creation_seconds(own, rules) == whole

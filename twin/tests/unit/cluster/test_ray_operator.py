"""When a cluster has the kinds of the Ray operator."""

from pathlib import Path
from typing import Any

import pytest

from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane import ray_operator
from twin.cluster.controlplane.ray_operator import RayOperator
from twin.host.paths import TwinPaths
from twin.toolchain import MODULES
from twin.world.store import Status, Store, new_record

CLUSTER = "gcp:container/cluster:Cluster"


@pytest.fixture
def context(tmp_path: Path) -> ClusterContext:
    folder = tmp_path / "cluster"
    ClusterSpec("acme", "us-central1", "c", ("us-central1-a",), False, "1.36", "u").save(folder)
    return ClusterContext(TwinPaths(tmp_path / "twin"), folder)


@pytest.fixture(autouse=True)
def kuberay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The modules of KubeRay that are missing: none, until a test adds one."""
    absent: list[Any] = []
    monkeypatch.setattr(ray_operator, "missing", lambda _: absent)
    monkeypatch.setattr(ray_operator, "share", lambda name: tmp_path / name)
    return absent


def add(context: ClusterContext, status: Status, *, enabled: bool = True) -> None:
    addons = {"rayOperatorConfigs": [{"enabled": enabled}]}
    store = Store(context.paths.cloud_db)
    store.add(new_record(CLUSTER, "c", "c", "acme", "urn", {}, {"addonsConfig": addons}), [])
    store.set(CLUSTER, "c", status=status)


@pytest.mark.parametrize(
    ("status", "enabled", "number"),
    [("creating", True, 1), ("ready", True, 1), ("deleting", True, 0), ("ready", False, 0)],
)
def test_a_cluster_with_the_add_on_has_its_kinds_from_the_start(
    context: ClusterContext, status: Status, enabled: bool, number: int
):
    add(context, status, enabled=enabled)
    assert len(RayOperator(context).kinds()) == number


def test_a_cluster_is_ready_before_kuberay_is_there(context: ClusterContext, kuberay: list[Any]):
    add(context, "creating")
    kuberay.append(MODULES)
    assert RayOperator(context).kinds() == []

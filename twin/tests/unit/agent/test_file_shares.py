"""Shares of Filestore: which folder a pod gets, and when it gets none."""

from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.file_shares import share_folder
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store

HANDLE = "modeInstance/us-central1-b/shared-us/adapters"
ATTRIBUTES = {"ip": "10.9.0.2", "volume": "adapters"}
DRIVER = {"addonsConfig": {"gcpFilestoreCsiDriverConfig": {"enabled": True}}}


def add(paths: TwinPaths, kind: str, name: str, outputs: dict[str, Any]) -> None:
    record = Record(kind, name, name, "acme", "urn", "ready", True, {}, outputs, 0.0)
    Store(paths.cloud_db).add(record, [])


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    made = TwinPaths(tmp_path)
    made.create()
    instance = {
        "fileShares": {"capacityGb": 1024, "name": "adapters"},
        "location": "us-central1-b",
        "networks": [{"ipAddresses": ["10.9.0.2"]}],
    }
    add(made, "gcp:filestore/instance:Instance", "shared-us", instance)
    return made


@pytest.mark.parametrize("cluster", [DRIVER, {"enableAutopilot": True}])
def test_a_share_is_a_folder_that_outlives_pods(paths: TwinPaths, cluster: dict[str, Any]) -> None:
    add(paths, "gcp:container/cluster:Cluster", "acme", cluster)
    folder = share_folder(paths, "acme", HANDLE, ATTRIBUTES)
    assert folder == paths.root / "filestore" / "shared-us" / "adapters"


def test_a_cluster_without_the_driver_mounts_nothing(paths: TwinPaths) -> None:
    add(paths, "gcp:container/cluster:Cluster", "acme", {"addonsConfig": {}})
    add(paths, "gcp:container/cluster:Cluster", "other", DRIVER)
    with pytest.raises(ConfigError, match="not found in the list of registered CSI drivers"):
        share_folder(paths, "acme", HANDLE, ATTRIBUTES)


@pytest.mark.parametrize(
    ("handle", "attributes"),
    [
        (HANDLE.replace("shared-us", "gone"), ATTRIBUTES),
        (HANDLE.replace("us-central1-b", "us-central1-a"), ATTRIBUTES),
        (HANDLE.replace("adapters", "other"), {**ATTRIBUTES, "volume": "other"}),
        (HANDLE, {**ATTRIBUTES, "ip": "10.9.0.3"}),
        (HANDLE, {"ip": "10.9.0.2"}),
        ("shared-us", ATTRIBUTES),
    ],
)
def test_a_volume_that_names_another_share_is_not_mounted(
    paths: TwinPaths, handle: str, attributes: dict[str, str]
) -> None:
    add(paths, "gcp:container/cluster:Cluster", "acme", DRIVER)
    with pytest.raises(ConfigError, match="no such share of Filestore"):
        share_folder(paths, "acme", handle, attributes)

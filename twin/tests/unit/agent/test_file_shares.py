"""Shares of Filestore and instances of Lustre: which folder a pod gets, and when it gets none."""

from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.file_shares import share_folder
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store

FILESTORE = "filestore.csi.storage.gke.io"
LUSTRE = "lustre.csi.storage.gke.io"
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
    folder = share_folder(paths, "acme", FILESTORE, HANDLE, ATTRIBUTES, kind="cpu")
    assert folder == paths.root / "filestore" / "shared-us" / "adapters"


def test_a_cluster_without_the_driver_mounts_nothing(paths: TwinPaths) -> None:
    add(paths, "gcp:container/cluster:Cluster", "acme", {"addonsConfig": {}})
    add(paths, "gcp:container/cluster:Cluster", "other", DRIVER)
    with pytest.raises(ConfigError, match="not found in the list of registered CSI drivers"):
        share_folder(paths, "acme", FILESTORE, HANDLE, ATTRIBUTES, kind="cpu")


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
        share_folder(paths, "acme", FILESTORE, handle, attributes, kind="cpu")


LUSTRE_HANDLE = "acme/us-central1-b/lustre-us"
LUSTRE_ATTRIBUTES = {"filesystem": "shared", "ip": "10.9.0.3"}
NEW = "1.35.1-gke.1000000"
OLD = "1.33.2-gke.1111000"


def cluster(
    paths: TwinPaths, version: str = NEW, addon: dict[str, bool] | None = None, **more: Any
) -> None:
    addons = {"lustreCsiDriverConfig": {"enabled": True} if addon is None else addon}
    outputs = {"addonsConfig": addons, "nodeVersion": version, **more}
    add(paths, "gcp:container/cluster:Cluster", "acme", outputs)


def instance(paths: TwinPaths, **more: Any) -> None:
    outputs = {"location": "us-central1-b", "mountPoint": "10.9.0.3@tcp:/shared", **more}
    add(paths, "gcp:lustre/instance:Instance", "lustre-us", outputs)


def test_an_instance_of_lustre_is_a_folder(paths: TwinPaths) -> None:
    cluster(paths)
    instance(paths)
    found = share_folder(paths, "acme", LUSTRE, LUSTRE_HANDLE, LUSTRE_ATTRIBUTES, kind="gpu")
    assert found == paths.root / "lustre" / "lustre-us"


def test_autopilot_has_no_driver_for_lustre_by_default(paths: TwinPaths) -> None:
    cluster(paths, addon={}, enableAutopilot=True)
    instance(paths)
    with pytest.raises(ConfigError, match="not found in the list of registered CSI drivers"):
        share_folder(paths, "acme", LUSTRE, LUSTRE_HANDLE, LUSTRE_ATTRIBUTES, kind="gpu")


@pytest.mark.parametrize(
    ("handle", "attributes"),
    [
        ("other/us-central1-b/lustre-us", LUSTRE_ATTRIBUTES),
        ("acme/us-central1-a/lustre-us", LUSTRE_ATTRIBUTES),
        ("acme/us-central1-b/gone", LUSTRE_ATTRIBUTES),
        (LUSTRE_HANDLE, {**LUSTRE_ATTRIBUTES, "filesystem": "other"}),
        (LUSTRE_HANDLE, {"ip": "10.9.0.3"}),
    ],
)
def test_a_volume_that_names_another_instance_is_not_mounted(
    paths: TwinPaths, handle: str, attributes: dict[str, str]
) -> None:
    cluster(paths)
    instance(paths)
    with pytest.raises(ConfigError, match="no such Managed Lustre instance"):
        share_folder(paths, "acme", LUSTRE, handle, attributes, kind="gpu")


@pytest.mark.parametrize(
    ("version", "addon", "has_support", "is_mounted"),
    [
        (NEW, {"enabled": True}, False, True),
        (NEW, {"enabled": True}, True, False),
        (OLD, {"enabled": True}, False, False),
        (OLD, {"enableLegacyLustrePort": True, "enabled": True}, True, True),
        (NEW, {"enableLegacyLustrePort": True, "enabled": True}, False, False),
    ],
)
def test_instance_and_driver_must_use_the_same_port(
    paths: TwinPaths, version: str, addon: dict[str, bool], has_support: bool, is_mounted: bool
) -> None:
    cluster(paths, version, addon)
    instance(paths, gkeSupportEnabled=has_support)
    arguments = (paths, "acme", LUSTRE, LUSTRE_HANDLE, LUSTRE_ATTRIBUTES)
    if is_mounted:
        share_folder(*arguments, kind="gpu")
        return
    with pytest.raises(ConfigError, match="listens on another port"):
        share_folder(*arguments, kind="gpu")


@pytest.mark.parametrize("kind", ["cpu", "tpu"])
def test_a_node_with_secure_boot_and_without_a_gpu_does_not_mount_lustre(
    paths: TwinPaths, kind: str
) -> None:
    cluster(paths)
    instance(paths)
    with pytest.raises(ConfigError, match="the node has secure boot and no GPU"):
        share_folder(paths, "acme", LUSTRE, LUSTRE_HANDLE, LUSTRE_ATTRIBUTES, kind=kind)

"""Disks that a pod mounts: their contents, and disks that are not in the zone of its node."""

from pathlib import Path
from typing import Any

import pytest

from twin.host.paths import TwinPaths
from twin.world import disk_contents
from twin.world.disk_contents import NoDiskError, disk_folder, own_folder, snapshot_folder

DISK, SNAPSHOT = "gcp:compute/disk:Disk", "gcp:compute/snapshot:Snapshot"
ZONE, OTHER = "us-central1-a", "us-central1-b"
HANDLE = f"projects/acme/zones/{ZONE}/disks/weights"
MULTI = "projects/acme/zones/multi-zone/disks/weights"


class Resource:
    def __init__(self, kind: str, name: str, **outputs: Any) -> None:
        self.type, self.name, self.outputs = kind, name, outputs
        self.project, self.status = "acme", "ready"
        self.id = f"projects/acme/global/snapshots/{name}"


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    return TwinPaths(tmp_path / "twin")


def exists(monkeypatch: pytest.MonkeyPatch, *resources: Resource) -> None:
    monkeypatch.setattr(disk_contents, "list_resources", lambda *_: list(resources))


@pytest.mark.parametrize("handle", [HANDLE, MULTI])
@pytest.mark.parametrize(
    "snapshot",
    [
        "llama",
        "projects/acme/global/snapshots/llama",
        "https://x/compute/v1/projects/acme/global/snapshots/llama",
    ],
)
def test_a_disk_of_a_snapshot_has_the_files_of_the_snapshot(monkeypatch, paths, handle, snapshot):
    exists(monkeypatch, Resource(DISK, "weights", zone=ZONE, snapshot=snapshot))
    assert disk_folder(paths, handle, ZONE) == snapshot_folder(paths, "acme", "llama")


def test_a_snapshot_of_the_stack_has_the_files_of_its_source(monkeypatch, paths):
    source = f"https://x/compute/v1/projects/acme/zones/{ZONE}/disks/fill"
    exists(
        monkeypatch,
        Resource(DISK, "weights", zone=ZONE, snapshot="llama"),
        Resource(SNAPSHOT, "llama", sourceDisk=source),
    )
    filled = own_folder(paths, f"projects/acme/zones/{ZONE}/disks/fill")
    assert disk_folder(paths, HANDLE, ZONE) == filled


def test_a_new_disk_keeps_its_own_files(monkeypatch, paths):
    exists(monkeypatch, Resource(DISK, "weights", zone=ZONE))
    assert disk_folder(paths, HANDLE, ZONE) == own_folder(paths, HANDLE)


@pytest.mark.parametrize(
    ("handle", "zone", "missing"),
    [
        pytest.param(HANDLE, OTHER, ZONE, id="another zone than the node"),
        pytest.param(MULTI, OTHER, OTHER, id="no disk in the zone of the node"),
        pytest.param(HANDLE.replace("weights", "none"), ZONE, ZONE, id="no disk of the name"),
    ],
)
def test_a_disk_that_the_node_cannot_attach_is_not_found(monkeypatch, paths, handle, zone, missing):
    exists(monkeypatch, Resource(DISK, "weights", zone=ZONE))
    with pytest.raises(NoDiskError, match=f"The resource 'projects/acme/zones/{missing}/disks/"):
        disk_folder(paths, handle, zone)

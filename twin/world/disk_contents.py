"""Contents of disks on this machine (rule cloud.disks)."""

import re
from pathlib import Path
from typing import Final

from twin.host.paths import TwinPaths
from twin.world.store import Record, list_resources

_DISK: Final = "gcp:compute/disk:Disk"
_SNAPSHOT: Final = "gcp:compute/snapshot:Snapshot"
_HANDLE: Final = re.compile(r"projects/([^/]+)/zones/([^/]+)/disks/([^/]+)")
_MULTI_ZONE: Final = "multi-zone"


class NoDiskError(Exception):
    """Compute Engine has no such disk; the message is that of the driver."""


def snapshot_folder(paths: TwinPaths, project: str, snapshot: str) -> Path:
    """Return the folder with the contents of a snapshot that no disk of the twin was the source of.

    Args:
        paths: Files of the twin.
        project: Project of a snapshot without one.
        snapshot: Its name, or its path or URL.
    """
    return paths.volumes / "snapshots" / _plain(_path(project, snapshot))


def disk_folder(paths: TwinPaths, handle: str, zone: str) -> Path:
    """Return the folder with the contents of a disk: those of its snapshot, or its own.

    Args:
        paths: Files of the twin.
        handle: Handle of the volume. With the zone `multi-zone`, each zone has a disk of the name.
        zone: Zone of the node that attaches the disk.

    Raises:
        NoDiskError: There is no such disk in the zone.
    """
    parts = _HANDLE.fullmatch(handle)
    project, place, name = ("", "", "") if parts is None else parts.groups()
    wanted = zone if place == _MULTI_ZONE else place
    resources = list_resources(paths, (_DISK, _SNAPSHOT))
    for each in resources:
        found = (each.type, each.project, each.name, each.outputs.get("zone"))
        if found == (_DISK, project, name, wanted) and wanted == zone and each.status == "ready":
            return _contents(paths, each, handle, resources)
    path = f"projects/{project}/zones/{wanted}/disks/{name}" if parts else handle
    raise NoDiskError(
        f'rpc error: code = NotFound desc = Could not find disk Key{{"{name}", zone: "{wanted}"}}: '
        f"googleapi: Error 404: The resource '{path}' was not found, notFound"
    )


def own_folder(paths: TwinPaths, handle: str) -> Path:
    """Return the folder of a disk that began empty."""
    return paths.volumes / "disks" / _plain(handle)


def _contents(paths: TwinPaths, disk: Record, handle: str, resources: list[Record]) -> Path:
    snapshot = disk.outputs.get("snapshot")
    if not snapshot:
        return own_folder(paths, handle)
    path = _path(disk.project, str(snapshot))
    for each in resources:
        if each.type == _SNAPSHOT and each.id == path:
            source = _path(each.project, str(each.outputs.get("sourceDisk")), "")
            return own_folder(paths, source)
    return snapshot_folder(paths, disk.project, path)


def _path(project: str, name: str, folder: str = "global/snapshots/") -> str:
    path = name.partition("/compute/v1/")[2] or name
    if "/" not in path:
        path = f"{folder}{path}"
    return path if path.startswith("projects/") else f"projects/{project}/{path}"


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]", "_", text)

"""What the kubelet's server reads to serve `kubectl logs`, `exec` and `port-forward`.

The agent writes `pod.json` into the folder of a pod, and `CONTAINER.container.json` when it starts
the process of a container. The server is `twin/tools/kubelet`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.cluster.agent.launching.volumes import Mount
from twin.host.private_files import write_private
from twin.wire.kube import JsonObject

_TEMPORARY = Path("/tmp")  # noqa: S108 - the path in a container


@dataclass(frozen=True)
class View:
    """What a command in a container sees, apart from the environment of its process."""

    uid: int
    gid: int
    mounts: tuple[Mount, ...]
    working_dir: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of its specification, which its process may have with folders of this machine."""


def view_of(
    pod: JsonObject,
    container: JsonObject,
    mounts: Iterable[Mount],
    variables: Mapping[str, str] | None = None,
) -> View:
    """Return what a command in a container sees.

    The user is that of the security context; without one, it is root.
    """
    ids = {**pod["spec"].get("securityContext", {}), **container.get("securityContext", {})}
    return View(
        int(ids.get("runAsUser") or 0),
        int(ids.get("runAsGroup") or 0),
        tuple(mounts),
        str(container.get("workingDir") or "/"),
        variables or {},
    )


def kept_mounts(folders: Iterable[Path]) -> list[Mount]:
    """Return mounts of folders of this machine that a pod's own `/tmp` would hide."""
    return [
        Mount(str(folder), folder, True) for folder in folders if folder.is_relative_to(_TEMPORARY)
    ]


def write_pod(folder: Path, pod: JsonObject) -> None:
    """Write name and address of a pod."""
    _write(
        folder / "pod.json",
        {"name": pod["metadata"]["name"], "address": pod["status"]["podIP"]},
    )


def write_container(
    folder: Path, name: str, log: Path, environment: dict[str, str], view: View
) -> None:
    """Write the surroundings of a container whose process is about to start.

    Its part of the log begins at the current end; what the process before it wrote is the previous.
    """
    file = folder / f"{name}.container.json"
    size = log.stat().st_size if log.exists() else 0
    try:
        begun: int | None = json.loads(file.read_text())["begin"]
    except (FileNotFoundError, ValueError, KeyError):
        begun = None
    if begun is not None and begun > size:
        begun = 0  # the twin has shortened the log
    options = {"TAR_OPTIONS": "--no-same-owner"} if view.uid == 0 else {}  # one user is mapped
    found: dict[str, Any] = {
        "uid": view.uid,
        "gid": view.gid,
        "working_dir": view.working_dir,
        "mounts": [
            {"path": mount.path, "folder": str(mount.folder), "read_only": mount.read_only}
            for mount in view.mounts
        ],
        "log": str(log),
        "begin": size,
        "previous": None if begun is None else [begun, size],
        "environment": {**environment, **view.variables, **options},
    }
    _write(file, found)


def _write(file: Path, content: JsonObject) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, json.dumps(content))  # it has secrets

"""Clusters of a twin: a control plane and the process that plays GKE."""

import shutil
import socket
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from twin import processes
from twin.controlplane import ControlPlane, free_block, guard_address
from twin.gke.context import ClusterSpec
from twin.paths import TwinPaths

_READY_SECONDS = 120


@dataclass(frozen=True)
class ClusterHandle:
    """How to reach a running cluster."""

    endpoint: str
    """Host and port of the API server."""
    ca_pem: str
    """Certificate of the authority that signed the API server's."""
    kubeconfig: Path
    folder: Path


def _no_progress(message: str) -> None:
    del message


def _block(folder: Path) -> int:
    """Return the cluster's range of pod addresses: the one it had, unless another took it since."""
    file = folder / "block"
    if file.exists():
        block = int(file.read_text())
        with socket.socket() as probe:
            try:
                probe.bind(guard_address(block))
            except OSError as error:
                raise processes.ProcessError(
                    f"cluster {folder.name}: while it was down, another cluster on this machine "
                    f"took its pod addresses ({error}); stop that one, or destroy this one"
                ) from error
        return block
    block = free_block(zlib.crc32(str(folder).encode()))
    file.write_text(str(block))
    return block


def _controllers_name(folder: Path) -> str:
    return f"{folder.name}.gke"


def _control_plane(paths: TwinPaths, folder: Path) -> ControlPlane:
    return ControlPlane(paths, folder, int((folder / "block").read_text()))


def handle(location: str, name: str, paths: TwinPaths) -> ClusterHandle:
    """Return how to reach a cluster that was created."""
    folder = paths.cluster(location, name)
    plane = _control_plane(paths, folder)
    return ClusterHandle(
        endpoint=plane.server.removeprefix("https://"),
        ca_pem=(paths.pki / "ca.crt").read_text(),
        kubeconfig=plane.kubeconfig,
        folder=folder,
    )


def create(
    spec: ClusterSpec, paths: TwinPaths, progress: Callable[[str], None] = _no_progress
) -> ClusterHandle:
    """Start a cluster and wait until GKE's own objects are in it.

    Raises:
        processes.ProcessError: a process did not come up.
        twin.toolchain.ToolError: a tool is not built.
    """
    folder = paths.cluster(spec.location, spec.name)
    spec.save(folder)
    return ensure_running(folder, paths, progress)


def ensure_running(
    folder: Path, paths: TwinPaths, progress: Callable[[str], None] = _no_progress
) -> ClusterHandle:
    """Start whatever of a cluster does not run, with the data it had, and wait until it is ready.

    Raises:
        processes.ProcessError: a process did not come up.
    """
    spec = ClusterSpec.load(folder)
    name = _controllers_name(folder)
    if processes.pid_of(paths, name) is None:
        _block(folder)
    plane = _control_plane(paths, folder)
    progress("starting the control plane")
    plane.start()
    ready_file = folder / "ready.json"
    if processes.pid_of(paths, name) is None:
        ready_file.unlink(missing_ok=True)
        progress("installing what GKE installs")
        argv = [sys.executable, "-m", "twin.gke", str(folder)]
        environment = {"GKE_INFERENCE_TWIN_DIR": str(paths.root)}
        process = processes.start(paths, name, argv, environment)
        processes.wait_ready(paths, name, process, ready_file.exists, timeout=_READY_SECONDS)
    return handle(spec.location, spec.name, paths)


def is_running(folder: Path, paths: TwinPaths) -> bool:
    """Say whether every process of a cluster runs."""
    names = [_controllers_name(folder)]
    if (folder / "block").exists():
        names += _control_plane(paths, folder).process_names()
    return all(processes.pid_of(paths, name) is not None for name in names)


def stop(folder: Path, paths: TwinPaths) -> None:
    """End a cluster's processes and those of its pods and gateways; its data stays."""
    from twin.gke import agent, gateway  # noqa: PLC0415 - heavy, and needed only here

    processes.stop(paths, _controllers_name(folder))
    agent.stop_all(folder)
    gateway.stop_all(folder)
    if (folder / "block").exists():
        _control_plane(paths, folder).stop()


def delete(location: str, name: str, paths: TwinPaths) -> None:
    """End a cluster and remove its folder; a cluster that is not there is no error."""
    folder = paths.cluster(location, name)
    if not folder.exists():
        return
    stop(folder, paths)
    for _ in range(5):  # a log line written late must not keep the folder
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def folders(paths: TwinPaths) -> list[Path]:
    """Return the folders of the clusters that were created and not deleted."""
    return sorted(file.parent for file in paths.clusters.glob("*/spec.json"))

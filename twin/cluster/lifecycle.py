"""Clusters of a twin: a control plane and the process that simulates GKE."""

import shutil
import socket
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from twin.cluster.base.context import ClusterSpec
from twin.cluster.controlplane.blocks import GUARD_VARIABLE, hold_block, hold_free_block
from twin.cluster.controlplane.processes import ControlPlane
from twin.host import processes
from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.toolchain import missing, needed_by, provide

_READY_SECONDS = 120
_REMOVE_TRIES = 20


@dataclass(frozen=True)
class ClusterHandle:
    """The endpoint of a running cluster."""

    endpoint: str
    """Host and port of the API server."""
    ca_pem: str
    """Certificate of the authority that signed the API server's certificate."""
    kubeconfig: Path
    folder: Path


def _no_progress(message: str) -> None:
    del message


def _hold_addresses(folder: Path) -> socket.socket:
    """Acquire the cluster's range of pod addresses: its previous or a free one, stored in `block`.

    Returns:
        The range's guard, for the process that simulates GKE.

    Raises:
        processes.ProcessError: another cluster uses the range, or none is left.
    """
    file = folder / "block"
    if file.exists():
        try:
            return hold_block(int(file.read_text()))
        except OSError as error:
            raise processes.ProcessError(
                f"cluster {folder.name}: while it was down, another cluster on this machine "
                f"took its pod addresses ({error}); stop that one, or destroy this one"
            ) from error
    block, guard = hold_free_block(zlib.crc32(str(folder).encode()))
    file.write_text(str(block))
    return guard


def _lock(folder: Path, paths: TwinPaths) -> AbstractContextManager[None]:
    """Prevent the daemon and a repair from starting or stopping a cluster at the same time."""
    return exclusive(paths.clusters / f".{folder.name}.lock")


def _controllers_name(folder: Path) -> str:
    return f"{folder.name}.gke"


def _control_plane(paths: TwinPaths, folder: Path) -> ControlPlane:
    block = int((folder / "block").read_text())
    return ControlPlane(paths, folder, block, ClusterSpec.load(folder).version)


def handle(location: str, name: str, paths: TwinPaths) -> ClusterHandle:
    """Return the endpoint of an existing cluster."""
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
    """Start a cluster and wait until GKE's own objects are installed.

    Raises:
        processes.ProcessError: a process did not start.
        twin.toolchain.ToolError: a tool is not built.
    """
    folder = paths.cluster(spec.location, spec.name)
    spec.save(folder)
    return ensure_running(folder, paths, progress)


def ensure_running(
    folder: Path, paths: TwinPaths, progress: Callable[[str], None] = _no_progress
) -> ClusterHandle:
    """Start a cluster's stopped processes with their data, and wait until it is ready.

    Raises:
        processes.ProcessError: a process did not start.
    """
    spec = ClusterSpec.load(folder)
    with _lock(folder, paths):
        if processes.pid_of(paths, _controllers_name(folder)) is None:
            with _hold_addresses(folder) as guard:
                _start_plane(folder, paths, progress)
                _start_controllers(folder, paths, guard, progress)
        else:
            _start_plane(folder, paths, progress)
    return handle(spec.location, spec.name, paths)


def _start_plane(folder: Path, paths: TwinPaths, progress: Callable[[str], None]) -> None:
    if missing(needed_by("cluster")):  # such as in a deployment with plain `pulumi`
        progress("obtaining the control plane")
        provide(needed_by("cluster"), report=progress)
    progress("starting the control plane")
    is_autopilot = ClusterSpec.load(folder).autopilot  # gets its kinds later: rule autopilot.kinds
    _control_plane(paths, folder).start(has_kinds=not is_autopilot)


def _start_controllers(
    folder: Path, paths: TwinPaths, guard: socket.socket, progress: Callable[[str], None]
) -> None:
    progress("installing what GKE installs")
    name, ready_file = _controllers_name(folder), folder / "ready.json"
    ready_file.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "twin.cluster", str(folder)]
    environment = {
        "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        GUARD_VARIABLE: str(guard.fileno()),
    }
    process = processes.start(paths, name, argv, environment, pass_fds=(guard.fileno(),))
    processes.wait_ready(paths, name, process, ready_file.exists, timeout=_READY_SECONDS)


def is_running(folder: Path, paths: TwinPaths) -> bool:
    """Return whether every process of a cluster runs."""
    names = [_controllers_name(folder)]
    if (folder / "block").exists():
        names += _control_plane(paths, folder).process_names()
    return all(processes.pid_of(paths, name) is not None for name in names)


def stop(folder: Path, paths: TwinPaths) -> None:
    """Stop the processes of a cluster, its pods and gateways; its data remains."""
    from twin.cluster import agent, gateway  # noqa: PLC0415 - heavy, and needed only here
    from twin.cluster.controlplane import kubelet, ray_operator  # noqa: PLC0415 - the same
    from twin.cluster.monitoring import kube_state_metrics, server  # noqa: PLC0415 - the same

    processes.stop(paths, _controllers_name(folder))
    processes.stop(paths, server.process_name(folder), kube_state_metrics.process_name(folder))
    processes.stop(paths, ray_operator.process_name(folder), kubelet.process_name(folder))
    agent.stop_all(folder)
    gateway.stop_all(folder)
    if (folder / "block").exists():
        _control_plane(paths, folder).stop()


def delete(location: str, name: str, paths: TwinPaths) -> None:
    """Stop a cluster and remove its folder; ignore a missing cluster.

    Raises:
        processes.ProcessError: the folder cannot be removed.
    """
    folder = paths.cluster(location, name)
    with _lock(folder, paths):
        if not folder.exists():
            return
        stop(folder, paths)
        for _ in range(_REMOVE_TRIES):  # a log line written late must not keep the folder
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return
            time.sleep(0.1)
    raise processes.ProcessError(f"cluster {folder.name}: {folder} cannot be removed")


def folders(paths: TwinPaths) -> list[Path]:
    """Return the folders of the clusters that were created and not deleted."""
    return sorted(file.parent for file in paths.clusters.glob("*/spec.json"))

"""The twin's daemon: both resource providers, in one process per checkout.

`python -m twin.daemon` serves until SIGTERM. It starts other processes only on request, so a
preview needs no control plane. After a crash, the next daemon recovers clusters and state.
"""

import functools
import hashlib
import json
import logging
import os
import signal
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.keep_running import start_all
from twin.host.locks import exclusive
from twin.host.paths import REPOSITORY, TwinPaths
from twin.host.pki import make_twin_pki
from twin.logs import keep_short
from twin.model_providers import server as model_providers
from twin.providers.gcp.apigee import server as apigee
from twin.providers.gcp.armor import server as armor
from twin.providers.gcp.bigquery import server as bigquery
from twin.providers.gcp.effects import cloud_run, gcs, pubsub, secret_manager, valkey
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.signed import server as signed_urls
from twin.pulumi.speedups import speed_up_imports
from twin.pulumi.wrappers import write_wrappers
from twin.world.rules import DEFAULT_SPEED

NAME = "daemon"
_START_SECONDS = 60
_CODE = ("components/gke_inference", "planner", "simulator", "twin", "workloads")
"""Folders whose programs the daemon runs or starts."""
_READ = (".csv", ".json", ".py", ".yaml")


def prepare(paths: TwinPaths, speed: float | None = None) -> None:
    """Create the twin's folders, keys and settings.

    Args:
        paths: paths of the twin.
        speed: speed of its clock relative to Google's; a running twin keeps its speed.
    """
    paths.create()
    with _lock(paths):
        make_twin_pki(paths)
        write_wrappers(paths)
        if not paths.settings_file.exists():
            paths.settings_file.write_text(json.dumps({"speed": speed or DEFAULT_SPEED}))


def _lock(paths: TwinPaths) -> AbstractContextManager[None]:
    """Prevent two commands from preparing or starting the same twin at the same time."""
    return exclusive(paths.root / "daemon.lock")


def code_digest(checkout: Path) -> str:
    """Return a digest of the code and data of a checkout that the twin's processes read.

    Equal code in two checkouts has one digest: their commands share the daemon of a twin.
    """
    digest = hashlib.sha256()
    for top in _CODE:
        for folder, names, files in os.walk(checkout / top):
            names[:] = sorted(set(names) - {"__pycache__", "tests"})
            for file in sorted(Path(folder, name) for name in files if name.endswith(_READ)):
                content = file.read_bytes()
                digest.update(f"{file.relative_to(checkout)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@functools.cache
def _own_code() -> str:
    """Return the digest of the code of this process, read once.

    A file that somebody edits while a command runs does not cost it its daemon.
    """
    return code_digest(REPOSITORY)


def ports(paths: TwinPaths) -> dict[str, int] | None:
    """Return the running daemon's ports by provider; None if no daemon with this code runs.

    One whose checkout was removed could start no other process.
    """
    state = _state(paths)
    if state is None or state.get("code") != _own_code():
        return None
    return _ports(state) if Path(str(state.get("checkout"))).is_dir() else None


def other_code(paths: TwinPaths) -> str | None:
    """Return the checkout of a running daemon that `ensure` replaces; None if there is none."""
    state = _state(paths)
    return None if state is None or ports(paths) is not None else str(state.get("checkout"))


def _state(paths: TwinPaths) -> dict[str, Any] | None:
    """Return what the running daemon wrote of itself; None if none runs or it is not ready."""
    if processes.pid_of(paths, NAME) is None:
        return None
    try:
        return json.loads(paths.daemon_file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _ports(state: dict[str, Any]) -> dict[str, int]:
    return {"gcp": int(state["gcp"]), "kubernetes": int(state["kubernetes"])}


def ensure(paths: TwinPaths, speed: float | None = None) -> dict[str, int]:
    """Return the daemon's ports, after starting it if needed.

    Raises:
        processes.ProcessError: the daemon did not start; the message names its log.
    """
    prepare(paths, speed)
    with _lock(paths):
        found = ports(paths)
        if found is not None:
            return found
        paths.daemon_file.unlink(missing_ok=True)
        processes.stop(paths, NAME)
        argv = [sys.executable, "-m", "twin.daemon"]
        process = processes.start(paths, NAME, argv, processes.process_environment(paths))
        processes.wait_ready(
            paths, NAME, process, lambda: _state(paths) is not None, timeout=_START_SECONDS
        )
        state = _state(paths)  # of the code on disk, if somebody edited that meanwhile
    if state is None:
        raise processes.ProcessError("the daemon ended as soon as it was ready")
    return _ports(state)


def repair(paths: TwinPaths) -> list[str]:
    """Restart what a crash or a reboot of the machine ended, with its data.

    Returns:
        Names of the restarted clusters.

    Raises:
        processes.ProcessError: a process did not start; one of Cloud Run is only logged.
    """
    gcs.repair(paths)  # before the pods that read from them
    endpoint.repair(paths)
    pubsub.repair(paths)
    bigquery.repair(paths)
    secret_manager.repair(paths)
    signed_urls.repair(paths)
    apigee.repair(paths)
    armor.repair(paths)
    model_providers.repair(paths)
    valkey.repair(paths)
    down = [folder for folder in clusters.folders(paths) if not clusters.is_running(folder, paths)]
    for folder in down:
        clusters.ensure_running(folder, paths)
    cloud_run.repair(paths)  # last, because each of them can take minutes
    return [folder.name for folder in down]


def shut_down(paths: TwinPaths) -> None:
    """Stop every process of the twin."""
    from twin.front import process as front  # noqa: PLC0415 - not needed to find a daemon

    processes.stop(paths, NAME)
    front.stop(paths)
    for folder in clusters.folders(paths):
        clusters.stop(folder, paths)
    processes.stop(paths, *processes.running(paths))


def _serve(paths: TwinPaths) -> None:
    from twin.front.dns import Prober  # noqa: PLC0415
    from twin.front.endpoints import EndpointTier  # noqa: PLC0415
    from twin.front.process import FrontTier  # noqa: PLC0415
    from twin.front.uptime import Uptime  # noqa: PLC0415
    from twin.providers.gcp import server as cloud  # noqa: PLC0415 - not needed to find a daemon
    from twin.providers.gcp.effects.address import hold_block  # noqa: PLC0415
    from twin.providers.kubernetes import server as kubernetes  # noqa: PLC0415

    code = _own_code()
    speed_up_imports()  # the providers look up types of few resources
    os.environ.update(processes.process_environment(paths))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: stop.set())
    guard = hold_block(paths)
    gcp_server, gcp_port = cloud.serve(paths)
    kubernetes_server, kubernetes_port = kubernetes.serve(paths)
    partial = paths.daemon_file.with_suffix(".tmp")
    about = {"code": code, "checkout": str(REPOSITORY)}
    partial.write_text(json.dumps({"gcp": gcp_port, "kubernetes": kubernetes_port, **about}))
    partial.replace(paths.daemon_file)
    parts = {
        "logs": functools.partial(keep_short, paths),
        "front": FrontTier(paths).run,
        "dns": Prober(paths).run,
        "endpoints": EndpointTier(paths).run,
        "uptime": Uptime(paths).run,
    }
    start_all(parts, stop)
    stop.wait()
    for server in (gcp_server, kubernetes_server):
        server.stop(grace=1).wait()
    guard.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _serve(TwinPaths.default())

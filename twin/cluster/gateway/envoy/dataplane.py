"""Updates of one gateway's Envoy: files are replaced in an order that drops no request."""

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from twin.cluster.base.traces import collector_address
from twin.cluster.gateway.envoy.clusters import clusters_of, endpoints_of, with_endpoints
from twin.cluster.gateway.envoy.listeners import listeners_of
from twin.cluster.gateway.envoy.messages import EnvoyJson, file_name, response
from twin.cluster.gateway.envoy.process import EnvoyError, EnvoyProcess
from twin.cluster.gateway.envoy.routes import tables_of
from twin.cluster.gateway.envoy.tracing import collector_cluster, send_spans
from twin.cluster.gateway.translation.model import GatewayModel
from twin.host.private_files import write_private

_WARM_SECONDS = 3.0
_LISTEN_SECONDS = 10.0  # on a busy machine, Envoy reads its files late
_HAND_OVER_SECONDS = 0.5  # old endpoints wait this long for the first probe of their successors
_KEEP_SECONDS = 5.0  # a cluster outlives the last route to it by this
_WATCHED_FILES = 40
"""Endpoint lists that Envoy reads from files. It makes an inotify instance for each, of which a
user has 128 by default (fs.inotify.max_user_instances), and aborts if it gets none."""


def folder_name(namespace: str, name: str) -> str:
    """Return the name of a gateway's folder."""
    return f"{namespace}--{name}"


class DataPlane:
    """The Envoy of one gateway and its files.

    Envoy watches the files itself, so it continues to serve without a controller. The order is:
    endpoints (old ones together with their successors until those pass a probe), clusters (old and
    new together), route tables, listeners. Old clusters are removed last, when no request can be
    using them. Of a gateway with many backends, most clusters contain their endpoints: with new
    ones, Envoy replaces the whole cluster once these have passed a probe.
    """

    def __init__(self, cluster_dir: Path, namespace: str, name: str, binary: Path | None) -> None:
        own = folder_name(namespace, name)
        self.folder = cluster_dir / "gateways" / own
        self._access_log = cluster_dir / "logs" / f"gateway-{own}.access.jsonl"
        self.process = EnvoyProcess(
            self.folder, cluster_dir / "logs" / f"gateway-{own}.log", binary
        )
        self._wanted: dict[str, EnvoyJson] = {}
        self._problem: str | None = None
        self._prune_at: float | None = None
        self._digests: dict[str, str] = {}
        """Of the files that this process has written, by name."""

    def apply(self, model: GatewayModel) -> str | None:
        """Apply a model to Envoy, and start it if needed.

        Returns:
            None on success, otherwise the error in one line.
        """
        for sub in ("eds", "rds"):
            (self.folder / sub).mkdir(parents=True, exist_ok=True)
        self._access_log.parent.mkdir(parents=True, exist_ok=True)
        try:
            running = self.process.pid() is not None
            endpoints = endpoints_of(model)
            clusters = clusters_of(model, self.folder / "eds")
            for name in sorted(endpoints)[_WATCHED_FILES:]:
                clusters[name] = with_endpoints(clusters[name], endpoints.pop(name))
            self._write_endpoints(endpoints, running=running)
            collector = collector_address(self.folder.parent.parent)
            self._write_clusters(clusters | collector_cluster(collector), running=running)
            for name, table in tables_of(model).items():
                self._write(f"rds/{file_name(name)}", "routes", [table])
            listeners = listeners_of(model, self.folder / "rds", self._access_log)
            send_spans(listeners, collector)
            updates = self.process.listener_updates() if running else 0
            # Envoy tries a listener that it rejected again only if the file is replaced
            again = self._problem is not None
            if self._write("lds.json", "listener", list(listeners.values()), again=again):
                updates += 1
            self.process.start()
            self._problem = self.process.await_listeners(set(listeners), updates, _LISTEN_SECONDS)
        except (EnvoyError, OSError, subprocess.SubprocessError) as error:
            self._problem = str(error)  # the other gateways go on
        return self._problem

    def _write_endpoints(self, wanted: dict[str, EnvoyJson], *, running: bool) -> None:
        """Write the endpoint lists, keeping healthy endpoints if all change at once.

        A new endpoint gets requests only after its first probe, so a list with only new endpoints
        would have no usable endpoint until then.
        """
        fresh: dict[str, list[EnvoyJson]] = {}
        for name, endpoints in wanted.items():
            new, old = _entries(endpoints), self._entries_on_disk(name) if running else []
            gone = [entry for entry in old if entry not in new]
            added = [entry for entry in new if entry not in old]
            if gone and added:
                fresh[name] = added
            joint = {**endpoints, "endpoints": [{"lb_endpoints": [*new, *gone]}]}
            shown = joint if name in fresh else endpoints
            self._write(f"eds/{file_name(name)}", "endpoints", [shown])
        if not fresh:
            return
        addresses = {
            (name, *_address(entry)) for name, entries in fresh.items() for entry in entries
        }
        _wait(lambda: addresses <= self.process.healthy_endpoints(), _HAND_OVER_SECONDS)
        for name in fresh:
            self._write(f"eds/{file_name(name)}", "endpoints", [wanted[name]])

    def _entries_on_disk(self, name: str) -> list[EnvoyJson]:
        try:
            stored: EnvoyJson = json.loads((self.folder / "eds" / file_name(name)).read_text())
        except (FileNotFoundError, ValueError):
            return []
        return _entries(stored["resources"][0])

    def _write_clusters(self, wanted: dict[str, EnvoyJson], *, running: bool) -> None:
        old = self._clusters_on_disk() if running else {}
        kept = {name: cluster for name, cluster in old.items() if name not in wanted}
        self._write("cds.json", "cluster", [*wanted.values(), *kept.values()])
        self._wanted = wanted
        self._prune_at = time.monotonic() + _KEEP_SECONDS if kept else None
        if running and not set(wanted) <= set(old):
            _wait(lambda: set(wanted) <= self.process.active_clusters(), _WARM_SECONDS)

    def _clusters_on_disk(self) -> dict[str, EnvoyJson]:
        try:
            stored: EnvoyJson = json.loads((self.folder / "cds.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        items: list[EnvoyJson] = stored["resources"]
        return {item["name"]: {k: v for k, v in item.items() if k != "@type"} for item in items}

    def prune(self) -> None:
        """Remove clusters that no route has used for a while."""
        if self._prune_at is None or time.monotonic() < self._prune_at:
            return
        self._prune_at = None
        self._write("cds.json", "cluster", list(self._wanted.values()))
        keep = {file_name(name) for name in self._wanted}
        for file in (self.folder / "eds").glob("*.json"):
            if file.name not in keep:
                file.unlink()

    def _write(
        self, name: str, kind: str, resources: list[EnvoyJson], *, again: bool = False
    ) -> bool:
        """Replace a file atomically if its content changes; Envoy reads it on the rename.

        Args:
            name: File in the gateway's folder.
            kind: Kind of the resources.
            resources: Content.
            again: Also replace a file with this content.

        Returns:
            Whether the file was replaced.
        """
        digest = hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
        file = self.folder / name
        if not again and self._digests.get(name) == digest and file.exists():
            return False
        self._digests[name] = digest
        text = json.dumps(response(kind, digest, resources), indent=1)
        if not again and file.exists() and file.read_text() == text:
            return False
        write_private(file, text)  # a listener holds private keys
        return True

    def remove(self) -> None:
        """Stop Envoy and delete its folder."""
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _entries(endpoints: EnvoyJson) -> list[EnvoyJson]:
    return [entry for group in endpoints["endpoints"] for entry in group.get("lb_endpoints", [])]


def _address(entry: EnvoyJson) -> tuple[str, int]:
    socket: EnvoyJson = entry["endpoint"]["address"]["socket_address"]
    return socket["address"], socket["port_value"]


def _wait(done: Callable[[], bool], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not done() and time.monotonic() < limit:
        time.sleep(0.02)

"""The Envoy of the cloud's global load balancers, which the daemon runs."""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from twin.cluster.gateway import named_certificates
from twin.cluster.gateway.envoy.messages import EnvoyJson, response
from twin.cluster.gateway.envoy.process import EnvoyError, EnvoyProcess
from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.cluster.gateway.translation.model import Certificate
from twin.front.envoy import clusters, listener
from twin.front.model import Front
from twin.front.translate import fronts
from twin.host.paths import TwinPaths
from twin.host.private_files import write_private
from twin.providers.gcp.effects import secret_manager
from twin.toolchain import ToolError, tool
from twin.wire.property_values import as_list, get_path, last_segment
from twin.world.capacity import World
from twin.world.events import Events
from twin.world.run_services import place_of
from twin.world.store import Listing, Record, Store

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 0.5
_WARM_SECONDS = 10.0
_CERTIFICATE = "gcp:certificatemanager/certificate:Certificate"


class FrontTier:
    """The Envoy of the global load balancers, and its files."""

    def __init__(self, paths: TwinPaths) -> None:
        self._paths = paths
        self._resources = Listing(paths)
        self.folder = paths.root / "front"
        self._log_file = paths.logs / "front.log"
        self._applied: tuple[Front, ...] | None = None
        self._events = Events(paths.events_file)

    def run(self, stop: threading.Event) -> None:
        """Follow the cloud until `stop` is set; Envoy continues to serve after that."""
        while not stop.wait(_PERIOD_SECONDS):
            try:
                self.reconcile()
            except (EnvoyError, OSError, ToolError) as error:
                _log.warning("front: %s", error)
                self._applied = None
                stop.wait(5 * _PERIOD_SECONDS)

    def reconcile(self) -> None:
        """Update Envoy if the cloud's resources changed.

        Raises:
            EnvoyError: Envoy does not start, or rejects the update.
            ToolError: Envoy is not installed.
        """
        records = self._resources.all()
        found = tuple(
            fronts(
                records,
                lambda name, at: self._certificate(records, name, at),
                lambda service: place_of(Store(self._paths.cloud_db), service),
            )
        )
        process = self._process(started=bool(found))
        is_served = process.pid() is not None
        if not found:
            if is_served:
                process.stop()
            self._applied = found
            return
        if found == self._applied and is_served:
            return
        port = None
        if any(front.guarded is not None for front in found):
            port = int(secret_manager.url(self._paths).rpartition(":")[2])
        known = _once([each for front in found for each in clusters(front, port)])
        self._write_clusters(process, known, is_served=is_served)
        log = str(self._paths.logs / "front.access.jsonl")
        shown = [listener(front, log) for front in found if front.is_served]
        updates = process.listener_updates() if is_served else 0
        self._write("lds", "listener", shown)
        process.start()
        wanted = {str(each["name"]) for each in shown}
        if problem := process.await_listeners(wanted, updates + 1, _WARM_SECONDS):
            raise EnvoyError(problem)
        self._announce(found)
        self._applied = found

    def _write_clusters(
        self, process: EnvoyProcess, wanted: list[EnvoyJson], *, is_served: bool
    ) -> None:
        """Write clusters, and wait until a running Envoy has them.

        It rejects a listener with a route to an unknown cluster. The clusters of its present
        listeners remain, because it may reject the next ones.

        Raises:
            EnvoyError: Envoy does not have them in time.
        """
        names = {str(each["name"]) for each in wanted}
        kept: list[EnvoyJson] = []
        if is_served:
            used = set(_clusters_of(process.listeners()))
            kept = [each for each in self._clusters_on_disk() if each["name"] in used - names]
        self._write("cds", "cluster", [*wanted, *kept])
        limit = time.monotonic() + _WARM_SECONDS
        while is_served and not names <= process.active_clusters():
            if time.monotonic() > limit:
                missing = ", ".join(sorted(names - process.active_clusters()))
                raise EnvoyError(f"not active within {_WARM_SECONDS:g} s: clusters {missing}")
            time.sleep(0.02)

    def _process(self, *, started: bool) -> EnvoyProcess:
        binary = None
        if started:
            binary = tool("envoy")
            self.folder.mkdir(parents=True, exist_ok=True)
        return EnvoyProcess(self.folder, self._log_file, binary)

    def _certificate(self, records: list[Record], name: str, address: str) -> Certificate | None:
        """Return the Google-managed global certificate with a name, if it is ACTIVE."""
        if not named_certificates.is_active(self._paths, "global", last_segment(name)):
            return None
        return managed_certificate(
            self._paths.pki / "ca",
            self.folder / "certificates",
            last_segment(name),
            self._hostname(records, last_segment(name)),
            address,
        )

    def _hostname(self, records: list[Record], name: str) -> str:
        """Return the host name of a global certificate; empty if it is unknown."""
        for each in records:
            domains = as_list(get_path(each.inputs, "managed.domains")) or []
            if each.type == _CERTIFICATE and each.name == name and domains:
                return str(domains[0])
        given = World.load(self._paths.capacity_file).certificates
        return next((each.hostname for each in given if each.name == name), "")

    def _announce(self, found: tuple[Front, ...]) -> None:
        before = {front.name: front for front in self._applied or ()}
        for front in found:
            if before.get(front.name) == front:
                continue
            scheme = "http" if front.certificate is None else "https"
            regions = [region.name for each in front.services for region in each.regions]
            text = ", ".join(dict.fromkeys(regions)) or "redirects"
            self._events.emit(
                "front.programmed",
                front.name,
                "; ".join([text, *front.problems]),
                url=f"{scheme}://{front.address}:{front.port}",
            )

    def _clusters_on_disk(self) -> list[EnvoyJson]:
        """Return the last clusters, which a daemon before this one may have written."""
        stored: EnvoyJson = json.loads((self.folder / "cds.json").read_text())
        items: list[EnvoyJson] = stored["resources"]
        return [{key: value for key, value in item.items() if key != "@type"} for item in items]

    def _write(self, name: str, kind: str, resources: list[EnvoyJson]) -> None:
        """Replace a file atomically; Envoy reads it on the rename."""
        digest = hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
        file = self.folder / f"{name}.json"
        # a listener holds private keys
        write_private(file, json.dumps(response(kind, digest, resources), indent=1))


def _once(found: list[EnvoyJson]) -> list[EnvoyJson]:
    return list({str(each["name"]): each for each in found}.values())


def _clusters_of(value: object) -> Iterator[str]:
    """Yield the clusters that a part of a listener names."""
    if isinstance(value, dict):
        found = cast("EnvoyJson", value)
        if isinstance(found.get("cluster"), str):
            yield str(found["cluster"])
        value = list(found.values())
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _clusters_of(each)


def stop(paths: TwinPaths) -> None:
    """Stop the Envoy of the global load balancers."""
    EnvoyProcess(Path(paths.root / "front"), paths.logs / "front.log").stop()

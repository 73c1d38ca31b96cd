"""The gateway controller: watches and translates objects, runs data planes, writes statuses."""

import logging
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.watches import Watches
from twin.cluster.gateway import named, named_certificates
from twin.cluster.gateway.cloud_objects import CloudObjects
from twin.cluster.gateway.cluster_network import network_of
from twin.cluster.gateway.envoy.dataplane import DataPlane, folder_name
from twin.cluster.gateway.envoy.process import EnvoyProcess
from twin.cluster.gateway.fleet import FleetMember
from twin.cluster.gateway.status import StatusWriter
from twin.cluster.gateway.store import Store, watch_all
from twin.cluster.gateway.translation.apigee import proxies_of
from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.cluster.gateway.translation.exports import EXPORTS_KEY
from twin.cluster.gateway.translation.fleet import IMPORT_KIND, Fleet
from twin.cluster.gateway.translation.gateways import programmed
from twin.cluster.gateway.translation.model import Certificate, GatewayModel
from twin.cluster.gateway.translation.objects import WATCHED, JsonObject, Key, Snapshot, key_of
from twin.cluster.gateway.translation.policies import reached_from_afar
from twin.cluster.gateway.translation.translate import translate
from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee import server as apigee
from twin.providers.gcp.apigee.organization import write_proxies
from twin.providers.gcp.armor import server as armor
from twin.providers.gcp.resources.security_policies import ArmorRule
from twin.wire.kube import Kube
from twin.world.capacity import World

_log = logging.getLogger(__name__)
_DEBOUNCE_SECONDS = 0.05
_TICK_SECONDS = 1.0
_SYNC_SECONDS = 15.0
_FULL_SECONDS = 5.0


class Events(Protocol):
    """A receiver of timeline events."""

    def emit(self, kind: str, subject: str, message: str, **fields: Any) -> None:
        """Append one event."""


class Context(Protocol):
    """The parts of a cluster that the controller uses."""

    @property
    def paths(self) -> TwinPaths:
        """Files of the twin."""
        ...

    @property
    def spec(self) -> ClusterSpec:
        """Specification of the cluster."""
        ...

    @property
    def dir(self) -> Path:
        """Folder of the cluster."""
        ...

    @property
    def kube(self) -> Kube:
        """Its API server."""
        ...

    @property
    def watches(self) -> Watches:
        """Watches of its objects."""
        ...

    @property
    def events(self) -> Events:
        """The timeline."""
        ...

    def tool(self, program: str) -> Path:
        """Return the path of a program."""
        ...


class GatewayController:
    """A simulated GKE Gateway controller for one cluster, with one Envoy per Gateway."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._store = Store()
        self._planes: dict[Key, DataPlane] = {}
        self._applied: dict[Key, GatewayModel] = {}
        self._failures: dict[Key, str | None] = {}
        self._announced: dict[Key, str] = {}
        self._ports: set[tuple[str, int]] = set()
        self._next_full = 0.0
        self._unsettled = True
        self._cloud: CloudObjects | None = None
        self._member = FleetMember(ctx.paths, ctx.spec, ctx.dir, lambda: ctx.kube)

    def run(self, stop: threading.Event) -> None:
        """Reconcile gateways until `stop` is set; Envoys continue to serve after that."""
        watch_all(self._ctx.watches, self._store, stop)
        limit = time.monotonic() + _SYNC_SECONDS
        while len(self._store.synced) < len(WATCHED) and time.monotonic() < limit:
            if stop.wait(0.05):
                return
        statuses = StatusWriter(self._ctx.kube)
        while not stop.is_set():
            self._store.changed.wait(_TICK_SECONDS)
            stop.wait(_DEBOUNCE_SECONDS)
            try:
                self._round(statuses)
            except Exception:  # noqa: BLE001  (gateways must outlive any bad object)
                _log.exception("gateways: this round failed, the next one tries again")
                stop.wait(_TICK_SECONDS)

    def _round(self, statuses: StatusWriter) -> None:
        """Reconcile after changes and periodically; otherwise only check the Envoys."""
        if self._is_lost():
            self._vanish()
            return
        ports = _moved_ports(self._ctx.dir)
        due = self._unsettled or time.monotonic() > self._next_full or ports != self._ports
        if self._store.changed.is_set() or due:
            self._store.changed.clear()
            self._ports = ports
            self._next_full = time.monotonic() + _FULL_SECONDS
            self._unsettled = True
            self._reconcile(statuses)
        else:
            for key, model in self._applied.items():
                self._keep(key, model)

    def _is_lost(self) -> bool:
        """Return whether the whole region is down (rule gateway.lost-region)."""
        try:
            return World.load(self._ctx.paths.capacity_file).is_lost(self._ctx.spec.region)
        except ValueError:  # half an edit: whoever asks for capacity says what is wrong
            return False

    def _vanish(self) -> None:
        """Stop every Envoy with its open requests; they restart when the region is back."""
        for key, plane in self._planes.items():
            if plane.process.pid() is not None:
                plane.process.stop()
                self._announced.pop(key, None)
                self._ctx.events.emit("gateway.lost", "/".join(key), "its region is down")
        self._unsettled = True

    def _snapshot(self) -> Snapshot:
        from twin.cluster.base import podports  # noqa: PLC0415  (the agent package is heavy)

        objects = self._store.copy()
        gateways = objects["Gateway"].items()
        objects["Gateway"] = {key: each for key, each in gateways if not _is_deleted(each)}
        return Snapshot(
            objects,
            address_named=lambda name: named.address_named(
                self._ctx.paths, self._ctx.spec.region, name
            ),
            certificate_named=self._certificate,
            wide_certificate_named=self._wide_certificate,
            google_api=self._google_api,
            armor_named=cache(self._armor),  # all backends of a gateway name the same policy
            apigee=lambda: apigee.endpoint(self._ctx.paths),
            region=self._ctx.spec.region,
            network=network_of(self._ctx.paths, self._ctx.spec),
            port_of=lambda pod, port: podports.resolve(self._ctx.dir, pod, port),
        )

    def _armor(self, name: str) -> tuple[ArmorRule, ...]:
        spec = self._ctx.spec
        return named.armor_named(self._ctx.paths, spec.project, spec.region, name)

    def _google_api(self, name: str) -> tuple[str, int] | None:
        """Return the address of a Google service: Model Armor of the cluster's region, or None."""
        if name != f"modelarmor.{self._ctx.spec.region}.rep.googleapis.com":
            return None
        return armor.endpoint(self._ctx.paths)

    def _certificate(self, name: str, hostname: str, address: str) -> Certificate | None:
        """Return the Google-managed certificate with a name, or None."""
        if not named_certificates.is_active(self._ctx.paths, self._ctx.spec.region, name):
            return None
        return self._issued(name, hostname, address)

    def _wide_certificate(self, name: str, hostname: str, address: str) -> Certificate | None:
        """Return the certificate for all regions with a name, or None."""
        if not named_certificates.is_wide(self._ctx.paths, name):
            return None
        return self._issued(name, hostname, address)

    def _issued(self, name: str, hostname: str, address: str) -> Certificate:
        return managed_certificate(
            self._ctx.paths.pki / "ca", self._ctx.dir / "certificates", name, hostname, address
        )

    def _reconcile(self, statuses: StatusWriter) -> None:
        snapshot, others = self._with_fleet(self._snapshot())
        write_proxies(self._ctx.dir, proxies_of(snapshot, self._ctx.spec.project))
        result = translate(snapshot)
        models = {**others, **result.gateways}
        self._remove_gone(set(models))
        for key, model in models.items():
            self._keep(key, model)
        goes = self._reconcile_cloud(result.gateways, snapshot.fleet)
        for update in result.statuses:
            obj = snapshot.get(update.kind, *update.key)
            if obj is None:
                continue
            if update.kind == "Gateway" and update.key in self._failures:
                update = programmed(update, self._failures[update.key])  # noqa: PLW2901
            statuses.write(obj, update)
        served = sum(update.kind == "Gateway" for update in result.statuses)
        failed = [key for key, failure in self._failures.items() if failure is not None]
        self._unsettled = goes or bool(failed) or served != len(result.gateways)

    def _with_fleet(self, snapshot: Snapshot) -> tuple[Snapshot, dict[Key, GatewayModel]]:
        """Return the objects with those of the fleet, and the models that the fleet adds."""
        member = self._member
        if not member.look():
            return snapshot, {}
        fleet = member.fleet()
        config = member.config(fleet, wide_certificate_named=self._wide_certificate)
        exported = member.export(snapshot, config)
        models = {} if exported is None else {EXPORTS_KEY: exported}
        if not member.is_config:
            return snapshot, {**models, **translate(config).gateways}
        found = {key_of(each): each for each in member.configure(snapshot, fleet)}
        objects = {**snapshot.objects, IMPORT_KIND: found}
        return replace(snapshot, objects=objects, fleet=fleet), models

    def _reconcile_cloud(self, models: dict[Key, GatewayModel], fleet: Fleet | None) -> bool:
        """Update the Gateways' cloud resources; return whether a deletion is in progress.

        This runs before the statuses, because a programmed Gateway names its forwarding rules.
        """
        if self._cloud is None:
            self._cloud = CloudObjects(self._ctx.paths, self._ctx.spec, self._ctx.kube)
        objects = self._store.copy()
        reached = reached_from_afar(objects["GCPGatewayPolicy"].values())
        addresses = None if fleet is None else fleet.addresses
        return self._cloud.reconcile(objects["Gateway"], models, reached, addresses)

    def _keep(self, key: Key, model: GatewayModel) -> None:
        plane = self._planes.get(key)
        if plane is None:
            plane = DataPlane(self._ctx.dir, *key, self._ctx.tool("envoy"))
            self._planes[key] = plane
        died = plane.process.pid() is None
        if died or self._failures.get(key, "new") is not None or self._applied.get(key) != model:
            self._failures[key] = plane.apply(model)
            self._applied[key] = model
            self._announce(key, model)
        plane.prune()

    def _announce(self, key: Key, model: GatewayModel) -> None:
        subject, failure = "/".join(key), self._failures[key]
        if failure is not None:
            _log.warning("Gateway %s: %s", subject, failure)
            return
        urls = [
            f"{'https' if listener.certificates else 'http'}://{model.address}:{listener.port}"
            for listener in model.listeners
        ]
        text = ", ".join(dict.fromkeys(urls)) or "no listener"
        if self._announced.get(key) != text:
            self._announced[key] = text
            self._ctx.events.emit(
                "gateway.programmed", subject, text, address=model.address, urls=urls
            )

    def _remove_gone(self, served: set[Key]) -> None:
        for key in [key for key in self._failures if key not in served]:
            self._planes.pop(key).remove()
            for known in (self._applied, self._failures, self._announced):
                known.pop(key, None)
        names = {folder_name(*key) for key in served}
        for folder in _folders(self._ctx.dir):
            if folder.name not in names:  # of a Gateway deleted while no controller ran
                namespace, name = folder.name.split("--", 1)
                DataPlane(self._ctx.dir, namespace, name, None).remove()


def _is_deleted(obj: JsonObject) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _moved_ports(cluster_dir: Path) -> set[tuple[str, int]]:
    """Return names and times of the files with the pods' actual ports."""
    found: set[tuple[str, int]] = set()
    for file in (cluster_dir / "podports").glob("*/*.json"):
        try:
            found.add((str(file), file.stat().st_mtime_ns))
        except FileNotFoundError:
            continue  # its pod went away just now
    return found


def _folders(cluster_dir: Path) -> list[Path]:
    return [f for f in sorted((cluster_dir / "gateways").glob("*--*")) if f.is_dir()]


def stop_all(cluster_dir: Path) -> None:
    """End every Envoy of a cluster."""
    for folder in _folders(cluster_dir):
        EnvoyProcess(folder, cluster_dir / "logs" / "gateway.log").stop()

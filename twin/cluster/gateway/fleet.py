"""Fleet of a cluster: exported and imported pools, and gateways over all clusters.

Every member writes a file with its exports, and the config cluster one with its objects. From both,
each member runs the load balancer of its region.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway.metrics import average
from twin.cluster.gateway.translation.exports import exported_pools, exports_model
from twin.cluster.gateway.translation.fleet import (
    IMPORT_GROUP,
    IMPORT_KIND,
    Export,
    Fleet,
    Pool,
    imports,
    next_kept,
)
from twin.cluster.gateway.translation.model import Endpoint, GatewayModel
from twin.cluster.gateway.translation.objects import JsonObject, Key, Snapshot, items, mapping
from twin.cluster.gateway.translation.policies import target_of
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube, KubeError
from twin.wire.property_values import as_object, get_path, last_segment
from twin.world.rules import Rules
from twin.world.store import Record, list_resources

_LOG = logging.getLogger(__name__)
_MEMBERSHIP: Final = "gcp:gkehub/membership:Membership"
_FEATURE: Final = "gcp:gkehub/feature:Feature"
_SUBNETWORK: Final = "gcp:compute/subnetwork:Subnetwork"
_PROXIES: Final = "GLOBAL_MANAGED_PROXY"
_CRD: Final = Path(__file__).parent / "gcpinferencepoolimports.yaml"
_KINDS: Final = ("GatewayClass", "HTTPRoute", "HealthCheckPolicy", "GCPBackendPolicy", "Namespace")
_MANAGER: Final = "gke-fleet"
_CONFIG_PATH: Final = "spec.multiclusteringress.configMembership"


class FleetMember:
    """A cluster as a member of its project's fleet; it does nothing outside one."""

    def __init__(
        self, paths: TwinPaths, spec: ClusterSpec, folder: Path, kube: Callable[[], Kube]
    ) -> None:
        self._paths, self._spec, self._folder, self._kube = paths, spec, folder, kube
        self._seen: dict[Pool, float] = {}
        """Time since which each pool is exported or, if it is imported, is not."""
        self._imported: set[Pool] = set()
        self._has_kind = False
        self._kept: dict[tuple[Pool, str], float] = {}
        self._next_scrape = 0.0
        self._metrics: dict[Pool, dict[str, float]] = {}
        self._is_config = False
        self._is_member = False

    def look(self) -> bool:
        """Find out the cluster's role in the fleet. Return whether it is a member."""
        was_config = self._is_config
        records = list_resources(self._paths, (_MEMBERSHIP, _FEATURE, _SUBNETWORK))
        ready = [each for each in records if each.status == "ready"]
        member = self._membership(ready)
        features = {each.name: each for each in ready if each.type == _FEATURE}
        self._is_member = member is not None and "multiclusterservicediscovery" in features
        config = features.get("multiclusteringress")
        named = None if config is None else get_path(config.inputs, _CONFIG_PATH)
        self._is_config = (
            self._is_member and member is not None and last_segment(str(named)) == member.name
        )
        if not self._is_member:
            self._file.unlink(missing_ok=True)
        elif not any(self._has_proxies(each) for each in ready):
            self._is_config = self._is_member = False
            _LOG.warning("fleet: %s has no subnet of purpose %s", self._spec.region, _PROXIES)
        if was_config and not self._is_config:
            self._config.unlink(missing_ok=True)
        return self._is_member

    def export(self, snapshot: Snapshot, config: Snapshot) -> GatewayModel | None:
        """Publish the cluster's exported pools; return their listeners, if there are any."""
        model, found = exports_model(snapshot, config, self._address(253))
        self._scrape(snapshot)
        self._write(
            self._file,
            {
                "address": self._address(252),
                "exports": {
                    "/".join(pool): {
                        "address": endpoint.address,
                        "port": endpoint.port,
                        "ready": ready,
                        "utilization": self._metrics.get(pool, {}),
                    }
                    for pool, (endpoint, ready) in found.items()
                },
                "region": self._spec.region,
            },
        )
        return model if model.listeners else None

    def fleet(self) -> Fleet:
        """Return the fleet as the load balancer of this cluster's region sees it."""
        members = [json.loads(file.read_text()) for file in sorted(self._members)]
        exports: dict[Pool, tuple[Export, ...]] = {}
        for member in members:
            for name, found in member["exports"].items():
                namespace, _, pool = name.partition("/")
                export = Export(
                    region=member["region"],
                    endpoint=Endpoint(found["address"], found["port"]),
                    ready=found["ready"],
                    utilization=found["utilization"],
                )
                exports[namespace, pool] = (*exports.get((namespace, pool), ()), export)
        addresses = {each["region"]: each["address"] for each in members}
        return Fleet(self._spec.region, addresses, exports, dict(self._kept))

    def configure(self, snapshot: Snapshot, fleet: Fleet) -> list[JsonObject]:
        """In the config cluster: update imports, and publish the objects of its gateways.

        Returns:
            The imports; none in other clusters.

        Raises:
            KubeError: The API server rejected a request.
        """
        if not self._is_config:
            return []
        self._install()
        found = [_import(pool) for pool in self._import(fleet)]
        shown = [obj for kind in _KINDS for obj in snapshot.all(kind)]
        gateways = [each for each in snapshot.all("Gateway") if _is_of_fleet(each)]
        self._write(self._config, {"objects": [*shown, *gateways, *found]})
        return found

    def config(self, fleet: Fleet, **lookups: Any) -> Snapshot:
        """Return the objects that the config cluster published, as seen from this region."""
        try:
            objects: list[JsonObject] = json.loads(self._config.read_text())["objects"]
        except (FileNotFoundError, ValueError):
            objects = []
        return Snapshot.of(objects, fleet=fleet, **lookups)

    @property
    def is_config(self) -> bool:
        """Whether this is the config cluster."""
        return self._is_config

    def balance(self, config: Snapshot, fleet: Fleet) -> None:
        """Update the shares of requests that regions keep, once per interval."""
        for pool, exports in fleet.exports.items():
            target = target_of(config, *pool)
            for each in exports:
                slot = pool, each.region
                if target is None:
                    self._kept.pop(slot, None)
                    continue
                metric, percent = target
                used = each.utilization.get(metric)
                self._kept[slot] = next_kept(self._kept.get(slot, 1.0), used, percent)

    def _scrape(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now < self._next_scrape:
            return
        self._next_scrape = now + float(Rules.of(self._paths).scaled("fleet.overflow"))
        self._metrics = {pool: average(snapshot, pool) for pool in exported_pools(snapshot)}
        fleet = self.fleet()
        self.balance(self.config(fleet), fleet)

    def _import(self, fleet: Fleet) -> list[Pool]:
        """Create and delete imports that are due; return the existing ones."""
        wanted = set(imports(fleet.exports))
        now, delay = time.monotonic(), float(Rules.of(self._paths).scaled("fleet.import"))
        changing = wanted ^ self._imported
        self._seen = {pool: self._seen.get(pool, now) for pool in changing}
        for pool in sorted(pool for pool, since in self._seen.items() if now - since >= delay):
            obj = _import(pool)
            if pool in wanted:
                self._kube().apply(obj, manager=_MANAGER)
                self._imported.add(pool)
                continue
            try:
                self._kube().delete(self._kube().path_of(obj))
            except KubeError as error:
                if error.status != 404:
                    raise
            self._imported.discard(pool)
        return sorted(self._imported)

    def _install(self) -> None:
        """Install the kind of imports, which exists in a config cluster only."""
        if self._has_kind:
            return
        self._kube().apply(yaml.safe_load(_CRD.read_text()), manager=_MANAGER)
        path = f"/apis/{IMPORT_GROUP}/v1/{IMPORT_KIND.lower()}s"
        self._imported = {
            (each["metadata"]["namespace"], each["metadata"]["name"])
            for each in self._kube().list(path)
        }
        self._has_kind = True

    def _membership(self, records: list[Record]) -> Record | None:
        spec = self._spec
        suffix = f"projects/{spec.project}/locations/{spec.location}/clusters/{spec.name}"
        for each in records:
            link = get_path(each.inputs, "endpoint.gkeCluster.resourceLink")
            if each.type == _MEMBERSHIP and str(link).endswith(suffix):
                return each
        return None

    def _has_proxies(self, record: Record) -> bool:
        inputs = record.inputs
        return (
            record.type == _SUBNETWORK
            and inputs.get("purpose") == _PROXIES
            and last_segment(str(inputs.get("region"))) == self._spec.region
        )

    def _address(self, last: int) -> str:
        """Return an address of the cluster's block that no pod gets."""
        block = int((self._folder / "block").read_text())
        return f"127.{64 + 2 * block + 1}.255.{last}"

    @property
    def _shared(self) -> Path:
        return self._paths.root / "fleet" / self._spec.project

    @property
    def _members(self) -> list[Path]:
        return list(self._shared.glob("members/*.json"))

    @property
    def _file(self) -> Path:
        return self._shared / "members" / f"{self._spec.location}--{self._spec.name}.json"

    @property
    def _config(self) -> Path:
        return self._shared / "config.json"

    def _write(self, file: Path, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, sort_keys=True)
        if file.exists() and file.read_text() == text:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.tmp")
        partial.write_text(text)
        partial.replace(file)


def _is_of_fleet(gateway: JsonObject) -> bool:
    addresses = items(as_object(mapping(gateway, "spec")) or {}, "addresses")
    return any("/" in str(each.get("type", "")) for each in addresses)


def _import(pool: Key) -> JsonObject:
    namespace, name = pool
    return {
        "apiVersion": f"{IMPORT_GROUP}/v1",
        "kind": IMPORT_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }

"""Cloud resources that GKE's controllers create for a Gateway, and their deletion.

A Gateway has a load balancer and a firewall rule. The load balancer of a Gateway over all clusters
is global, with a forwarding rule for each of its addresses; others are regional. Each backend has a
network endpoint group in every zone of the cluster. Finalizers keep the Gateway, and the
ServiceNetworkEndpointGroup of a backend, until their resources are deleted. If the cluster is
deleted earlier, the resources remain and block the deletion of the network (rules
cluster.leftovers, gateway.finalizer and neg.finalizer).
"""

import time
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway.translation.backends import fleet_classes
from twin.cluster.gateway.translation.model import GatewayModel
from twin.cluster.gateway.translation.objects import INTERNAL_CLASS, JsonObject, Key, items, key_of
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.identity import project_number
from twin.wire.kube import Kube, KubeError
from twin.wire.property_values import Json
from twin.world.rules import Rules
from twin.world.store import Record, Store, Use, new_record

RULES_ANNOTATION: Final = "networking.gke.io/forwarding-rules"
"""Annotation with the forwarding rules of a Gateway (rule gateway.forwarding-rule)."""
FINALIZER: Final = "gateway.finalizer.networking.gke.io"
NEG_FINALIZER: Final = "networking.gke.io/neg-finalizer"
_NEGS: Final = "/apis/networking.gke.io/v1beta1/servicenetworkendpointgroups"
_MANAGER: Final = "gke-gateway"
_ADDRESS: Final = "gcp:compute/address:Address"
_NETWORK: Final = "gcp:compute/network:Network"
_ATTACHMENT: Final = "gcp:compute/serviceAttachment:ServiceAttachment"
_NEG: Final = "gcp:compute/networkEndpointGroup:NetworkEndpointGroup"

_REGIONAL: Final = {
    "gcp:compute/forwardingRule:ForwardingRule": "forwardingRules",
    "gcp:compute/regionTargetHttpProxy:RegionTargetHttpProxy": "targetHttpProxies",
    "gcp:compute/regionUrlMap:RegionUrlMap": "urlMaps",
    "gcp:compute/regionBackendService:RegionBackendService": "backendServices",
    "gcp:compute/regionHealthCheck:RegionHealthCheck": "healthChecks",
}
"""Resources of a regional load balancer: Compute Engine collection by type."""
_GLOBAL: Final = {
    "gcp:compute/globalForwardingRule:GlobalForwardingRule": "forwardingRules",
    "gcp:compute/targetHttpProxy:TargetHttpProxy": "targetHttpProxies",
    "gcp:compute/uRLMap:URLMap": "urlMaps",
    "gcp:compute/backendService:BackendService": "backendServices",
    "gcp:compute/healthCheck:HealthCheck": "healthChecks",
}
"""Those of a cross-region load balancer (rule gateway.forwarding-rule)."""
_FIREWALL: Final = "gcp:compute/firewall:Firewall"
_SHARED_CHARACTERS: Final = 40
"""Length of the part that all forwarding rules of a Gateway share; the region comes after it."""


class CloudObjects:
    """The load balancers and endpoint groups of one cluster's Gateways."""

    def __init__(self, paths: TwinPaths, spec: ClusterSpec, kube: Kube) -> None:
        self._paths, self._spec, self._kube = paths, spec, kube
        self._network: Record | None = None
        self._wanted: dict[Key, str] = {}
        """Backend of each required endpoint group, by namespace and name."""
        self._leaving: dict[tuple[str, Key], float] = {}
        """Start of each deletion, by kind."""

    def reconcile(
        self,
        gateways: Mapping[Key, JsonObject],
        models: Mapping[Key, GatewayModel],
        reached: Collection[Key] = (),
        addresses: Mapping[str, str] | None = None,
    ) -> bool:
        """Create the resources that Gateways need, and remove the others once they are due.

        Args:
            gateways: All Gateways of the cluster, including those that are being deleted.
            models: Models of the served Gateways.
            reached: Gateways that clients in other regions can reach.
            addresses: Addresses of Gateways over all clusters, by region.

        Returns:
            Whether a deletion is in progress, so that the method must be called again soon.

        Raises:
            KubeError: The API server rejected a request.
        """
        store = self._store()
        if store is None or self._network is None:
            return False  # a control plane of a test, which no cloud knows
        served = {key: gateways[key] for key in models if key in gateways}
        for key, gateway in served.items():
            self._hold(gateway)
            properties = _properties(gateway, models[key], addresses or {}, key in reached)
            rules = {
                self._rule_name(key, region, each): each for region, each in properties.items()
            }
            self._make_balancer(store, key, gateway, rules)
            self._name_rules(gateway, rules)
        self._wanted = {
            (backend.name.split("/")[1], self._neg_name(backend.name)): backend.name
            for key in served
            for backend in models[key].backends
        }
        for key in self._wanted:
            self._make_group(store, key)
        leaving = [
            gateway
            for gateway in gateways.values()
            if "deletionTimestamp" in gateway["metadata"]
            and FINALIZER in gateway["metadata"].get("finalizers", [])
        ]
        going = self._remove_balancers(store, leaving, last=not served)
        return self._remove_groups(store) or going

    def _store(self) -> Store | None:
        """Return the cloud, after finding the cluster's network in it."""
        if not self._paths.cloud_db.exists():
            return None
        store = Store(self._paths.cloud_db)
        if self._network is None:
            spec = self._spec
            name = f"projects/{spec.project}/locations/{spec.location}/clusters/{spec.name}"
            cluster = store.get("gcp:container/cluster:Cluster", name)
            network = "" if cluster is None else str(cluster.inputs.get("network", ""))
            path = f"projects/{spec.project}/global/networks/{network.rpartition('/')[2]}"
            self._network = store.get(_NETWORK, path)
        return store

    def _hold(self, gateway: JsonObject) -> None:
        """Add the finalizer to a Gateway."""
        held: list[str] = gateway["metadata"].get("finalizers", [])
        if FINALIZER not in held:
            self._finalizers(self._kube.path_of(gateway), [*held, FINALIZER])

    def _name_rules(self, gateway: JsonObject, rules: Iterable[str]) -> None:
        """Annotate a Gateway with its forwarding rules."""
        where = f"/projects/{project_number(self._spec.project)}/{self._place(gateway)}"
        paths = ", ".join(f"{where}/forwardingRules/{name}" for name in rules)
        named = {RULES_ANNOTATION: paths}
        annotations: dict[str, str] = gateway["metadata"].get("annotations") or {}
        if named.items() <= annotations.items():
            return
        path, body = self._kube.path_of(gateway), {"metadata": {"annotations": named}}
        try:
            self._kube.patch(path, body, "merge", fieldManager=_MANAGER)
        except KubeError as error:
            if error.status != 404:
                raise

    def _finalizers(self, path: str, finalizers: list[str]) -> None:
        body = {"metadata": {"finalizers": finalizers}}
        try:
            self._kube.patch(path, body, "merge", fieldManager=_MANAGER)
        except KubeError as error:
            if error.status != 404:
                raise

    def _make_balancer(
        self, store: Store, key: Key, gateway: JsonObject, rules: Mapping[str, Json]
    ) -> None:
        network = self._use(_NETWORK, "" if self._network is None else self._network.id)
        place, (rule_type, *others) = self._place(gateway), _types(gateway)
        for name, properties in rules.items():
            address = [
                Use(_ADDRESS, record.id, blocks=True)
                for record in store.find(_ADDRESS)
                if record.outputs.get("address") == properties["ipAddress"]
            ]
            path = f"{place}/forwardingRules/{name}"
            self._add(store, rule_type, path, [network, *address])
            known = store.get(rule_type, f"{self._project}/{path}")
            if known is not None and not properties.items() <= known.outputs.items():
                store.set(rule_type, known.id, outputs={**known.outputs, **properties})
        for record in self._rules(store, key, rule_type):
            is_attached = any(
                each.type == _ATTACHMENT for each in store.users(rule_type, record.id)
            )
            if record.name not in rules and not is_attached:
                store.remove(rule_type, record.id)
        for token in others:
            path = f"{place}/{_types(gateway)[token]}/{self._balancer_name(key)}"
            self._add(store, token, path, [])
        self._add(store, _FIREWALL, f"global/firewalls/{self._firewall_name()}", [network])

    def _make_group(self, store: Store, key: Key) -> None:
        namespace, name = key
        body = {
            "apiVersion": "networking.gke.io/v1beta1",
            "kind": "ServiceNetworkEndpointGroup",
            "metadata": {"name": name, "namespace": namespace, "finalizers": [NEG_FINALIZER]},
        }
        network = self._use(_NETWORK, "" if self._network is None else self._network.id)
        for zone in self._spec.zones:
            if not self._add(store, _NEG, f"zones/{zone}/networkEndpointGroups/{name}", [network]):
                continue
            try:
                self._kube.post(
                    self._kube.path_of({**body, "metadata": {"namespace": namespace}}), body
                )
            except KubeError as error:
                if error.status not in (404, 409):  # the namespace goes, or it is there already
                    raise

    def _remove_balancers(self, store: Store, leaving: list[JsonObject], *, last: bool) -> bool:
        """Remove load balancers of deleted Gateways, and the firewall rule with the last one."""
        due = self._due("Gateway", [key_of(each) for each in leaving], "gateway.finalizer")
        for gateway in leaving:
            key = key_of(gateway)
            if key not in due:
                continue
            rule_type, *others = _types(gateway)
            for record in self._rules(store, key, rule_type):
                store.remove(rule_type, record.id)
            for token in others:
                place = f"{self._place(gateway)}/{_types(gateway)[token]}"
                store.remove(token, f"{self._project}/{place}/{self._balancer_name(key)}")
            if last and len(leaving) == len(due):
                store.remove(_FIREWALL, f"{self._project}/global/firewalls/{self._firewall_name()}")
            others = [each for each in gateway["metadata"]["finalizers"] if each != FINALIZER]
            self._finalizers(self._kube.path_of(gateway), others)
        return bool(leaving)

    def _remove_groups(self, store: Store) -> bool:
        """Remove endpoint groups that no Gateway needs."""
        listed = self._kube.list(_NEGS)
        unused = [key_of(each) for each in listed if key_of(each) not in self._wanted]
        for namespace, name in self._due("NEG", unused, "neg.finalizer"):
            for zone in self._spec.zones:
                path = f"{self._project}/zones/{zone}/networkEndpointGroups/{name}"
                store.remove(_NEG, path)
            path = _NEGS.replace("/service", f"/namespaces/{namespace}/service") + f"/{name}"
            self._finalizers(path, [])
            try:
                self._kube.delete(path)
            except KubeError as error:
                if error.status != 404:
                    raise
        return bool(unused)

    def _due(self, kind: str, keys: Iterable[Key], rule: str) -> list[Key]:
        """Return the deletions that have lasted for a rule's time; forget canceled ones."""
        now, seconds = time.monotonic(), Rules.of(self._paths).scaled(rule)
        known = {(kind, key): self._leaving.get((kind, key), now) for key in keys}
        self._leaving = {
            **{each: since for each, since in self._leaving.items() if each[0] != kind},
            **known,
        }
        return [key for (_, key), since in known.items() if now - since >= seconds]

    def _add(self, store: Store, token: str, path: str, uses: list[Use]) -> bool:
        """Add a resource without a stack; return whether it is new."""
        identifier = f"{self._project}/{path}"
        name = path.rpartition("/")[2]
        record = new_record(token, identifier, name, self._spec.project, "", {}, {"name": name})
        if store.get(token, identifier) is not None or store.add(record, uses) is not None:
            return False
        store.set(token, identifier, status="ready", acknowledged=True)
        return True

    @staticmethod
    def _use(token: str, identifier: str) -> Use:
        return Use(token, identifier, blocks=True)

    @property
    def _project(self) -> str:
        return f"projects/{self._spec.project}"

    def _place(self, gateway: JsonObject) -> str:
        return "global" if _is_over_clusters(gateway) else f"regions/{self._spec.region}"

    def _rules(self, store: Store, key: Key, token: str) -> list[Record]:
        """Return the existing forwarding rules of a Gateway."""
        prefix = self._balancer_name(key)[:_SHARED_CHARACTERS].rstrip("-")
        return [each for each in store.find(token) if each.name.startswith(prefix)]

    def _rule_name(self, key: Key, region: str, properties: Json) -> str:
        """Return the name of a forwarding rule; the only one of a regional Gateway has no region.

        The access of a rule never changes, so a Gateway whose policy changes it gets another rule.
        GKE's names for it, and for several rules, are not documented.
        """
        name = self._balancer_name(key)
        if properties.get("allowGlobalAccess") is True:
            return f"{name[:_SHARED_CHARACTERS].rstrip('-')}-all-regions"
        return f"{name[:_SHARED_CHARACTERS].rstrip('-')}-{region}" if region else name

    def _balancer_name(self, key: Key) -> str:
        namespace, name = key
        return f"gkegw1-{self._digest(f'{namespace}/{name}')[:4]}-{namespace}-{name}"[:63]

    def _neg_name(self, backend: str) -> str:
        parts = backend.split("/")[1:]
        short = "-".join(parts).replace(".", "-")[:36]
        return f"k8s1-{self._spec.uid[:8]}-{short}-{self._digest(backend)[:8]}"

    def _firewall_name(self) -> str:
        """Return the name of the firewall rule that all Gateways of the cluster share.

        On GKE, all clusters of a region share it (`gkegw1-l7-NETWORK-REGION`). Here each cluster
        has its own, so that it is removed with the cluster's last Gateway.
        """
        network = "" if self._network is None else self._network.name
        return f"gkegw1-l7-{network}-{self._spec.region}-{self._spec.uid[:8]}"[:63]

    def _digest(self, text: str) -> str:
        return sha256(f"{self._spec.uid} {text}".encode()).hexdigest()


def _is_over_clusters(gateway: JsonObject) -> bool:
    return gateway["spec"]["gatewayClassName"] in fleet_classes()


def _types(gateway: JsonObject) -> dict[str, str]:
    return _GLOBAL if _is_over_clusters(gateway) else _REGIONAL


def _properties(
    gateway: JsonObject, model: GatewayModel, addresses: Mapping[str, str], is_reached: bool
) -> dict[str, Json]:
    """Return the properties of a Gateway's forwarding rules by region, or under "" if regional."""
    if _is_over_clusters(gateway):
        regions = [str(each["value"]) for each in items(gateway["spec"], "addresses")]
        return {
            region: {"ipAddress": addresses[region], "loadBalancingScheme": "INTERNAL_MANAGED"}
            for region in regions
        }
    is_inner = gateway["spec"]["gatewayClassName"] == INTERNAL_CLASS
    ports = [each.port for each in model.listeners]
    rule: Json = {
        "allowGlobalAccess": is_inner and is_reached,
        "ipAddress": model.address,
        "loadBalancingScheme": "INTERNAL_MANAGED" if is_inner else "EXTERNAL_MANAGED",
        **({"portRange": f"{ports[0]}-{ports[0]}"} if ports else {}),
    }
    return {"": rule}

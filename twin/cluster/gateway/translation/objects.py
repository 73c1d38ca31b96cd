"""A snapshot of the Kubernetes objects of gateways, with lookups."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from twin.cluster.gateway.translation.fleet import Fleet
from twin.cluster.gateway.translation.model import Certificate
from twin.cluster.gateway.translation.vpc import ClusterNetwork
from twin.providers.gcp.resources.security_policies import ArmorRule

JsonObject = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

CONTROLLER = "networking.gke.io/gateway"
INTERNAL_CLASS = "gke-l7-rilb"
"""Class of internal Gateways of one region."""
GATEWAY_GROUP = "gateway.networking.k8s.io"
POOL_GROUP = "inference.networking.k8s.io"

POLICIES: Final = ("HealthCheckPolicy", "GCPBackendPolicy", "GCPGatewayPolicy")
"""Kinds of policies with one target, in the order of their statuses."""
WATCHED: Mapping[str, str] = {
    "GatewayClass": "/apis/gateway.networking.k8s.io/v1/gatewayclasses",
    "Gateway": "/apis/gateway.networking.k8s.io/v1/gateways",
    "HTTPRoute": "/apis/gateway.networking.k8s.io/v1/httproutes",
    "ReferenceGrant": "/apis/gateway.networking.k8s.io/v1beta1/referencegrants",
    "InferencePool": "/apis/inference.networking.k8s.io/v1/inferencepools",
    "GCPRoutingExtension": "/apis/networking.gke.io/v1/gcproutingextensions",
    "GCPTrafficExtension": "/apis/networking.gke.io/v1/gcptrafficextensions",
    "GCPAuthzPolicy": "/apis/networking.gke.io/v1/gcpauthzpolicies",
    "HealthCheckPolicy": "/apis/networking.gke.io/v1/healthcheckpolicies",
    "GCPGatewayPolicy": "/apis/networking.gke.io/v1/gcpgatewaypolicies",
    "GCPBackendPolicy": "/apis/networking.gke.io/v1/gcpbackendpolicies",
    "ApigeeBackendService": "/apis/apim.googleapis.com/v1/apigeebackendservices",
    "APIProduct": "/apis/apim.googleapis.com/v1/apiproducts",
    "APIOperationSet": "/apis/apim.googleapis.com/v1/apioperationsets",
    "AutoscalingMetric": "/apis/autoscaling.gke.io/v1beta1/autoscalingmetrics",
    "Service": "/api/v1/services",
    "Pod": "/api/v1/pods",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "Namespace": "/api/v1/namespaces",
    "Secret": "/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Ftls",
}
"""Kinds that affect gateways, with their collections."""


def items(obj: JsonObject, key: str) -> list[JsonObject]:
    """Return an optional list of objects."""
    return obj.get(key) or []


def strings(obj: JsonObject, key: str) -> list[str]:
    """Return an optional list of strings."""
    return obj.get(key) or []


def mapping(obj: JsonObject, key: str) -> JsonObject:
    """Return an optional object."""
    return obj.get(key) or {}


def key_of(obj: JsonObject) -> Key:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    metadata: JsonObject = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _created(obj: JsonObject) -> tuple[str, Key]:
    return str(obj["metadata"].get("creationTimestamp", "")), key_of(obj)


def is_ready(pod: JsonObject) -> bool:
    """Return whether a pod has an address, is Ready and is not being deleted."""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    status: JsonObject = mapping(pod, "status")
    conditions: list[JsonObject] = items(status, "conditions")
    return bool(status.get("podIP")) and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def traits(kind: str, obj: JsonObject) -> object:
    """Return the parts of an object that affect gateways; other changes need no work."""
    metadata: JsonObject = obj["metadata"]
    if kind == "Pod":
        address = mapping(obj, "status").get("podIP")
        ports = [c.get("ports") for c in mapping(obj, "spec").get("containers", [])]
        return metadata.get("labels"), address, is_ready(obj), ports
    if kind == "Namespace":
        return metadata.get("labels")
    if kind == "Secret":
        return obj.get("data")
    of_pool = metadata.get("annotations") if kind == "InferencePool" else None
    return metadata.get("generation"), metadata.get("labels"), of_pool, obj.get("spec")


def _own_port(pod: JsonObject, port: int) -> tuple[str, int]:
    return pod["status"]["podIP"], port


@dataclass(frozen=True)
class NamedAddress:
    """A reserved address of the cloud."""

    address: str
    tier: str
    """Network tier, `PREMIUM` or `STANDARD`; empty for internal addresses."""


def _no_address(name: str) -> NamedAddress | None:
    return None


def _no_google_api(name: str) -> tuple[str, int] | None:
    return None


def _no_apigee() -> tuple[str, int] | None:
    return None


def _no_certificate(name: str, hostname: str, address: str) -> Certificate | None:
    return None


def _no_armor(name: str) -> tuple[ArmorRule, ...]:
    return ()


@dataclass(frozen=True)
class Snapshot:
    """All objects of one cluster that affect its gateways, by kind and key."""

    objects: Mapping[str, Mapping[Key, JsonObject]]
    address_named: Callable[[str], NamedAddress | None] = field(default=_no_address)
    """Lookup of a reserved address of the cloud by name."""
    certificate_named: Callable[[str, str, str], Certificate | None] = field(
        default=_no_certificate
    )
    """Lookup of a Certificate Manager certificate by name, host name and address."""
    wide_certificate_named: Callable[[str, str, str], Certificate | None] = field(
        default=_no_certificate
    )
    """The same for certificates of the scope ALL_REGIONS."""
    google_api: Callable[[str], tuple[str, int] | None] = field(default=_no_google_api)
    """Address of a Google service that an extension names; None if the twin does not have it."""
    armor_named: Callable[[str], tuple[ArmorRule, ...]] = field(default=_no_armor)
    """Rules of the Cloud Armor policy of the region with a name; empty if there is none."""
    apigee: Callable[[], tuple[str, int] | None] = field(default=_no_apigee)
    """Address of Apigee; None if the twin does not run it."""
    fleet: Fleet | None = None
    """Its fleet, if this is the config cluster of one."""
    region: str = ""
    """Region of the cluster."""
    network: ClusterNetwork | None = None
    """Its VPC; None if the twin's cloud does not have it."""
    port_of: Callable[[JsonObject, int], tuple[str, int]] = field(default=_own_port)
    """Actual (address, port) of a container port of a pod."""

    @classmethod
    def of(cls, items: Iterable[JsonObject], **lookups: Any) -> "Snapshot":
        """Return a snapshot of objects with a `kind`."""
        objects: dict[str, dict[Key, JsonObject]] = {}
        for item in items:
            objects.setdefault(item["kind"], {})[key_of(item)] = item
        return cls(objects, **lookups)

    def all(self, kind: str) -> list[JsonObject]:
        """Return the objects of a kind, by namespace and name."""
        found = self.objects.get(kind, {})
        return [found[key] for key in sorted(found)]

    def get(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        """Return one object, or None."""
        return self.objects.get(kind, {}).get((namespace, name))

    @cached_property
    def _ready_by_label(self) -> dict[tuple[str, str, str], list[JsonObject]]:
        """The Ready pods by namespace, and key and value of a label."""
        grouped: dict[tuple[str, str, str], list[JsonObject]] = {}
        for pod in filter(is_ready, self.all("Pod")):
            namespace = pod["metadata"].get("namespace", "")
            for key, value in mapping(pod["metadata"], "labels").items():
                grouped.setdefault((namespace, key, value), []).append(pod)
        return grouped

    @cached_property
    def policies(self) -> dict[tuple[str, str, str, str, str], JsonObject]:
        """The effective policies by kind, namespace, and group, kind and name of the target.

        Of several for a target, the oldest is effective.
        """
        found: dict[tuple[str, str, str, str, str], JsonObject] = {}
        for kind in POLICIES:
            for policy in sorted(self.all(kind), key=_created):
                target: JsonObject = policy["spec"]["targetRef"]
                name = (target.get("group", ""), target["kind"], target["name"])
                found.setdefault((kind, policy["metadata"]["namespace"], *name), policy)
        return found

    def ready_pods(self, namespace: str, selector: Mapping[str, str]) -> list[JsonObject]:
        """Return the Ready pods of a namespace that have every label; empty without labels."""
        if not selector:
            return []
        wanted = selector.items()
        having = (self._ready_by_label.get((namespace, *label), []) for label in wanted)
        return [
            pod
            for pod in min(having, key=len)
            if wanted <= mapping(pod["metadata"], "labels").items()
        ]

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        """Return the labels of a namespace."""
        found = self.get("Namespace", "", namespace)
        return mapping(found["metadata"], "labels") if found else {}

    def allows(self, source: tuple[str, str, str], target: tuple[str, str, str, str]) -> bool:
        """Return whether a reference is granted; within a namespace it always is.

        Args:
            source: (group, kind, namespace) of the referring object.
            target: (group, kind, namespace, name) of the referenced object.
        """
        group, kind, namespace, name = target
        if source[2] == namespace:
            return True
        for grant in self.all("ReferenceGrant"):
            spec: JsonObject = grant["spec"]
            if grant["metadata"]["namespace"] != namespace:
                continue
            from_ok = any((f["group"], f["kind"], f["namespace"]) == source for f in spec["from"])
            to_ok = any(
                (t["group"], t["kind"]) == (group, kind) and t.get("name") in {None, "", name}
                for t in spec["to"]
            )
            if from_ok and to_ok:
                return True
        return False

"""Endpoints and EndpointSlices of Services, as the Kubernetes controllers write them.

Those controllers are off on the twin: its pods have loopback addresses, which the API server
rejects in both kinds. This module writes `127.A.B.C` as `10.A.B.C` (rule `kubernetes.endpoints`). A
client that waits for a Service sees the same as on GKE; nothing on the twin connects to these
addresses.
"""

import logging
import threading
from typing import Any

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.matching import container_port
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_SERVICES, _PODS, _ENDPOINTS = "/api/v1/services", "/api/v1/pods", "/api/v1/endpoints"
_CHECK_SECONDS = 1.0
_QUIET_SECONDS = 0.2
_MANAGER = "kube-controller-manager"
_BY = "endpoints.kubernetes.io/managed-by"
_SLICE_BY = "endpointslice.kubernetes.io/managed-by"
_MINE = {_BY: "endpoint-controller"}
_Key = tuple[str, str]


class ServiceEndpoints:
    """The controller of a cluster's Endpoints and EndpointSlices."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._kube = ctx.kube
        self._watches = ctx.watches
        self._written: dict[_Key, JsonObject] = {}

    def run(self, stop: threading.Event) -> None:
        """Watch Services and pods until `stop` is set."""
        changed = threading.Event()
        services = Informer(self._watches, _SERVICES, changed)
        pods = Informer(self._watches, _PODS, changed)
        endpoints = Informer(self._watches, _ENDPOINTS, changed)
        for informer in (services, pods, endpoints):
            informer.start(stop)
        while not stop.is_set():
            changed.wait(_CHECK_SECONDS)
            changed.clear()
            stop.wait(_QUIET_SECONDS)  # changes come in groups
            if services.synced.is_set() and pods.synced.is_set() and endpoints.synced.is_set():
                self._reconcile(services.items(), pods.items(), endpoints.items())

    def _reconcile(
        self, services: list[JsonObject], pods: list[JsonObject], present: list[JsonObject]
    ) -> None:
        by_namespace: dict[str, list[JsonObject]] = {}
        for pod in pods:
            by_namespace.setdefault(pod["metadata"]["namespace"], []).append(pod)
        there = {_key(item): item for item in present}
        wanted: set[_Key] = set()
        for service in services:
            if part(service["spec"], "selector") and "deletionTimestamp" not in service["metadata"]:
                key = _key(service)
                wanted.add(key)
                made = endpoints_of(service, by_namespace.get(key[0], []))
                if key not in there or self._written.get(key) != made:
                    self._write(key, service, made)
        for key, item in there.items():
            labels = part(item, "metadata", "labels")
            if key not in wanted and labels.get(_BY) == _MINE[_BY]:
                self._forget(key)

    def _write(self, key: _Key, service: JsonObject, made: JsonObject) -> None:
        try:
            self._kube.apply(made, manager=_MANAGER)
            self._kube.apply(slice_of(service, made), manager=_MANAGER)
        except KubeError as error:
            if error.status not in (403, 404):  # its namespace is ending
                _LOG.warning("endpoints of %s/%s: %s", *key, error)
            return
        self._written[key] = made

    def _forget(self, key: _Key) -> None:
        self._written.pop(key, None)
        paths = (
            f"/api/v1/namespaces/{key[0]}/endpoints/{key[1]}",
            f"/apis/discovery.k8s.io/v1/namespaces/{key[0]}/endpointslices/{key[1]}",
        )
        for path in paths:
            try:
                self._kube.delete(path)
            except KubeError as error:
                if error.status != 404:
                    _LOG.warning("%s: %s", path, error)


def endpoints_of(service: JsonObject, pods: list[JsonObject]) -> JsonObject:
    """Return the Endpoints of a Service. Pure.

    Pods that have no address, are being deleted or have finished are not included.

    Args:
        service: Service with a selector.
        pods: pods of its namespace.
    """
    selector: dict[str, str] = part(service["spec"], "selector")
    publishes = bool(service["spec"].get("publishNotReadyAddresses"))
    groups: dict[tuple[tuple[str, int, str], ...], dict[str, list[JsonObject]]] = {}
    for pod in sorted(pods, key=lambda item: str(item["metadata"]["name"])):
        labels = part(pod, "metadata", "labels")
        if not selector.items() <= labels.items() or not _counts(pod, publishes=publishes):
            continue
        subset = groups.setdefault(_ports(service, pod), {})
        kind = "addresses" if publishes or _is_ready(pod) else "notReadyAddresses"
        subset.setdefault(kind, []).append(_address(pod))
    metadata = {
        "name": service["metadata"]["name"],
        "namespace": service["metadata"]["namespace"],
        "labels": {**part(service, "metadata", "labels"), **_MINE},
    }
    subsets: list[JsonObject] = []
    for ports, addresses in groups.items():
        listed = [_named(name, port=port, protocol=protocol) for name, port, protocol in ports]
        subsets.append({**addresses, **({"ports": listed} if listed else {})})
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}


def slice_of(service: JsonObject, endpoints: JsonObject) -> JsonObject:
    """Return the EndpointSlice with the addresses of an Endpoints object. Pure."""
    name = service["metadata"]["name"]
    subsets: list[JsonObject] = endpoints["subsets"]
    items: list[JsonObject] = []
    for subset in subsets:
        for kind in ("addresses", "notReadyAddresses"):
            for address in parts(subset, kind):
                ready = kind == "addresses"
                items.append(
                    {
                        "addresses": [address["ip"]],
                        "conditions": {"ready": ready, "serving": ready, "terminating": False},
                        "targetRef": address["targetRef"],
                    }
                )
    labels = {"kubernetes.io/service-name": name, _SLICE_BY: "endpointslice-controller.k8s.io"}
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": name,
        "uid": service["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": service["metadata"]["namespace"],
            "labels": {**part(service, "metadata", "labels"), **labels},
            "ownerReferences": [owner],
        },
        "addressType": "IPv4",
        "endpoints": items,
        "ports": parts(subsets[0], "ports") if subsets else [],
    }


def _key(obj: JsonObject) -> _Key:
    return str(obj["metadata"]["namespace"]), str(obj["metadata"]["name"])


def _counts(pod: JsonObject, *, publishes: bool) -> bool:
    status = part(pod, "status")
    if not status.get("podIP") or status.get("phase") in ("Succeeded", "Failed"):
        return False
    return publishes or "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: JsonObject) -> bool:
    conditions = parts(part(pod, "status"), "conditions")
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _address(pod: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    address = str(pod["status"]["podIP"])
    return {
        "ip": f"10.{address.removeprefix('127.')}" if address.startswith("127.") else address,
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": {
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }


def _ports(service: JsonObject, pod: JsonObject) -> tuple[tuple[str, int, str], ...]:
    """Return name, number and protocol of the Service ports that a pod has."""
    found: list[tuple[str, int, str]] = []
    for port in parts(service["spec"], "ports"):
        number = container_port(pod, port.get("targetPort") or port["port"])
        if number is not None:
            found.append((str(port.get("name") or ""), number, port.get("protocol", "TCP")))
    return tuple(found)


def _named(name: str, **port: Any) -> JsonObject:
    return {"name": name, **port} if name else port

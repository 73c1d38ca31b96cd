"""The Apigee Operator of a cluster: API proxies of its objects, and extensions that call them."""

from typing import Final

from twin.cluster.gateway.translation.conditions import Problem
from twin.cluster.gateway.translation.model import Endpoint, Processor
from twin.cluster.gateway.translation.objects import (
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)
from twin.providers.gcp.apigee.exchange import PROXY_KEY
from twin.providers.gcp.apigee.organization import (
    REQUESTS,
    TOKENS,
    Operations,
    Product,
    Proxy,
    interval_seconds,
)

BACKEND: Final = "ApigeeBackendService"
_EXTENSION: Final = "GCPTrafficExtension"


def proxies_of(snapshot: Snapshot, project: str) -> list[Proxy]:
    """Return the proxies that the operator makes, and those that extensions name instead.

    Args:
        snapshot: The cluster's objects.
        project: Project of the Apigee organization.
    """
    found: dict[str, Proxy] = {}
    for backend in snapshot.all(BACKEND):
        key = key_of(backend)
        products = _products(snapshot, key)
        found[key[1]] = Proxy(key[1], project, REQUESTS, products)
        for name in _named_instead(snapshot, key):
            found[name] = Proxy(name, project, TOKENS, products)
    return list(found.values())


def _named_instead(snapshot: Snapshot, backend: Key) -> set[str]:
    """Return the other proxies that extensions call through an ApigeeBackendService."""
    namespace, name = backend
    return {
        mapping(item, "metadata").get(PROXY_KEY, name)
        for extension in snapshot.all(_EXTENSION)
        if extension["metadata"]["namespace"] == namespace
        for chain in extension["spec"]["extensionChains"]
        for item in chain["extensions"]
        if (ref := mapping(item, "backendRef")).get("kind") == BACKEND and ref["name"] == name
    } - {name}


def _products(snapshot: Snapshot, backend: Key) -> tuple[Product, ...]:
    return tuple(
        Product(
            name=product["spec"].get("name") or product["metadata"]["name"],
            is_automatic=product["spec"]["approvalType"] == "auto",
            operations=_operations(snapshot, key_of(product)),
        )
        for product in snapshot.all("APIProduct")
        if any(
            _is_of(ref, BACKEND, key_of(product), backend)
            for ref in items(product["spec"], "enforcementRefs")
        )
    )


def _operations(snapshot: Snapshot, product: Key) -> tuple[Operations, ...]:
    return tuple(
        Operations(
            name=found["metadata"]["name"],
            paths=tuple(
                (one["path"], tuple(one["methods"])) for one in found["spec"]["restOperations"]
            ),
            limit=int(found["spec"]["quota"]["limit"]),
            seconds=interval_seconds(found["spec"]["quota"]),
        )
        for found in snapshot.all("APIOperationSet")
        if any(
            _is_of(ref, "APIProduct", key_of(found), product)
            for ref in items(found["spec"], "apiProductRefs")
        )
    )


def _is_of(ref: JsonObject, kind: str, owner: Key, wanted: Key) -> bool:
    return ref["kind"] == kind and (ref.get("namespace") or owner[0], ref["name"]) == wanted


def apigee_processor(
    snapshot: Snapshot, where: str, namespace: str, cluster: str, item: JsonObject
) -> Processor:
    """Return the Apigee stand-in for an extension (rule gateway.apigee).

    Raises:
        Problem: The twin cannot call it.
    """
    name = item["backendRef"]["name"]
    if snapshot.get(BACKEND, namespace, name) is None:
        raise Problem("BackendNotFound", f"{where}.backendRef: no {BACKEND} {namespace}/{name}")
    if not mapping(item, "metadata").get(PROXY_KEY):
        text = f"{where}.metadata.{PROXY_KEY}: must name an API proxy"
        raise Problem("UnsupportedValue", text)
    found = snapshot.apigee()
    if found is None:
        text = f"{where}.backendRef: the twin's Apigee does not run, got {BACKEND} {name}"
        raise Problem("UnsupportedValue", text)
    return Processor(cluster, (Endpoint(*found),), tls=False)

"""Attachment of HTTPRoutes to the listeners of a Gateway, by the rules of the Gateway API."""

from dataclasses import dataclass

from twin.cluster.base.matching import selects
from twin.cluster.gateway.translation.conditions import Problem
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
    strings,
)

PROTOCOLS = frozenset({"HTTP", "HTTPS"})


@dataclass(frozen=True)
class Attachment:
    """A listener that accepts a route, with the host names (`*` for every name)."""

    listener: str
    hosts: tuple[str, ...]


def parent_refs(route: JsonObject) -> list[tuple[JsonObject, Key]]:
    """Return the parent references of a route to Gateways, each with the Gateway's key."""
    refs: list[JsonObject] = items(route["spec"], "parentRefs")
    namespace = route["metadata"]["namespace"]
    return [
        (ref, (ref.get("namespace", namespace), ref["name"]))
        for ref in refs
        if ref.get("group", GATEWAY_GROUP) == GATEWAY_GROUP
        and ref.get("kind", "Gateway") == "Gateway"
    ]


def covers(pattern: str, host: str) -> bool:
    """Return whether a host name, or a wildcard such as `*.a.b`, covers another."""
    if pattern in {"", "*"} or pattern == host:
        return True
    return pattern.startswith("*.") and host.endswith(pattern[1:]) and host != pattern[1:]


def common_hosts(listener: str, route: list[str]) -> tuple[str, ...]:
    """Return the host names that a listener and a route have in common."""
    if not route:
        return (listener or "*",)
    both = [
        host if covers(listener, host) else listener
        for host in route
        if covers(listener, host) or covers(host, listener)
    ]
    return tuple(dict.fromkeys(both))


def _namespace_allowed(
    snapshot: Snapshot, gateway: JsonObject, listener: JsonObject, namespace: str
) -> bool:
    allowed: JsonObject = mapping(listener, "allowedRoutes").get("namespaces") or {}
    match allowed.get("from", "Same"):
        case "All":
            return True
        case "Selector":
            return selects(mapping(allowed, "selector"), snapshot.namespace_labels(namespace))
        case "None":
            return False
        case _:
            return namespace == gateway["metadata"]["namespace"]


def _kind_allowed(listener: JsonObject) -> bool:
    kinds: list[JsonObject] = mapping(listener, "allowedRoutes").get("kinds") or []
    return listener["protocol"] in PROTOCOLS and (
        not kinds
        or any(
            k["kind"] == "HTTPRoute" and k.get("group", GATEWAY_GROUP) == GATEWAY_GROUP
            for k in kinds
        )
    )


def attach(
    snapshot: Snapshot, gateway: JsonObject, route: JsonObject, ref: JsonObject
) -> list[Attachment]:
    """Return the listeners of a Gateway that accept a route through one of its parent references.

    Raises:
        Problem: no listener accepts it; with the reason defined by the Gateway API.
    """
    wanted = [
        listener
        for listener in gateway["spec"]["listeners"]
        if ref.get("sectionName") in {None, listener["name"]}
    ]
    namespace, name = key_of(gateway)
    if not wanted:
        text = f"Gateway {namespace}/{name} has no listener {ref.get('sectionName')}"
        raise Problem("NoMatchingParent", text)
    source = route["metadata"]["namespace"]
    open_to = [
        listener
        for listener in wanted
        if _kind_allowed(listener) and _namespace_allowed(snapshot, gateway, listener, source)
    ]
    if not open_to:
        text = f"no listener of Gateway {namespace}/{name} allows routes of namespace {source}"
        raise Problem("NotAllowedByListeners", text)
    hostnames = strings(route["spec"], "hostnames")
    attached = [
        Attachment(listener["name"], hosts)
        for listener in open_to
        if (hosts := common_hosts(listener.get("hostname") or "", hostnames))
    ]
    if not attached:
        text = f"no listener of Gateway {namespace}/{name} serves {', '.join(hostnames)}"
        raise Problem("NoMatchingListenerHostname", text)
    return attached

"""GCPRoutingExtension and GCPTrafficExtension: programs that the load balancer calls out to."""

from dataclasses import replace

from twin.cluster.gateway.translation.backends import processor_of
from twin.cluster.gateway.translation.conditions import (
    Condition,
    Problem,
    StatusUpdate,
    ancestor_status,
)
from twin.cluster.gateway.translation.model import Processor
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)

_ROUTING_EVENTS = frozenset({"RequestHeaders", "RequestBody", "RequestTrailers"})
_TARGET_GROUPS = {GATEWAY_GROUP, "net.gke.io"}


def _targets(extension: JsonObject) -> list[JsonObject]:
    return [
        ref
        for ref in items(extension["spec"], "targetRefs")
        if ref.get("kind") == "Gateway" and ref.get("group") in _TARGET_GROUPS
    ]


def extensions_of(snapshot: Snapshot, kind: str, gateway: Key) -> list[JsonObject]:
    """Return the extensions that target a Gateway: of its own namespace, oldest first."""
    namespace, name = gateway
    found = [
        extension
        for extension in snapshot.all(kind)
        if extension["metadata"]["namespace"] == namespace
        and any(ref["name"] == name for ref in _targets(extension))
    ]
    return sorted(found, key=lambda e: (e["metadata"].get("creationTimestamp", ""), key_of(e)))


def processors_of(snapshot: Snapshot, extension: JsonObject) -> list[Processor]:
    """Return the programs of a GCPRoutingExtension, in the order they see a request.

    Raises:
        Problem: a Service is missing, or a combination is one that Google's load balancer refuses.
    """
    namespace, name = key_of(extension)
    found: list[Processor] = []
    for chain in extension["spec"]["extensionChains"]:
        _check_condition(chain)
        owner = f"{name}/{chain['name']}"
        found += [_processor(snapshot, namespace, owner, item) for item in chain["extensions"]]
    return found


def _check_condition(chain: JsonObject) -> None:
    matchers: list[JsonObject] = mapping(chain, "matchCondition").get("celExpressions") or []
    for matcher in matchers:
        if str(matcher.get("celMatcher", "true")).strip() != "true" or matcher.get("backendRefs"):
            text = f"chain {chain['name']}: the twin evaluates no matchCondition but `true`"
            raise Problem("UnsupportedValue", text)


def _processor(snapshot: Snapshot, namespace: str, owner: str, item: JsonObject) -> Processor:
    events = tuple(item.get("supportedEvents") or ("RequestHeaders",))
    where = f"extension {item['name']}"
    if not set(events) <= _ROUTING_EVENTS:
        extra = ", ".join(sorted(set(events) - _ROUTING_EVENTS))
        text = f"{where}.supportedEvents: a routing extension sees requests only, got {extra}"
        raise Problem("UnsupportedValue", text)
    full_duplex = item.get("requestBodySendMode") == "FullDuplexStreamed"
    if full_duplex and not {"RequestBody", "RequestTrailers"} <= set(events):
        text = (
            f"{where}.supportedEvents: must have RequestBody and RequestTrailers with "
            f"requestBodySendMode FullDuplexStreamed, got {', '.join(events)}"
        )
        raise Problem("UnsupportedValue", text)
    ref: JsonObject | None = item.get("backendRef")
    if ref is None:
        text = f"{where}: the twin calls Services only, got {item.get('googleAPIServiceName')}"
        raise Problem("UnsupportedValue", text)
    cluster = f"extension/{namespace}/{owner}/{item['name']}"
    found = processor_of(snapshot, namespace, ref["name"], int(ref["port"]), cluster)
    return replace(
        found,
        fail_open=bool(item.get("failOpen", False)),
        authority=item.get("authority", found.authority),
        events=events,
        full_duplex=full_duplex,
    )


def extension_services(extension: JsonObject) -> set[tuple[str, str, str, str]]:
    """Return (group, kind, namespace, name) of the Services an extension calls."""
    return {
        ("", "Service", extension["metadata"]["namespace"], item["backendRef"]["name"])
        for chain in extension["spec"]["extensionChains"]
        for item in chain["extensions"]
        if item.get("backendRef")
    }


def extension_statuses(
    snapshot: Snapshot, gateways: set[Key], problems: dict[tuple[str, Key], Problem]
) -> list[StatusUpdate]:
    """Return the status of every extension.

    Args:
        snapshot: the cluster's objects.
        gateways: keys of the Gateways that this controller serves.
        problems: why an extension, by kind and key, is not programmed.
    """
    updates: list[StatusUpdate] = []
    for kind in ("GCPRoutingExtension", "GCPTrafficExtension"):
        for extension in snapshot.all(kind):
            namespace, _ = key = key_of(extension)
            ancestors: list[JsonObject] = []
            for ref in items(extension["spec"], "targetRefs"):
                problem = problems.get((kind, key))
                if ref not in _targets(extension) or (namespace, ref["name"]) not in gateways:
                    text = (
                        f"targetRef {ref['name']}: must be a Gateway of namespace {namespace} "
                        "with a class of GKE's"
                    )
                    problem = Problem("TargetNotFound", text)
                condition = (
                    Condition("Accepted", False, problem.reason, problem.message)
                    if problem
                    else Condition("Accepted", True, "Accepted", "the Gateway calls this extension")
                )
                ancestors.append(ancestor_status({**ref, "namespace": namespace}, [condition]))
            updates.append(StatusUpdate(kind, key, {"ancestors": ancestors}))
    return updates

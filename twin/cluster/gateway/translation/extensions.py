"""GCPRoutingExtension and GCPTrafficExtension: callouts of the load balancer."""

from typing import Final

from twin.cluster.gateway.translation.chains import (
    KINDS,
    ROUTING,
    Kind,
    chains_of,
    check_class,
    closed_chains,
)
from twin.cluster.gateway.translation.conditions import (
    Condition,
    Problem,
    StatusUpdate,
    ancestor_status,
)
from twin.cluster.gateway.translation.gateways import GatewayParts
from twin.cluster.gateway.translation.model import Chain
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
)

Problems = dict[tuple[str, Key, Key], Problem]
"""Error of an extension, by its kind and key, at a Gateway, by its key."""
CLOSED: Final = "; the Gateway rejects every request"
_TARGET_GROUPS = {GATEWAY_GROUP, "net.gke.io"}


def _targets(extension: JsonObject) -> list[JsonObject]:
    return [
        ref
        for ref in items(extension["spec"], "targetRefs")
        if ref.get("kind") == "Gateway" and ref.get("group") in _TARGET_GROUPS
    ]


def extensions_of(snapshot: Snapshot, kind: str, gateway: Key) -> list[JsonObject]:
    """Return the extensions in a Gateway's namespace that target it, oldest first."""
    namespace, name = gateway
    found = [
        extension
        for extension in snapshot.all(kind)
        if extension["metadata"]["namespace"] == namespace
        and any(ref["name"] == name for ref in _targets(extension))
    ]
    return sorted(found, key=lambda e: (e["metadata"].get("creationTimestamp", ""), key_of(e)))


def program_extensions(
    snapshot: Snapshot, key: Key, gateway: GatewayParts, problems: Problems
) -> set[tuple[str, str, str, str]]:
    """Add the chains of a Gateway's extensions to it, using the oldest extension of each kind.

    Returns:
        (group, kind, namespace, name) of the Services that the extensions call.
    """
    services: set[tuple[str, str, str, str]] = set()
    for kind in KINDS:
        found = extensions_of(snapshot, kind.name, key)
        for extension in found:
            services |= extension_services(extension)
            slot = kind.name, key_of(extension), key
            try:
                check_class(kind, gateway.obj["spec"]["gatewayClassName"])
                _check_oldest(kind, found[0], extension)
            except Problem as problem:
                problems[slot] = problem
                continue
            chains, problem = _runnable(snapshot, kind, extension)
            if problem is not None:
                problems[slot] = problem
            if kind is ROUTING:
                gateway.routing_chains = chains
            else:
                gateway.traffic_chains = chains
    return services


def _runnable(
    snapshot: Snapshot, kind: Kind, extension: JsonObject
) -> tuple[tuple[Chain, ...], Problem | None]:
    """Return the chains of an extension and its error; they fail if the twin cannot run it."""
    try:
        return chains_of(snapshot, kind, extension)
    except Problem as problem:
        if problem.reason == "BackendNotFound":
            return (), problem
        closed = closed_chains(kind, extension)
        suffix = CLOSED if closed else ""
        return closed, Problem(problem.reason, problem.message + suffix)


def _check_oldest(kind: Kind, oldest: JsonObject, extension: JsonObject) -> None:
    if extension is not oldest:
        name = oldest["metadata"]["name"]
        text = f"the Gateway has the older {kind.name} {name} already"
        raise Problem("Conflicted", text)


def extension_services(extension: JsonObject) -> set[tuple[str, str, str, str]]:
    """Return (group, kind, namespace, name) of the Services an extension calls."""
    return {
        ("", "Service", extension["metadata"]["namespace"], item["backendRef"]["name"])
        for chain in extension["spec"]["extensionChains"]
        for item in chain["extensions"]
        if item.get("backendRef") and item["backendRef"].get("kind", "Service") == "Service"
    }


def extension_statuses(
    snapshot: Snapshot, gateways: set[Key], problems: Problems
) -> list[StatusUpdate]:
    """Return the status of every extension.

    Args:
        snapshot: the cluster's objects.
        gateways: keys of the Gateways of this controller.
        problems: errors of extensions at Gateways.
    """
    updates: list[StatusUpdate] = []
    for kind in (each.name for each in KINDS):
        for extension in snapshot.all(kind):
            namespace, _ = key = key_of(extension)
            ancestors: list[JsonObject] = []
            for ref in items(extension["spec"], "targetRefs"):
                problem = problems.get((kind, key, (namespace, ref["name"])))
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

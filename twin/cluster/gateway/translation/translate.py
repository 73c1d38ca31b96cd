"""Translation of a snapshot to gateway models and statuses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from gke_inference.catalogue.url_maps import MAX_URL_MAP_BYTES, url_map_bytes
from twin.cluster.gateway.translation.attachment import Attachment, attach, parent_refs
from twin.cluster.gateway.translation.authorization import authorize
from twin.cluster.gateway.translation.backends import pool_conditions
from twin.cluster.gateway.translation.conditions import (
    Condition,
    Problem,
    StatusUpdate,
    parent_status,
)
from twin.cluster.gateway.translation.extensions import (
    Problems,
    extension_statuses,
    program_extensions,
)
from twin.cluster.gateway.translation.gateways import (
    GatewayParts,
    gateway_status,
    model_of,
    read_gateway,
)
from twin.cluster.gateway.translation.model import GatewayModel, Route
from twin.cluster.gateway.translation.objects import (
    CONTROLLER,
    GATEWAY_GROUP,
    INTERNAL_CLASS,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)
from twin.cluster.gateway.translation.policies import policy_statuses, reached_from_afar
from twin.cluster.gateway.translation.routes import translate_route

TargetKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class Translation:
    """The result of a translation."""

    gateways: dict[Key, GatewayModel]
    """Gateways that can be programmed."""
    statuses: list[StatusUpdate]
    """Status of every object, except the Gateways' `Programmed`, which depends on Envoy."""


def translate(snapshot: Snapshot) -> Translation:
    """Return the models of all Gateways of GKE's classes, and the status of every object."""
    gateways = {key_of(obj): read_gateway(snapshot, obj) for obj in _served(snapshot)}
    _refuse_taken_ports(gateways)
    statuses = [
        StatusUpdate("GatewayClass", key_of(obj), {"conditions": [_CLASS_ACCEPTED.as_json()]})
        for obj in snapshot.all("GatewayClass")
        if obj["spec"]["controllerName"] == CONTROLLER
    ]
    pool_parents: dict[Key, set[Key]] = {}
    for route in snapshot.all("HTTPRoute"):
        statuses += _route(snapshot, gateways, route)
    for gateway in gateways.values():
        _refuse_large_url_map(snapshot, gateway)
    problems: Problems = {}
    targets: set[TargetKey] = set()
    for key, gateway in gateways.items():
        targets |= gateway.backends.targets
        targets |= program_extensions(snapshot, key, gateway, problems)
        for _, kind, namespace, name in gateway.backends.targets:
            if kind == "InferencePool":
                pool_parents.setdefault((namespace, name), set()).add(key)
    statuses += [gateway_status(gateway) for gateway in gateways.values()]
    statuses += _pool_statuses(snapshot, pool_parents)
    targets |= {(GATEWAY_GROUP, "Gateway", *key) for key in gateways}
    # first: once a Gateway is Programmed, its policies are Attached
    statuses = [*policy_statuses(snapshot, targets), *statuses]
    statuses += authorize(snapshot, gateways)
    statuses += extension_statuses(snapshot, set(gateways), problems)
    reached = reached_from_afar(snapshot.all("GCPGatewayPolicy"))
    models = {
        key: model_of(key, gateway, "" if key in reached else _only_region(snapshot, gateway))
        for key, gateway in gateways.items()
        if gateway.refused is None
    }
    return Translation(models, statuses)


def _only_region(snapshot: Snapshot, gateway: GatewayParts) -> str:
    """Return the region whose clients alone reach an internal Gateway without global access."""
    return snapshot.region if gateway.obj["spec"]["gatewayClassName"] == INTERNAL_CLASS else ""


_CLASS_ACCEPTED = Condition("Accepted", True, "Accepted", "GKE serves this class")


def _served(snapshot: Snapshot) -> list[JsonObject]:
    classes = {
        obj["metadata"]["name"]
        for obj in snapshot.all("GatewayClass")
        if obj["spec"]["controllerName"] == CONTROLLER
    }
    found = [g for g in snapshot.all("Gateway") if g["spec"]["gatewayClassName"] in classes]
    return sorted(found, key=lambda g: (g["metadata"].get("creationTimestamp", ""), key_of(g)))


def _refuse_taken_ports(gateways: Mapping[Key, GatewayParts]) -> None:
    """Assign an address and port to the oldest Gateway that requests it."""
    taken: dict[tuple[str, int], Key] = {}
    for key, gateway in gateways.items():
        if gateway.refused is not None:
            continue
        for listener in gateway.obj["spec"]["listeners"]:
            owner = taken.setdefault((gateway.address, listener["port"]), key)
            if owner != key:
                text = (
                    f"{gateway.address}:{listener['port']} belongs to Gateway {'/'.join(owner)}; "
                    "give this one an address of its own (spec.addresses)"
                )
                gateway.refused = Problem("AddressNotUsable", text, "Programmed")


def _refuse_large_url_map(snapshot: Snapshot, gateway: GatewayParts) -> None:
    """Refuse a Gateway with more routes than fit into a URL map (rule gateway.url-map)."""
    keys = {key for attached in gateway.attached.values() for key in attached}
    routes = [route for key in keys if (route := snapshot.get("HTTPRoute", *key)) is not None]
    size, most = url_map_bytes(routes), MAX_URL_MAP_BYTES
    if gateway.refused is None and size > most:
        text = f"must be at most {most:,} bytes, got about {size:,} of {len(keys):,} routes"
        gateway.refused = Problem("Invalid", f"URL map: {text}", "Programmed")


def _route(
    snapshot: Snapshot, gateways: Mapping[Key, GatewayParts], route: JsonObject
) -> list[StatusUpdate]:
    parents: list[JsonObject] = []
    for ref, key in parent_refs(route):
        gateway = gateways.get(key)
        if gateway is None:
            continue
        attachments: list[Attachment] = []
        accepted: Problem | None = None
        try:
            attachments = attach(snapshot, gateway.obj, route, ref)
        except Problem as problem:
            accepted = problem
        result = translate_route(route, gateway.backends)
        accepted = accepted or result.refused
        if accepted is None:
            for attachment in attachments:
                _attach(gateway, attachment, route, result.routes)
        parents.append(parent_status(ref, _route_conditions(accepted, result.unresolved)))
    if not parents and not items(mapping(route, "status"), "parents"):
        return []  # of no Gateway of ours, and never was
    return [StatusUpdate("HTTPRoute", key_of(route), {"parents": parents})]


def _route_conditions(accepted: Problem | None, unresolved: Problem | None) -> list[Condition]:
    problem = accepted or unresolved
    return [
        accepted.as_condition()
        if accepted
        else Condition("Accepted", True, "Accepted", "the route is attached"),
        unresolved.as_condition()
        if unresolved
        else Condition("ResolvedRefs", True, "ResolvedRefs", "every reference resolves"),
        Condition("Reconciled", False, "ReconciliationFailed", problem.message)
        if problem
        else Condition("Reconciled", True, "ReconciliationSucceeded", ""),
    ]


def _attach(
    gateway: GatewayParts, attachment: Attachment, route: JsonObject, routes: tuple[Route, ...]
) -> None:
    gateway.attached.setdefault(attachment.listener, set()).add(key_of(route))
    hosts = gateway.routes.setdefault(attachment.listener, {})
    created = str(route["metadata"].get("creationTimestamp", ""))
    for host in attachment.hosts:
        hosts.setdefault(host, {}).update({item.name: (created, item) for item in routes})


def _pool_statuses(snapshot: Snapshot, parents: Mapping[Key, set[Key]]) -> list[StatusUpdate]:
    updates: list[StatusUpdate] = []
    for pool in snapshot.all("InferencePool"):
        used_by = sorted(parents.get(key_of(pool), set()))
        entries = [
            parent_status(
                {"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": ns, "name": name},
                pool_conditions(snapshot, pool),
            )
            for ns, name in used_by
        ]
        updates.append(StatusUpdate("InferencePool", key_of(pool), {"parents": entries}))
    return updates

"""Translation of one Gateway: address, certificates, listeners, status."""

import base64
import binascii
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twin.cluster.gateway.translation.attachment import PROTOCOLS
from twin.cluster.gateway.translation.backends import BackendIndex, fleet_classes
from twin.cluster.gateway.translation.conditions import Condition, Problem, StatusUpdate
from twin.cluster.gateway.translation.model import (
    Authorization,
    Certificate,
    Chain,
    GatewayModel,
    Listener,
    Route,
)
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    INTERNAL_CLASS,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)
from twin.cluster.gateway.translation.rules_of_routes import precedence

DEFAULT_ADDRESS = "127.0.0.1"
_HEALTHY = "networking.gke.io/GatewayHealthy"
_EPHEMERAL = "networking.gke.io/ephemeral-ipv4-address/"
_REGIONAL = "gke-l7-regional-external-managed"  # rule gateway.address-tier
HostRoutes = dict[str, dict[str, tuple[str, Route]]]
"""(creation time of its HTTPRoute, route) by host name and the route's name."""

CERTIFICATE_OPTIONS = (
    "networking.gke.io/cert-manager-certs",
    "networking.gke.io/pre-shared-certs",
)


@dataclass
class GatewayParts:
    """A Gateway during translation."""

    obj: JsonObject
    backends: BackendIndex
    address: str = DEFAULT_ADDRESS
    addresses: tuple[str, ...] = (DEFAULT_ADDRESS,)
    """Addresses in its status: one, or one in each region in the order of its spec."""
    refused: Problem | None = None
    certificates: dict[str, tuple[Certificate, ...]] = field(
        default_factory=dict[str, tuple[Certificate, ...]]
    )
    broken: dict[str, Problem] = field(default_factory=dict[str, Problem])
    """Listeners that cannot be used, by name."""
    attached: dict[str, set[Key]] = field(default_factory=dict[str, set[Key]])
    """HTTPRoutes by listener."""
    routes: dict[str, HostRoutes] = field(default_factory=dict[str, HostRoutes])
    """By listener."""
    routing_chains: tuple[Chain, ...] = ()
    traffic_chains: tuple[Chain, ...] = ()
    authorization: Authorization | None = None


def read_gateway(snapshot: Snapshot, obj: JsonObject) -> GatewayParts:
    """Return a Gateway with its usable listeners; routes and extensions are added later."""
    gateway = GatewayParts(obj, BackendIndex(snapshot, obj["spec"]["gatewayClassName"]))
    try:
        gateway.address = address_of(snapshot, obj)
        gateway.addresses = _shown(snapshot, obj, gateway.address)
    except Problem as problem:
        gateway.refused = problem
    for listener in obj["spec"]["listeners"]:
        try:
            gateway.certificates[listener["name"]] = _certificates(
                snapshot, obj, listener, gateway.address
            )
        except Problem as problem:
            gateway.broken[listener["name"]] = problem
    return gateway


def _shown(snapshot: Snapshot, gateway: JsonObject, address: str) -> tuple[str, ...]:
    fleet = snapshot.fleet
    if fleet is None or gateway["spec"]["gatewayClassName"] not in fleet_classes():
        return (address,)
    return tuple(fleet.addresses[each["value"]] for each in items(gateway["spec"], "addresses"))


def address_of(snapshot: Snapshot, gateway: JsonObject) -> str:
    """Return the loopback address of a Gateway.

    Raises:
        Problem: the requested address does not exist or is not one of the twin's.
    """
    if gateway["spec"]["gatewayClassName"] in fleet_classes():
        return _fleet_addresses(snapshot, gateway)[0]
    asked: list[JsonObject] = items(gateway["spec"], "addresses")
    if not asked:
        return DEFAULT_ADDRESS
    if len(asked) > 1:
        text = f"spec.addresses: must be one address, got {len(asked)}"
        raise Problem("UnsupportedAddress", text)
    kind, value = asked[0].get("type", "IPAddress"), asked[0].get("value", "")
    if kind == "NamedAddress":
        found = snapshot.address_named(value)
        if found is None:
            text = f"spec.addresses: must name a reserved address, got {value}"
            raise Problem("AddressNotUsable", text, "Programmed")
        if gateway["spec"]["gatewayClassName"] == _REGIONAL and found.tier == "PREMIUM":
            text = (
                f"spec.addresses: must be of network tier STANDARD for {_REGIONAL}, "
                f"{value} is PREMIUM"
            )
            raise Problem("AddressNotUsable", text, "Programmed")
        return found.address
    if kind != "IPAddress":
        text = f"spec.addresses: type must be NamedAddress or IPAddress, got {kind}"
        raise Problem("UnsupportedAddress", text)
    if not _is_loopback(value):
        text = f"spec.addresses: the twin serves addresses of 127.0.0.0/8 only, got {value}"
        raise Problem("AddressNotUsable", text, "Programmed")
    return value


def _fleet_addresses(snapshot: Snapshot, gateway: JsonObject) -> list[str]:
    """Return the addresses of a Gateway over all clusters, that of this load balancer first."""
    fleet = snapshot.fleet
    if fleet is None:
        text = "gatewayClassName: the cluster must be the config cluster of its fleet"
        raise Problem("UnsupportedValue", text)
    regions: list[str] = []
    for asked in items(gateway["spec"], "addresses"):
        kind, region = str(asked.get("type", "")), str(asked.get("value", ""))
        if kind != f"{_EPHEMERAL}{region}":
            text = f"spec.addresses: type must be {_EPHEMERAL}REGION with the value REGION"
            raise Problem("UnsupportedAddress", f"{text}, got {kind} with {region}")
        if region not in fleet.addresses:
            have = ", ".join(sorted(fleet.addresses)) or "none"
            text = f"spec.addresses: must be regions of the fleet's clusters ({have}), got {region}"
            raise Problem("AddressNotUsable", text, "Programmed")
        regions.append(region)
    if fleet.region not in regions:
        text = f"spec.addresses: the twin needs one in the config cluster's region, {fleet.region}"
        raise Problem("AddressNotUsable", text, "Programmed")
    ordered = [fleet.region, *(region for region in regions if region != fleet.region)]
    return [fleet.addresses[region] for region in ordered]


def _is_loopback(value: str) -> bool:
    try:
        return ipaddress.IPv4Address(value).is_loopback
    except ValueError:
        return False


def _certificates(
    snapshot: Snapshot, gateway: JsonObject, listener: JsonObject, address: str
) -> tuple[Certificate, ...]:
    if listener["protocol"] not in PROTOCOLS:
        text = f"protocol: must be HTTP or HTTPS, got {listener['protocol']}"
        raise Problem("UnsupportedProtocol", text)
    if listener["protocol"] == "HTTP":
        return ()
    tls = mapping(listener, "tls")
    if tls.get("mode", "Terminate") != "Terminate":
        text = f"tls.mode: must be Terminate, got {tls['mode']}"
        raise Problem("UnsupportedValue", text)
    found = [_certificate(snapshot, gateway, ref) for ref in items(tls, "certificateRefs")]
    options = mapping(tls, "options")
    for option in CERTIFICATE_OPTIONS:
        names = [name.strip() for name in str(options.get(option, "")).split(",")]
        host = listener.get("hostname") or ""
        is_fleet = gateway["spec"]["gatewayClassName"] in fleet_classes()
        found += [
            _managed(snapshot, name, host, address, is_fleet=is_fleet) for name in names if name
        ]
    if not found:
        text = f"tls: must have certificateRefs, or options {' or '.join(CERTIFICATE_OPTIONS)}"
        raise Problem("InvalidCertificateRef", text, "ResolvedRefs")
    return tuple(found)


def _managed(
    snapshot: Snapshot, name: str, hostname: str, address: str, *, is_fleet: bool
) -> Certificate:
    lookup, place = snapshot.certificate_named, "of the region"
    if is_fleet:
        lookup, place = snapshot.wide_certificate_named, "of scope ALL_REGIONS"
    certificate = lookup(name, hostname, address)
    if certificate is None:
        text = f"tls.options: must name an ACTIVE certificate {place}, got {name}"
        raise Problem("InvalidCertificateRef", text, "ResolvedRefs")
    return certificate


def _certificate(snapshot: Snapshot, gateway: JsonObject, ref: JsonObject) -> Certificate:
    own = gateway["metadata"]["namespace"]
    namespace, name = ref.get("namespace", own), ref["name"]
    if not snapshot.allows((GATEWAY_GROUP, "Gateway", own), ("", "Secret", namespace, name)):
        text = f"Secret {namespace}/{name}: no ReferenceGrant in {namespace} allows it"
        raise Problem("RefNotPermitted", text, "ResolvedRefs")
    secret = snapshot.get("Secret", namespace, name)
    data: dict[str, str] = mapping(secret, "data") if secret else {}
    try:
        return Certificate(
            base64.b64decode(data["tls.crt"]).decode(), base64.b64decode(data["tls.key"]).decode()
        )
    except (KeyError, binascii.Error, UnicodeDecodeError) as error:
        text = f"Secret {namespace}/{name}: must hold tls.crt and tls.key"
        raise Problem("InvalidCertificateRef", text, "ResolvedRefs") from error


def model_of(key: Key, gateway: GatewayParts, only_region: str = "") -> GatewayModel:
    """Return the model of a Gateway after all routes are attached."""
    listeners = [
        Listener(
            name=spec["name"],
            port=spec["port"],
            hostname=spec.get("hostname") or "",
            certificates=gateway.certificates[spec["name"]],
            hosts=_hosts(gateway.routes.get(spec["name"], {})),
        )
        for spec in gateway.obj["spec"]["listeners"]
        if spec["name"] not in gateway.broken
    ]
    used = {
        name
        for listener in listeners
        for _, routes in listener.hosts
        for route in routes
        for name in [
            *(target.backend for target in route.targets),
            None if route.mirror is None else route.mirror.backend,
        ]
    }
    found = gateway.backends.found
    return GatewayModel(
        namespace=key[0],
        name=key[1],
        address=gateway.address,
        listeners=tuple(listeners),
        backends=tuple(found[name] for name in sorted(found) if name in used),
        routing_chains=gateway.routing_chains,
        traffic_chains=gateway.traffic_chains,
        authorization=gateway.authorization,
        only_region=only_region,
        is_internal=gateway.obj["spec"]["gatewayClassName"] == INTERNAL_CLASS,
    )


def _hosts(
    hosts: HostRoutes,
) -> tuple[tuple[str, tuple[Route, ...]], ...]:
    return tuple(
        (
            host,
            tuple(
                r for _, r in sorted(hosts[host].values(), key=lambda cr: precedence(cr[1], cr[0]))
            ),
        )
        for host in sorted(hosts)
    )


def gateway_status(gateway: GatewayParts) -> StatusUpdate:
    """Return the status of a Gateway before Envoy serves it."""
    obj, refused = gateway.obj, gateway.refused
    accepted = Condition("Accepted", True, "Accepted", "GKE serves this Gateway")
    if refused is not None and refused.condition == "Accepted":
        accepted = refused.as_condition()
    elif gateway.broken:
        names = ", ".join(sorted(gateway.broken))
        accepted = Condition("Accepted", True, "ListenersNotValid", f"not usable: {names}")
    programmed = refused or Problem("Pending", "waiting for the data plane")
    if refused is None and len(gateway.broken) == len(obj["spec"]["listeners"]):
        programmed = Problem("Invalid", "; ".join(map(str, gateway.broken.values())))
    conditions = [accepted, Condition("Programmed", False, programmed.reason, programmed.message)]
    if gateway.backends.snapshot.network is not None:
        dropped = list(dict.fromkeys(_dropped(gateway)))
        reason = "NetworkDropsTraffic" if dropped else "Healthy"
        conditions.append(Condition(_HEALTHY, not dropped, reason, "; ".join(dropped)))
    status: JsonObject = {
        "conditions": [each.as_json() for each in conditions],
        "addresses": [
            {"type": "IPAddress", "value": each} for each in gateway.addresses if not refused
        ],
        "listeners": [_listener_status(gateway, spec) for spec in obj["spec"]["listeners"]],
    }
    return StatusUpdate("Gateway", key_of(obj), status)


def _dropped(gateway: GatewayParts) -> Iterator[str]:
    """Yield what the network drops between a Gateway and its backends and programs."""
    for backend in gateway.backends.found.values():
        yield from backend.dropped
        if backend.picker is not None:
            yield from backend.picker.dropped
    for chain in (*gateway.routing_chains, *gateway.traffic_chains):
        for processor in chain.processors:
            yield from processor.dropped


def _listener_status(gateway: GatewayParts, spec: JsonObject) -> JsonObject:
    broken = gateway.broken.get(spec["name"])
    conditions = {
        "Accepted": Condition("Accepted", True, "Accepted"),
        "ResolvedRefs": Condition("ResolvedRefs", True, "ResolvedRefs"),
        "Programmed": Condition("Programmed", False, "Pending"),
        "Conflicted": Condition("Conflicted", False, "NoConflicts"),
    }
    if broken is not None:
        conditions[broken.condition] = broken.as_condition()
        conditions["Programmed"] = Condition("Programmed", False, "Invalid", broken.message)
    return {
        "name": spec["name"],
        "supportedKinds": [{"group": GATEWAY_GROUP, "kind": "HTTPRoute"}],
        "attachedRoutes": len(gateway.attached.get(spec["name"], set())),
        "conditions": [c.as_json() for c in conditions.values()],
    }


def programmed(update: StatusUpdate, failure: str | None) -> StatusUpdate:
    """Return a Gateway's status with Envoy's error, or None if Envoy serves every listener."""
    ok = failure is None
    verdict = Condition("Programmed", ok, "Programmed" if ok else "Pending", failure or "")

    def replaced(conditions: list[JsonObject]) -> list[JsonObject]:
        return [
            verdict.as_json() if c["type"] == "Programmed" and c["reason"] == "Pending" else c
            for c in conditions
        ]

    status = update.status
    listeners = [
        {**item, "conditions": replaced(item["conditions"])} for item in status["listeners"]
    ]
    conditions = replaced(status["conditions"])
    return replace(update, status={**status, "conditions": conditions, "listeners": listeners})

"""Google's checks for load balancers across regions, and for their connections and DNS records."""

from collections.abc import Iterable, Iterator
from typing import Any

from cryptography.x509 import load_pem_x509_certificates

from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.resources.references import (
    ATTACHMENT,
    FORWARDING_RULE,
    NETWORK,
    SERVER_TLS_POLICY,
    SUBNETWORK,
    Link,
)
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path, last_segment
from twin.world.store import Record, Store

_NEG = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"
_BACKEND = "gcp:compute/backendService:BackendService"
_PSC = "PRIVATE_SERVICE_CONNECT"
_CONSUMERS = ("projectIdOrNum", "networkUrl", "endpointUrl")
_MOST_ACCEPTED, _MOST_REJECTED = 5000, 64
_PROXY_PURPOSES = ("REGIONAL_MANAGED_PROXY", "GLOBAL_MANAGED_PROXY")
_LEAST_SECONDS = 30
_CROSS_REGION = "globalL7ilb"
_BALANCERS = (_CROSS_REGION, "regionalL4ilb", "regionalL7ilb")
_MOST_HEADERS = 16
_MOST_HEADER_BYTES = 8 * 1024
_RESERVED_HEADERS = ("x-google", "x-goog-", "x-gfe", "x-amz-", "x-user-ip", "cdn-loop")
_MODES = ("REJECT_INVALID", "ALLOW_INVALID_OR_MISSING_CLIENT_CERT")


def check_purpose(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a second active proxy-only subnet per purpose (rule cloud.proxy-only-subnet)."""
    purpose, network = inputs.get("purpose"), _target(found, "network")
    if purpose not in _PROXY_PURPOSES or inputs.get("role") != "ACTIVE" or network is None:
        return
    for record in store.find(SUBNETWORK):
        is_same = (
            record.outputs.get("purpose") == purpose
            and record.outputs.get("role") == "ACTIVE"
            and _region(record) == last_segment(str(inputs.get("region")))
            and any(use.id == record.id for use in store.users(NETWORK, network.id))
        )
        if is_same and record.name != inputs.get("name"):
            raise _invalid(
                "resource.role",
                f"There is already an active subnetwork with purpose {purpose} in the region: "
                f"{record.id}.",
            )


def check_attachment(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a service attachment that cannot be published (rule cloud.service-attachment)."""
    region = last_segment(str(inputs.get("region")))
    rule = _target(found, "targetService")
    if rule is not None:
        scheme = rule.outputs.get("loadBalancingScheme")
        if scheme not in ("INTERNAL", "INTERNAL_MANAGED"):
            raise _invalid(
                "resource.targetService",
                f"Must be a forwarding rule of an internal load balancer, '{rule.name}' is "
                f"{scheme}.",
            )
        if _region(rule) != region:
            raise _invalid("resource.targetService", f"'{rule.name}' is not in region {region}.")
    for subnet in (link.target for link in found if link.path == "natSubnets"):
        if subnet is None:
            continue
        if subnet.outputs.get("purpose") != _PSC:
            raise _invalid("resource.natSubnets", f"'{subnet.name}' must have purpose {_PSC}.")
        if _region(subnet) != region:
            raise _invalid("resource.natSubnets", f"'{subnet.name}' is not in region {region}.")
        users = [use for use in store.users(SUBNETWORK, subnet.id) if use.type == ATTACHMENT]
        if users:
            raise _invalid(
                "resource.natSubnets", f"'{subnet.name}' is already used by '{users[0].id}'."
            )


def check_consumers(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject consumer lists that Google rejects (rule cloud.psc-connection)."""
    del store, found
    preference = inputs.get("connectionPreference")
    if preference not in ("ACCEPT_AUTOMATIC", "ACCEPT_MANUAL"):
        raise _invalid("resource.connectionPreference", str(preference))
    accepted = list(_objects(inputs.get("consumerAcceptLists")))
    rejected = [str(each) for each in as_list(inputs.get("consumerRejectLists")) or []]
    for name, entries, most in (
        ("consumerAcceptLists", accepted, _MOST_ACCEPTED),
        ("consumerRejectLists", rejected, _MOST_REJECTED),
    ):
        if len(entries) > most:
            raise _invalid(f"resource.{name}", f"Must have at most {most} values.")
    kinds = {"networkUrl" if "/" in each else "projectIdOrNum" for each in rejected}
    for at, entry in enumerate(accepted):
        given = [key for key in _CONSUMERS if entry.get(key)]
        where = f"resource.consumerAcceptLists[{at}]"
        if len(given) != 1:
            raise _invalid(where, f"Must have one of {', '.join(_CONSUMERS)}.")
        if given == ["endpointUrl"]:
            raise _invalid(where, "The twin does not know the ID-based URIs of endpoints.")
        kinds.update(given)
    if len(kinds) > 1:
        raise _invalid("resource.consumerAcceptLists", "Projects and networks cannot be mixed.")


def check_endpoint(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject an endpoint that cannot name its service attachment (rule cloud.psc-endpoint)."""
    value = str(inputs.get("target") or "")
    if "/serviceAttachments/" not in value:
        return
    attachment = next(
        (each.target for each in found if each.path == "target" and each.target), None
    )
    if attachment is None:
        raise CloudError(404, f"The resource '{relative_path(value)}' was not found", "notFound")
    region = last_segment(str(inputs.get("region")))
    if _region(attachment) != region:
        raise _invalid("resource.target", f"'{attachment.name}' is not in region {region}.")
    if inputs.get("loadBalancingScheme") != "":
        raise _invalid("resource.loadBalancingScheme", "Must be empty with a service attachment.")
    own = _networks(
        store, [link.target for link in found if link.path in ("network", "subnetwork")]
    )
    _check_other_network(store, attachment, own, "resource.network")
    rule = _named(store, FORWARDING_RULE, attachment, "targetService")
    has_global_access = rule is not None and rule.outputs.get("allowGlobalAccess") is True
    if inputs.get("allowPscGlobalAccess") is True and not has_global_access:
        text = f"The load balancer behind '{attachment.name}' has no global access."
        raise _invalid("resource.allowPscGlobalAccess", text)
    address = _target(found, "ipAddress")
    if address is None:
        return
    if address.outputs.get("addressType") != "INTERNAL" or _region(address) != region:
        text = f"'{address.name}' must be an internal address in region {region}."
        raise _invalid("resource.IPAddress", text)
    subnets = [each for each in store.find(SUBNETWORK) if _uses(store, address, each)]
    if own and subnets and not _networks(store, subnets) & own:
        raise _invalid("resource.IPAddress", f"'{address.name}' is in another network.")
    for user in store.users(address.type, address.id):
        if user.type == FORWARDING_RULE and last_segment(user.id) != inputs.get("name"):
            text = f"'{address.name}' is already being used by '{user.id}'."
            raise _invalid("resource.IPAddress", text)


def _check_other_network(store: Store, attachment: Record, own: set[str], where: str) -> None:
    published = _networks(
        store, [each for each in store.find(SUBNETWORK) if _uses(store, attachment, each)]
    )
    for shared in own & published:
        raise _invalid(
            where,
            f"'{shared}' is the network of '{attachment.name}': a consumer of the published "
            "service must be in another VPC network.",
        )


def check_group(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a group that cannot connect to its service attachment (rule cloud.psc-group)."""
    if inputs.get("networkEndpointType") != _PSC:
        return
    value = str(inputs.get("pscTargetService") or "")
    if not value:
        raise _invalid("resource.pscTargetService", "Must be set.")
    attachment = _target(found, "pscTargetService")
    if "/serviceAttachments/" not in value:
        return  # Google's own services have names of their own
    if attachment is None:
        raise CloudError(404, f"The service attachment '{value}' was not found", "notFound")
    region = last_segment(str(inputs.get("region")))
    if _region(attachment) != region:
        raise _invalid(
            "resource.pscTargetService", f"'{attachment.name}' is not in region {region}."
        )
    own = _networks(
        store, [link.target for link in found if link.path in ("network", "subnetwork")]
    )
    _check_other_network(store, attachment, own, "resource.network")


def check_backends(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject unsupported settings of Private Service Connect backends (rule cloud.psc-backend)."""
    del store
    groups = {
        link.value: link.target
        for link in found
        if link.path == "backends.group" and link.target is not None
    }
    regions: set[str] = set()
    for at, backend in enumerate(_objects(inputs.get("backends"))):
        group = groups.get(str(backend.get("group")))
        if group is None:
            value = str(backend.get("group"))
            raise CloudError(404, f"The resource '{value}' was not found", "notFound")
        if group.type != _NEG or group.outputs.get("networkEndpointType") != _PSC:
            continue
        where = f"resource.backends[{at}]"
        if backend.get("capacityScaler") not in (None, 1):
            raise _invalid(
                f"{where}.capacityScaler", f"Not available for {_PSC} network endpoint groups."
            )
        for field in ("maxRate", "maxRatePerEndpoint", "maxConnections"):
            if backend.get(field):
                raise _invalid(f"{where}.{field}", f"Not available for {_PSC} groups.")
        if backend.get("balancingMode") not in (None, "UTILIZATION"):
            raise _invalid(f"{where}.balancingMode", f"Not available for {_PSC} groups.")
        if inputs.get("healthChecks"):
            raise _invalid("resource.healthChecks", f"Must be empty with {_PSC} groups.")
        if inputs.get("loadBalancingScheme") != "EXTERNAL_MANAGED":
            raise _invalid(
                "resource.loadBalancingScheme",
                f"Must be EXTERNAL_MANAGED with {_PSC} groups of a published service.",
            )
        region = _region(group)
        if region in regions:
            raise _invalid(f"{where}.group", f"There is another {_PSC} group of {region}.")
        regions.add(region)


def check_reached(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a global balancer for a rule without global access (rule cloud.psc-access)."""
    del inputs
    for group in (link.target for link in found if link.path == "backends.group"):
        attachment = None if group is None else _named(store, ATTACHMENT, group, "pscTargetService")
        rule = (
            None
            if attachment is None
            else _named(store, FORWARDING_RULE, attachment, "targetService")
        )
        if rule is not None and rule.outputs.get("allowGlobalAccess") is not True:
            raise _invalid(
                "resource.backends", f"The producer's '{rule.name}' must have global access."
            )


def check_headers(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject custom request headers that Google rejects (rule cloud.custom-headers)."""
    del store, found
    headers = [str(each) for each in as_list(inputs.get("customRequestHeaders")) or []]
    names = [header.partition(":")[0].strip().lower() for header in headers]
    size = sum(len(header.encode()) for header in headers)
    where = "resource.customRequestHeaders"
    if len(headers) > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
        raise _invalid(where, f"At most {_MOST_HEADERS} headers and {_MOST_HEADER_BYTES} bytes.")
    for at, name in enumerate(names):
        if name.startswith(_RESERVED_HEADERS):
            raise _invalid(f"{where}[{at}]", f"'{name}' is reserved.")
        if name in names[:at]:
            raise _invalid(f"{where}[{at}]", f"'{name}' is there already.")


def check_client_validation(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a policy that cannot validate clients (rule cloud.client-validation)."""
    del inputs, store
    for link in found:
        policy = link.target
        if policy is None or policy.type != SERVER_TLS_POLICY:
            continue
        mtls = as_object(policy.inputs.get("mtlsPolicy")) or {}
        mode = mtls.get("clientValidationMode")
        if mode not in _MODES or not mtls.get("clientValidationTrustConfig"):
            text = f"'{policy.name}' must have a client validation mode and a trust config."
            raise _invalid("resource.serverTlsPolicy", text)
        if mtls.get("clientValidationCas") or policy.inputs.get("serverCertificate"):
            text = f"'{policy.name}' has settings for Traffic Director."
            raise _invalid("resource.serverTlsPolicy", text)
        if "/locations/global/" not in policy.id:
            raise _invalid("resource.serverTlsPolicy", f"'{policy.id}' must be global.")


def check_trust_config(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject trust anchors that are not certificates (rule cloud.trust-config)."""
    del store, found
    for at, trust in enumerate(_objects(inputs.get("trustStores"))):
        for kind in ("trustAnchors", "intermediateCas"):
            for number, each in enumerate(_objects(trust.get(kind))):
                try:
                    load_pem_x509_certificates(str(each.get("pemCertificate")).encode())
                except ValueError:
                    where = f"trustStores[{at}].{kind}[{number}].pemCertificate"
                    raise _invalid(where, "Must be a certificate in PEM format.") from None


def check_global_rule(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a global rule whose backends have a different scheme (rule cloud.scheme)."""
    scheme = inputs.get("loadBalancingScheme") or "EXTERNAL_MANAGED"
    proxy = _target(found, "target")
    if proxy is None:
        return
    if "region" in proxy.id.split("/")[2]:
        raise _invalid("resource.target", f"'{proxy.id}' is regional.")
    url_map = _named(store, "gcp:compute/uRLMap:URLMap", proxy, "urlMap")
    service = None if url_map is None else _named(store, _BACKEND, url_map, "defaultService")
    if service is not None and service.outputs.get("loadBalancingScheme") != scheme:
        raise _invalid(
            "resource.loadBalancingScheme",
            f"{scheme} does not match that of '{service.name}', "
            f"{service.outputs.get('loadBalancingScheme')}.",
        )


def check_probes(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject health checks that Cloud DNS cannot use (rule cloud.dns-health-check)."""
    del store, found
    if not inputs.get("sourceRegions"):
        return
    if int(inputs.get("checkIntervalSec") or 5) < _LEAST_SECONDS:
        raise _invalid("resource.checkIntervalSec", f"Must be at least {_LEAST_SECONDS}.")
    for kind in ("sslHealthCheck", "http2HealthCheck", "grpcHealthCheck"):
        if inputs.get(kind):
            raise _invalid(f"resource.{kind}", "Not supported with sourceRegions.")
    for kind in ("httpHealthCheck", "httpsHealthCheck", "tcpHealthCheck"):
        if get_path(inputs, f"{kind}.proxyHeader") not in (None, "", "NONE"):
            raise _invalid(f"resource.{kind}.proxyHeader", "Not supported with sourceRegions.")


def check_policy(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject targets that a record's policy cannot check (rule cloud.dns-routing)."""
    del store
    zone, check = _target(found, "managedZone"), _target(found, "routingPolicy.healthCheck")
    policy = as_object(inputs.get("routingPolicy")) or {}
    has_check = bool(policy.get("healthCheck"))
    if check is not None and not check.outputs.get("sourceRegions"):
        raise _invalid("routingPolicy.healthCheck", f"'{check.name}' has no sourceRegions.")
    is_private = zone is not None and zone.outputs.get("visibility") == "private"
    for at, item in enumerate(_objects(policy.get("geos"))):
        where = f"routingPolicy.geo.items[{at}].healthCheckedTargets"
        targets = as_object(item.get("healthCheckedTargets")) or {}
        external, inner = targets.get("externalEndpoints"), targets.get("internalLoadBalancers")
        if external and not has_check:
            raise _invalid(where, "External endpoints need routingPolicy.healthCheck.")
        if inner and has_check:
            raise _invalid(where, "Internal load balancers take no routingPolicy.healthCheck.")
        if zone is not None and external and is_private:
            raise _invalid(where, "External endpoints need a public zone.")
        if zone is not None and inner and not is_private:
            raise _invalid(where, "Internal load balancers need a private zone.")
        for target in _objects(inner):
            _check_balancer(f"{where}.internalLoadBalancers", target)


def _check_balancer(where: str, target: Json) -> None:
    kind, region = target.get("loadBalancerType"), target.get("region")
    if kind not in _BALANCERS:
        raise _invalid(f"{where}.loadBalancerType", f"Must be one of {', '.join(_BALANCERS)}.")
    if (kind == _CROSS_REGION) == bool(region):
        says = "Must be empty" if region else "Must be set"
        raise _invalid(f"{where}.region", f"{says} with the type {kind}.")


def _named(store: Store, token: str, record: Record, field: str) -> Record | None:
    """Return the resources that a field of a resource references."""
    name = last_segment(str(record.inputs.get(field) or ""))
    for each in store.find(token, name):
        if any(use.id == record.id for use in store.users(token, each.id)):
            return each
    return None


def _networks(store: Store, records: Iterable[Record | None]) -> set[str]:
    """Return the paths of networks and of the networks of subnetworks."""
    given = [each for each in records if each is not None]
    own = {each.id for each in given if each.type == NETWORK}
    of_subnetworks = {
        network.id
        for network in store.find(NETWORK)
        for each in given
        if each.type == SUBNETWORK and _uses(store, each, network)
    }
    return own | of_subnetworks


def _uses(store: Store, record: Record, target: Record) -> bool:
    return any(use.id == record.id for use in store.users(target.type, target.id))


def _target(found: list[Link], path: str) -> Record | None:
    return next((link.target for link in found if link.path == path), None)


def _region(record: Record) -> str:
    known = last_segment(str(record.outputs.get("region") or ""))
    parts = record.id.split("/")
    return known or (parts[parts.index("regions") + 1] if "regions" in parts else "")


def _objects(value: Any) -> Iterator[Json]:
    for each in as_list(value) or []:
        found = as_object(each)
        if found is not None:
            yield found


def _invalid(field: str, says: str) -> CloudError:
    return CloudError(400, f"Invalid value for field '{field}': {says}", "invalid")

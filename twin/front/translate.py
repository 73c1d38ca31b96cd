"""Translation of the cloud's resources to global load balancers. Pure.

Forwarding rule → proxy → URL map → backend services → groups for Private Service Connect → service
attachments → forwarding rules of regional gateways, whose addresses the twin binds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from twin.cluster.gateway.translation.model import Certificate
from twin.front.client_certificates import unknown_variables, validation
from twin.front.cloud import Cloud, objects
from twin.front.model import Front, Outliers, Path, Region, Service
from twin.providers.gcp.resources.security_policies import enforced
from twin.providers.gcp.resources.service_connections import connection_of
from twin.wire.property_values import Json, as_list, as_object, get_path, last_segment
from twin.world.run_services import SERVICE, Place
from twin.world.store import Record

_RULE: Final = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
_PROXIES: Final = {
    "gcp:compute/targetHttpsProxy:TargetHttpsProxy",
    "gcp:compute/targetHttpProxy:TargetHttpProxy",
}
_MAP: Final = {"gcp:compute/uRLMap:URLMap"}
_SERVICE: Final = {"gcp:compute/backendService:BackendService"}
_GROUP: Final = {"gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"}
_ATTACHMENT: Final = {"gcp:compute/serviceAttachment:ServiceAttachment"}
_POLICY: Final = {"gcp:compute/securityPolicy:SecurityPolicy"}
_RUN_SERVICE: Final = {SERVICE}
_SERVERLESS_SECONDS: Final = 3600.0
"""Limit of the load balancer for backends without one of their own
(docs.cloud.google.com/load-balancing/docs/negs/serverless-neg-concepts)."""
_GATEWAY_RULE: Final = {"gcp:compute/forwardingRule:ForwardingRule"}
_CERTIFICATE_MAP: Final = {"gcp:certificatemanager/certificateMap:CertificateMap"}
_ENTRY: Final = "gcp:certificatemanager/certificateMapEntry:CertificateMapEntry"

CertificateNamed = Callable[[str, str], Certificate | None]
"""Returns the ACTIVE global certificate with a name, for an address; None if there is none."""


PlaceOf = Callable[[str], Place | None]
"""Returns where the Cloud Run service with an ID runs; None if it does not."""


def fronts(
    records: Iterable[Record],
    certificate_named: CertificateNamed,
    place_of: PlaceOf = lambda _: None,
) -> Iterator[Front]:
    """Yield the global load balancers of a cloud."""
    cloud = Cloud.of(records)
    for rule in cloud.records:
        if rule.type == _RULE:
            front = _front(cloud, rule, certificate_named, place_of)
            if front is not None:
                yield front


def _front(
    cloud: Cloud, rule: Record, certificate_named: CertificateNamed, place_of: PlaceOf
) -> Front | None:
    proxy = cloud.named(rule.inputs.get("target"), _PROXIES)
    url_map = None if proxy is None else cloud.named(proxy.inputs.get("urlMap"), _MAP)
    if proxy is None or url_map is None:
        return None
    address = str(rule.inputs.get("ipAddress") or rule.outputs.get("ipAddress"))
    problems: list[str] = []
    certificate = None
    is_tls = "Https" in proxy.type
    if is_tls:
        certificate = _certificate(cloud, proxy, address, certificate_named)
        if certificate is None:
            problems.append("its certificate map has no ACTIVE certificate")
    default, retries, paths = _routes(cloud, url_map)
    hosts = tuple(_hosts(cloud, url_map))
    reached = (*paths, *(path for _, found in hosts for path in found))
    names = [name for name in (default, *(path.service for path in reached)) if name is not None]
    services = [_service(cloud, name, problems, place_of) for name in dict.fromkeys(names)]
    if sum(each is not None and each.signs_in for each in services) > 1:
        problems.append("the twin has Identity-Aware Proxy for one backend service only")
    return Front(
        name=rule.name,
        address=address,
        port=int(str(rule.inputs.get("portRange", "443")).partition("-")[0]),
        services=tuple(each for each in services if each is not None),
        default=default,
        retries=retries,
        paths=paths,
        hosts=hosts,
        is_tls=is_tls,
        certificate=certificate,
        validation=validation(cloud, proxy) if is_tls else None,
        problems=tuple(problems),
    )


def _certificate(
    cloud: Cloud, proxy: Record, address: str, certificate_named: CertificateNamed
) -> Certificate | None:
    kept = cloud.named(proxy.inputs.get("certificateMap"), _CERTIFICATE_MAP)
    for entry in cloud.records:
        if entry.type != _ENTRY or kept is None:
            continue
        if last_segment(str(entry.inputs.get("map"))) != kept.name:
            continue
        for name in as_list(entry.inputs.get("certificates")) or []:
            found = certificate_named(str(name), address)
            if found is not None:
                return found
    return None


def _routes(cloud: Cloud, url_map: Record) -> tuple[str | None, int, tuple[Path, ...]]:
    """Return default service, retries and paths of the matcher for every host."""
    matchers = {str(each.get("name")): each for each in objects(url_map.inputs, "pathMatchers")}
    for rule in objects(url_map.inputs, "hostRules"):
        matcher = matchers.get(str(rule.get("pathMatcher")))
        if matcher is None or "*" not in (as_list(rule.get("hosts")) or []):
            continue
        rules = sorted(objects(matcher, "routeRules"), key=_priority)
        paths = tuple(path for each in rules for path in _paths(cloud, each))
        default = _id(cloud, matcher.get("defaultService"))
        return default, _retries(matcher, "defaultRouteAction"), paths
    return _id(cloud, url_map.inputs.get("defaultService")), 0, ()


def _hosts(cloud: Cloud, url_map: Record) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Yield the hostnames with a path matcher of their own, and its default as a path."""
    matchers = {str(each.get("name")): each for each in objects(url_map.inputs, "pathMatchers")}
    for rule in objects(url_map.inputs, "hostRules"):
        matcher = matchers.get(str(rule.get("pathMatcher"))) or {}
        service = _id(cloud, matcher.get("defaultService"))
        for host in as_list(rule.get("hosts")) or []:
            if host == "*" or service is None:
                continue
            replaced = get_path(matcher, "defaultRouteAction.urlRewrite.hostRewrite")
            plain = Path(
                prefix="/",
                service=service,
                host=None if replaced is None else str(replaced),
                retries=_retries(matcher, "defaultRouteAction"),
            )
            rules = sorted(objects(matcher, "routeRules"), key=_priority)
            paths = [path for each in rules for path in _paths(cloud, each)]
            yield str(host), (*paths, plain)


def _paths(cloud: Cloud, rule: Json) -> Iterator[Path]:
    service = _id(cloud, rule.get("service"))
    for match in objects(rule, "matchRules"):
        if service is not None and match.get("prefixMatch"):
            rewrite = get_path(rule, "routeAction.urlRewrite.pathPrefixRewrite")
            yield Path(
                prefix=str(match["prefixMatch"]),
                service=service,
                rewrite=None if rewrite is None else str(rewrite),
                retries=_retries(rule, "routeAction"),
            )


def _priority(rule: Json) -> int:
    return int(rule.get("priority", 0))


def _retries(value: Json, action: str) -> int:
    """Return the retries of requests that reached no gateway, the only supported condition."""
    asked = as_list(get_path(value, f"{action}.retryPolicy.retryConditions")) or []
    number = get_path(value, f"{action}.retryPolicy.numRetries")
    return int(number or 1) if "connect-failure" in asked else 0


def _id(cloud: Cloud, value: object) -> str | None:
    found = cloud.named(value, _SERVICE)
    return None if found is None else found.id


def _service(
    cloud: Cloud, identifier: str, problems: list[str], place_of: PlaceOf
) -> Service | None:
    record = cloud.named(identifier, _SERVICE)
    if record is None:
        return None
    regions: list[Region] = []
    is_serverless = False
    for backend in objects(record.inputs, "backends"):
        if backend.get("capacityScaler") == 0:
            continue  # drained
        found = _region(cloud, backend, place_of)
        is_serverless = is_serverless or _is_serverless(cloud, backend)
        if isinstance(found, Region):
            regions.append(found)
        else:
            problems.append(found)
    detection = as_object(record.inputs.get("outlierDetection"))
    headers = tuple(_headers(record))
    problems.extend(
        f"{record.name}: the twin does not replace {{{name}}} in custom headers"
        for name in unknown_variables(headers)
    )
    policy = cloud.named(record.inputs.get("securityPolicy"), _POLICY)
    return Service(
        name=identifier,
        armor=() if policy is None else enforced(policy.inputs),
        regions=tuple(regions),
        is_tls=record.inputs.get("protocol") == "HTTPS" and not is_serverless,
        headers=headers,
        outliers=None if detection is None else _outliers(detection),
        timeout_seconds=_SERVERLESS_SECONDS
        if is_serverless
        else float(record.inputs.get("timeoutSec") or 30),
        signs_in=get_path(record.inputs, "iap.enabled") is True,
    )


def _is_serverless(cloud: Cloud, backend: Json) -> bool:
    group = cloud.named(backend.get("group"), _GROUP)
    return group is not None and group.inputs.get("networkEndpointType") == "SERVERLESS"


def _instance(cloud: Cloud, group: Record, place_of: PlaceOf) -> Region | str:
    """Return the Cloud Run service of a group, or the reason why it has none."""
    region = last_segment(str(group.inputs.get("region")))
    service = str(get_path(group.inputs, "cloudRun.service"))
    path = f"projects/{group.project}/locations/{region}/services/{service}"
    record = cloud.named(path, _RUN_SERVICE)
    place = None if record is None else place_of(record.id)
    if place is None:
        return f"{group.name}: the service {service} of {region} does not run"
    return Region(region, place.host, place.port)


def _region(cloud: Cloud, backend: Json, place_of: PlaceOf) -> Region | str:
    """Return the gateway of a backend, or the reason why it has none."""
    group = cloud.named(backend.get("group"), _GROUP)
    if group is None:
        return f"{backend.get('group')}: there is no such group"
    if _is_serverless(cloud, backend):
        return _instance(cloud, group, place_of)
    attachment = cloud.named(group.inputs.get("pscTargetService"), _ATTACHMENT)
    if attachment is None:
        return f"{group.name}: its service attachment does not exist"
    connection = connection_of(attachment, group)
    if connection is None or not connection.is_open:
        status = "not decided yet" if connection is None else connection.status
        return f"{group.name}: its connection to {attachment.name} is {status}"
    rule = cloud.named(attachment.inputs.get("targetService"), _GATEWAY_RULE)
    if rule is None or not rule.outputs.get("ipAddress"):
        return f"{group.name}: the forwarding rule behind {attachment.name} is gone"
    if rule.outputs.get("allowGlobalAccess") is not True:
        return f"{group.name}: {rule.name} has no global access"
    port = get_path(group.inputs, "pscData.producerPort") or 443
    region = last_segment(str(group.inputs.get("region")))
    address = str(rule.outputs["ipAddress"])
    return Region(region, address, int(port), connection.source)


def _headers(service: Record) -> Iterator[tuple[str, str]]:
    for header in as_list(service.inputs.get("customRequestHeaders")) or []:
        name, _, value = str(header).partition(":")
        yield name.strip().lower(), value.strip()


def _outliers(detection: Json) -> Outliers:
    usual = Outliers()

    def number(key: str, default: int) -> int:
        return int(str(detection.get(key, default)))

    interval = get_path(detection, "interval.seconds")
    ejection = get_path(detection, "baseEjectionTime.seconds")
    return Outliers(
        errors=number("consecutiveErrors", usual.errors),
        errors_percent=number("enforcingConsecutiveErrors", usual.errors_percent),
        failures=number("consecutiveGatewayFailure", usual.failures),
        failures_percent=number("enforcingConsecutiveGatewayFailure", usual.failures_percent),
        interval_seconds=float(interval or usual.interval_seconds),
        ejection_seconds=float(ejection or usual.ejection_seconds),
        most_percent=number("maxEjectionPercent", usual.most_percent),
    )

"""A global load balancer as Envoy listeners and clusters.

A header states the region of a client, because the twin runs in one place. Each backend service has
one Envoy cluster per client region, in which nearer regions have a higher priority.
"""

from typing import Any, Final

from gke_inference.catalogue.nearness import by_nearness
from twin.cluster.gateway.envoy.armor import FILTER, armor_filter, armor_route
from twin.cluster.gateway.envoy.messages import (
    FRONT_SOURCE,
    PUBLISHED_HEADER,
    EnvoyJson,
    append_own_address,
    extension,
    typed,
)
from twin.front.client_certificates import describe, header_changes, tls_settings
from twin.front.model import Front, Outliers, Path, Region, Service
from twin.providers.gcp.effects import sign_in
from twin.world.nearness import CLIENT_REGION

SERVED_BY: Final = "x-twin-served-by"
"""Response header: address of the gateway that handled the request."""
_SIGN_IN: Final = "twin.sign_in"
_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_ELSEWHERE: Final = "elsewhere"
_PREVIOUS: Final = (
    "type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3."
    "PreviousPrioritiesConfig"
)


def cluster_name(service: str, client: str) -> str:
    """Return the name of a service's cluster for clients of a region."""
    return f"{service}@{client}"


def clusters(front: Front, sign_in_port: int | None = None) -> list[EnvoyJson]:
    """Return the clusters of a load balancer.

    Args:
        front: The load balancer.
        sign_in_port: Port of the twin's Identity-Aware Proxy.
    """
    found = [
        _cluster(service, client)
        for service in front.services
        for client in [_ELSEWHERE, *_clients(front)]
    ]
    if sign_in_port is not None:
        found.append(_sign_in_cluster(sign_in_port))
    return found


def _sign_in_cluster(port: int) -> EnvoyJson:
    socket = {"address": "127.0.0.1", "port_value": port}
    endpoint = {"endpoint": {"address": {"socket_address": socket}}}
    return {
        "name": _SIGN_IN,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {
            "cluster_name": _SIGN_IN,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
    }


def _sign_in_filter(service: Service) -> EnvoyJson:
    """Return the filter that asks Identity-Aware Proxy, without the bodies of requests."""
    prefix = f"{sign_in.CHECK_PATH}{service.project}/{service.name.rpartition('/')[2]}"

    def exact(names: tuple[str, ...]) -> EnvoyJson:
        return {"patterns": [{"exact": name} for name in names]}

    return extension(
        _SIGN_IN,
        "ext_authz",
        http_service={
            "server_uri": {"uri": "http://127.0.0.1", "cluster": _SIGN_IN, "timeout": "5s"},
            "path_prefix": prefix,
            "authorization_response": {"allowed_upstream_headers": exact(sign_in.HEADERS)},
        },
        allowed_headers=exact((sign_in.PERSON, "accept")),
    )


def _clients(front: Front) -> list[str]:
    """Return the regions that clients can name: those with a backend of any service."""
    return sorted({region.name for service in front.services for region in service.regions})


def _cluster(service: Service, client: str) -> EnvoyJson:
    name = cluster_name(service.name, client)
    regions = {region.name: region for region in service.regions}
    ordered = list(regions) if client == _ELSEWHERE else by_nearness(client, regions)
    found: EnvoyJson = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "upstream_bind_config": {"source_address": {"address": FRONT_SOURCE, "port_value": 0}},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [_endpoint(regions[each], at) for at, each in enumerate(ordered)],
        },
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "typed_extension_protocol_options": {_OPTIONS: _protocol(is_tls=service.is_tls)},
    }
    if service.is_tls:
        # by default, Google checks neither name nor issuer of a backend's certificate
        found["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "upstream_tls",
            common_tls_context={"validation_context": {}, "alpn_protocols": ["h2", "http/1.1"]},
        )
    if service.outliers is not None:
        found["outlier_detection"] = _detection(service.outliers)
    return found


def _endpoint(region: Region, priority: int) -> EnvoyJson:
    socket = {"address": region.address, "port_value": region.port}
    return {
        "priority": priority,
        "locality": {"region": region.name},
        "lb_endpoints": [{"endpoint": {"address": {"socket_address": socket}}}],
    }


def _protocol(*, is_tls: bool) -> EnvoyJson:
    protocol: dict[str, Any] = {"explicit_http_config": {"http_protocol_options": {}}}
    if is_tls:
        protocol = {
            "auto_config": {"http_protocol_options": {}, "http2_protocol_options": {}},
            "upstream_http_protocol_options": {"auto_sni": True},
        }
    return typed("http_options", **protocol)


def _detection(outliers: Outliers) -> EnvoyJson:
    return {
        "consecutive_gateway_failure": outliers.failures,
        "enforcing_consecutive_gateway_failure": outliers.failures_percent,
        "consecutive_5xx": outliers.errors,
        "enforcing_consecutive_5xx": outliers.errors_percent,
        "enforcing_success_rate": 0,
        "interval": f"{outliers.interval_seconds}s",
        "base_ejection_time": f"{outliers.ejection_seconds}s",
        "max_ejection_percent": outliers.most_percent,
    }


def listener(front: Front, access_log: str) -> EnvoyJson:
    """Return the listener of a load balancer."""
    chain: EnvoyJson = {
        "filters": [
            {
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": _connection_manager(front, access_log),
            }
        ]
    }
    if front.certificate is not None:
        settings, common = tls_settings(front.validation)
        chain["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "downstream_tls",
            **settings,
            common_tls_context={
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": [
                    {
                        "certificate_chain": {"inline_string": front.certificate.chain},
                        "private_key": {"inline_string": front.certificate.key},
                    }
                ],
                **common,
            },
        )
    return {
        "name": front.name,
        "address": {"socket_address": {"address": front.address, "port_value": front.port}},
        "filter_chains": [chain],
    }


def _connection_manager(front: Front, access_log: str) -> EnvoyJson:
    fields = {
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
        "client_region": f"%REQ({CLIENT_REGION})%",
        "service": "%UPSTREAM_CLUSTER%",
        "gateway": "%UPSTREAM_HOST%",
        "code": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "tries": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        "duration_ms": "%DURATION%",
    }
    return typed(
        "hcm",
        stat_prefix=front.name,
        route_config={"name": front.name, "virtual_hosts": _hosts(front)},
        http_filters=[
            describe(front.validation),
            armor_filter(),
            *([] if front.guarded is None else [_sign_in_filter(front.guarded)]),
            append_own_address(front.address),
            extension("envoy.filters.http.router", "router"),
        ],
        use_remote_address=True,
        normalize_path=True,
        server_header_transformation="PASS_THROUGH",
        via="1.1 google",
        stream_idle_timeout="0s",
        access_log=[
            extension(
                "envoy.access_loggers.file",
                "access_log",
                path=access_log,
                log_format={"json_format": fields},
            )
        ],
    )


def _hosts(front: Front) -> list[EnvoyJson]:
    """Return the hosts of a load balancer: single hostnames, and all others."""
    plain = _host(front)
    named = [
        {
            **plain,
            "name": f"front-{host}",
            "domains": [host, f"{host}:*"],
            "routes": [route for path in paths for route in _by_client(front, path)],
        }
        for host, paths in front.hosts
    ]
    return [*named, plain]


def _host(front: Front) -> EnvoyJson:
    everything: EnvoyJson = {"prefix": "/"}
    if front.default is None:
        redirect = {"https_redirect": True, "response_code": "PERMANENT_REDIRECT"}
        routes: list[EnvoyJson] = [{"match": everything, "redirect": redirect}]
    else:
        plain = Path(prefix="/", service=front.default, retries=front.retries)
        routes = [route for path in (*front.paths, plain) for route in _by_client(front, path)]
    return {
        "name": "front",
        "domains": ["*"],
        "routes": routes,
        "request_headers_to_add": [
            {
                "header": {"key": PUBLISHED_HEADER, "value": _published(front)},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "response_headers_to_add": [
            {"header": {"key": SERVED_BY, "value": "%UPSTREAM_REMOTE_ADDRESS%"}}
        ],
    }


def _published(front: Front) -> str:
    """Return the source that each gateway sees instead of the front's own."""
    regions = [region for service in front.services for region in service.regions]
    seen = {each.address: each.source for each in regions if each.source is not None}
    return ",".join(f"{address}={source}" for address, source in seen.items())


def _by_client(front: Front, path: Path) -> list[EnvoyJson]:
    """Return the routes of a path: one per client region, and one for all others."""
    service = next(each for each in front.services if each.name == path.service)

    def action(client: str) -> EnvoyJson:
        found: EnvoyJson = {
            "cluster": cluster_name(path.service, client),
            "timeout": f"{service.timeout_seconds}s",
        }
        if path.rewrite is not None:
            found["prefix_rewrite"] = path.rewrite
        if path.host is not None:
            found["host_rewrite_literal"] = path.host
        if path.retries:
            found["retry_policy"] = {
                "retry_on": "connect-failure,refused-stream",
                "num_retries": path.retries,
                "retry_priority": {
                    "name": "envoy.retry_priorities.previous_priorities",
                    "typed_config": {"@type": _PREVIOUS, "update_frequency": 1},
                },
            }
        return found

    changes = header_changes(service.headers)
    if front.guarded is not None and not service.signs_in:
        changes["typed_per_filter_config"] = {_SIGN_IN: typed("ext_authz_route", disabled=True)}
    if service.armor:
        filters: EnvoyJson = changes.setdefault("typed_per_filter_config", {})
        filters[FILTER] = armor_route(service.name, service.armor)
    match: EnvoyJson = {"prefix": path.prefix}
    routes: list[EnvoyJson] = []
    for client in _clients(front):
        header = {"name": CLIENT_REGION, "string_match": {"exact": client}}
        found = {"match": {**match, "headers": [header]}, "route": action(client)}
        routes.append({**found, **changes})
    return [*routes, {"match": match, "route": action(_ELSEWHERE), **changes}]

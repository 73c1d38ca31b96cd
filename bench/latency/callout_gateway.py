"""Envoy with the callout in front of one engine: its configuration, for tests and figures."""

from typing import Any

_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_MANAGER = (
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
    ".HttpConnectionManager"
)


def bootstrap(
    port: int,
    admin: int,
    callouts: list[int],
    engine: int,
    plain_port: int | None = None,
    router: int | None = None,
) -> dict[str, Any]:
    """Return Envoy's whole configuration.

    Args:
        port: Port for requests that pass the callouts.
        admin: Port of Envoy's admin interface.
        callouts: gRPC ports of the replicas.
        engine: Port of the engine.
        plain_port: Port for requests without a callout; None for none.
        router: gRPC port of a body router, which is called before the callouts; None for none.
    """
    processors = ["callout"] if router is None else ["router", "callout"]
    listeners = [_listener("gateway", port, processors)]
    if plain_port is not None:
        listeners.append(_listener("plain", plain_port, []))
    programs = [_callout_cluster("callout", callouts)]
    programs += [] if router is None else [_callout_cluster("router", [router])]
    return {
        "admin": {"address": _address(admin)},
        "static_resources": {
            "listeners": listeners,
            "clusters": [*programs, _cluster("engine", [engine])],
        },
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _cluster(name: str, ports: list[int]) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(port)}} for port in ports]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _callout_cluster(name: str, ports: list[int]) -> dict[str, Any]:
    """Return the cluster of callouts, called like Google's load balancer: unverified HTTP/2 TLS."""
    options: dict[str, Any] = {
        "@type": f"type.googleapis.com/{_OPTIONS}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    tls = {"@type": _TLS, "common_tls_context": {"alpn_protocols": ["h2"]}}
    check: dict[str, Any] = {
        "interval": "0.2s",
        "no_traffic_interval": "0.2s",
        "timeout": "1s",
        "healthy_threshold": 1,
        "unhealthy_threshold": 1,
        "tcp_health_check": {},
    }
    return {
        **_cluster(name, ports),
        "typed_extension_protocol_options": {_OPTIONS: options},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "health_checks": [check],
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
    }


def _listener(name: str, port: int, processors: list[str]) -> dict[str, Any]:
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_HTTP}.router.v3.Router"},
    }
    manager = {
        "@type": _MANAGER,
        "stat_prefix": name,
        "stream_idle_timeout": "0s",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {"match": {"prefix": "/"}, "route": {"cluster": "engine", "timeout": "0s"}}
                    ],
                }
            ]
        },
        "http_filters": [*(_processor(one) for one in processors), router],
    }
    kind = "envoy.filters.network.http_connection_manager"
    return {
        "name": name,
        "address": _address(port),
        "filter_chains": [{"filters": [{"name": kind, "typed_config": manager}]}],
    }


def _processor(name: str) -> dict[str, Any]:
    """Return the filter of a program. As on Google Cloud, the body router sees no responses."""
    sees = "FULL_DUPLEX_STREAMED" if name == "callout" else "NONE"
    headers = "SEND" if name == "callout" else "SKIP"
    return {
        "name": name,
        "typed_config": {
            "@type": f"{_HTTP}.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": name}},
            "message_timeout": "10s",
            "processing_mode": {
                "request_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_header_mode": headers,
                "response_body_mode": sees,
                "response_trailer_mode": headers,
            },
        },
    }

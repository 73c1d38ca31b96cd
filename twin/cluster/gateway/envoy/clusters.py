"""Backends and processors as Envoy clusters and endpoint lists."""

from pathlib import Path

from twin.cluster.gateway.envoy.messages import ENDPOINT_HEADER, EnvoyJson, extension, file_name
from twin.cluster.gateway.translation.model import (
    Backend,
    Endpoint,
    GatewayModel,
    HealthCheck,
    Processor,
)
from twin.world.rules import all_rules

_UNLIMITED = {
    "thresholds": [
        {"max_connections": 40_000, "max_pending_requests": 40_000, "max_requests": 40_000}
    ]
}
_PROBED_ONLY: EnvoyJson = {
    # Google's load balancer never uses endpoints that fail their check, not even if all fail
    "healthy_panic_threshold": {"value": 0},
    # otherwise a probe result is batched with others for up to a second
    "update_merge_window": "0s",
}
_PROBE: EnvoyJson = {"probe": True}
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def clusters_of(model: GatewayModel, folder: Path) -> dict[str, EnvoyJson]:
    """Return the clusters of a gateway by name; `folder` contains their endpoint files."""
    clusters = {b.name: _backend_cluster(b, folder) for b in model.backends}
    for processor in _processors(model):
        clusters[processor.name] = _processor_cluster(processor, folder)
    return clusters


def endpoints_of(model: GatewayModel) -> dict[str, EnvoyJson]:
    """Return the endpoint lists of a gateway by cluster name."""
    found = {
        b.name: _tiers(b) if b.tiers else _endpoints(b.name, b.endpoints, b.health)
        for b in model.backends
    }
    for processor in _processors(model):
        found[processor.name] = _endpoints(processor.name, processor.endpoints, processor.health)
    return found


def with_endpoints(cluster: EnvoyJson, endpoints: EnvoyJson) -> EnvoyJson:
    """Return a cluster that contains its endpoints instead of the path of their file."""
    kept = {key: value for key, value in cluster.items() if key != "eds_cluster_config"}
    return {**kept, "type": "STATIC", "load_assignment": endpoints}


def _processors(model: GatewayModel) -> list[Processor]:
    pickers = [backend.picker for backend in model.backends if backend.picker]
    chains = (*model.routing_chains, *model.traffic_chains)
    return [*(each for chain in chains for each in chain.processors), *pickers]


def _endpoints(name: str, endpoints: tuple[Endpoint, ...], health: HealthCheck | None) -> EnvoyJson:
    def one(endpoint: Endpoint) -> EnvoyJson:
        found: EnvoyJson = {"address": _socket(endpoint)}
        if health is not None and health.port is not None:
            found["health_check_config"] = {"port_value": endpoint.probe_port or health.port}
        return {"endpoint": found}

    return {
        "cluster_name": name,
        "endpoints": [{"lb_endpoints": [one(e) for e in sorted(set(endpoints))]}],
    }


def _tiers(backend: Backend) -> EnvoyJson:
    """Return the endpoints of a backend by priority, with weights."""

    def one(endpoint: Endpoint, weight: int) -> EnvoyJson:
        return {"endpoint": {"address": _socket(endpoint)}, "load_balancing_weight": weight}

    return {
        "cluster_name": backend.name,
        "endpoints": [
            {
                "priority": priority,
                "locality": {"region": f"tier-{priority}"},
                "lb_endpoints": [one(endpoint, weight) for endpoint, weight in tier],
            }
            for priority, tier in enumerate(backend.tiers)
        ],
    }


def _socket(endpoint: Endpoint) -> EnvoyJson:
    return {"socket_address": {"address": endpoint.address, "port_value": endpoint.port}}


def _cluster(name: str, folder: Path) -> EnvoyJson:
    path = str(folder / file_name(name))
    return {
        "name": name,
        "type": "EDS",
        "connect_timeout": "5s",
        "circuit_breakers": _UNLIMITED,
        "eds_cluster_config": {
            "eds_config": {"resource_api_version": "V3", "path_config_source": {"path": path}}
        },
    }


def _processor_cluster(processor: Processor, folder: Path) -> EnvoyJson:
    """Return the cluster of a processor.

    A body that is being sent to a processor cannot be taken back (envoyproxy/envoy pull request
    41276). Only a processor that is known to be unavailable can be bypassed. Probes do not use TLS:
    they reach another port than the processor's, or only connect.
    """
    cluster = _cluster(processor.name, folder)
    check = _own_check() if processor.health is None else _health_check(processor.health)
    cluster["health_checks"] = [{**check, "transport_socket_match_criteria": _PROBE}]
    cluster["common_lb_config"] = _PROBED_ONLY
    cluster["ignore_health_on_host_removal"] = True
    if processor.tls:  # pickers serve a certificate they signed themselves
        cluster["transport_socket"] = _tls()
        cluster["transport_socket_matches"] = [_plain_probe()]
    cluster["typed_extension_protocol_options"] = _protocol(
        http2=True, stream_seconds=processor.stream_seconds
    )
    return cluster


def _own_check() -> EnvoyJson:
    seconds = f"{all_rules()['gateway.extension.probe'].value}s"
    return {
        "interval": seconds,
        "no_traffic_interval": seconds,
        "timeout": "2s",
        "healthy_threshold": 1,
        "unhealthy_threshold": 1,
        "tcp_health_check": {},
    }


def _plain_probe() -> EnvoyJson:
    """Return the probe's transport: without TLS, because a handshake takes 10 ms of a core."""
    plain = extension("envoy.transport_sockets.raw_buffer", "raw_buffer")
    return {"name": "probe", "match": _PROBE, "transport_socket": plain}


def _tls() -> EnvoyJson:
    return extension(
        "envoy.transport_sockets.tls",
        "upstream_tls",
        common_tls_context={"validation_context": {}, "alpn_protocols": ["h2"]},
    )


def _protocol(*, http2: bool, stream_seconds: int | None = None) -> EnvoyJson:
    explicit: EnvoyJson = {"http2_protocol_options": {}} if http2 else {"http_protocol_options": {}}
    limit: EnvoyJson = {}
    if stream_seconds is not None:  # rule gateway.extension.stream
        limit["common_http_protocol_options"] = {"max_stream_duration": f"{stream_seconds}s"}
    options = extension(_OPTIONS, "http_options", explicit_http_config=explicit, **limit)
    return {_OPTIONS: options["typed_config"]}


def _least_request() -> EnvoyJson:
    return {
        "typed_extension_config": extension(
            "envoy.load_balancing_policies.least_request", "least_request"
        )
    }


def _backend_cluster(backend: Backend, folder: Path) -> EnvoyJson:
    """Return the cluster of a backend.

    A picker selects the endpoint. If it selects none (it failed open), or one that no longer exists
    or is unhealthy, the least loaded endpoint is used.
    """
    cluster = _cluster(backend.name, folder)
    policies = [_least_request()]
    if backend.picker is not None:
        override = extension(
            "envoy.load_balancing_policies.override_host",
            "override_host",
            override_host_sources=[{"header": ENDPOINT_HEADER}],
            fallback_policy={"policies": policies},
        )
        policies = [{"typed_extension_config": override}]
    cluster["load_balancing_policy"] = {"policies": policies}
    cluster["common_lb_config"] = _PROBED_ONLY
    cluster["ignore_health_on_host_removal"] = True
    if backend.protocol == "https":
        cluster["transport_socket"] = _tls()
    cluster["typed_extension_protocol_options"] = _protocol(http2=backend.protocol != "http")
    if backend.health is not None:
        cluster["health_checks"] = [_health_check(backend.health)]
    return cluster


def _health_check(check: HealthCheck) -> EnvoyJson:
    found: EnvoyJson = {
        "interval": f"{check.interval_seconds}s",
        "no_traffic_interval": f"{check.interval_seconds}s",
        "timeout": f"{check.timeout_seconds}s",
        "healthy_threshold": check.healthy_threshold,
        "unhealthy_threshold": check.unhealthy_threshold,
        "always_log_health_check_failures": True,
        "reuse_connection": False,
    }
    if check.kind == "GRPC":
        found["grpc_health_check"] = {"service_name": check.grpc_service}
    elif check.kind == "TCP":
        found["tcp_health_check"] = {}
    else:
        found["http_health_check"] = {"path": check.path, "host": check.host or "gke-health-check"}
    return found

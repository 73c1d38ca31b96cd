"""Spans that the gateway's Envoy sends to the cluster's collector.

Google's load balancers pass `traceparent` on but send no spans. The twin's do, so that a trace
shows the time in the gateway.
"""

from twin.cluster.gateway.envoy.messages import EnvoyJson

CLUSTER = "gke.opentelemetry"
_TRACER = "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig"
_HTTP2: EnvoyJson = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}


def collector_cluster(address: str) -> dict[str, EnvoyJson]:
    """Return the Envoy cluster of the collector at `HOST:PORT`, by name, if there is one."""
    if not address:
        return {}
    host, port = address.rsplit(":", 1)
    where = {"socket_address": {"address": host, "port_value": int(port)}}
    return {
        CLUSTER: {
            "name": CLUSTER,
            "type": "STATIC",
            "connect_timeout": "1s",
            "load_assignment": {
                "cluster_name": CLUSTER,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": where}}]}],
            },
            "typed_extension_protocol_options": _HTTP2,
        }
    }


def send_spans(listeners: dict[str, EnvoyJson], address: str) -> None:
    """Configure every listener to send a span per request; without a collector, change nothing."""
    if not address:
        return
    tracing: EnvoyJson = {
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": {
                "@type": _TRACER,
                "grpc_service": {"envoy_grpc": {"cluster_name": CLUSTER}, "timeout": "1s"},
                "service_name": "gateway",
            },
        },
        "random_sampling": {"value": 100.0},
        "spawn_upstream_span": True,
    }
    for listener in listeners.values():
        for chain in listener["filter_chains"]:
            for part in chain["filters"]:
                part["typed_config"]["tracing"] = tracing

"""Where spans go: the collector of Managed OpenTelemetry, which hands them to Cloud Trace.

GKE runs it in each cluster whose `managed_opentelemetry_config` asks for it; it needs no identity
of the sender. Documented in docs.cloud.google.com/kubernetes-engine/docs/how-to/managed-otel-gke.
"""

COLLECTOR = "http://opentelemetry-collector.gke-managed-otel.svc.cluster.local:4317"
"""OTLP over gRPC, without TLS inside the cluster."""
MANAGED_SCOPE = "COLLECTION_AND_INSTRUMENTATION_COMPONENTS"


def sampling_environment(service: str, percent: float) -> dict[str, str]:
    """Returns the variables by which an OpenTelemetry SDK samples.

    What a caller decided in its `traceparent` holds; the share is of requests without one.
    """
    return {
        "OTEL_SERVICE_NAME": service,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{percent / 100:g}",
    }

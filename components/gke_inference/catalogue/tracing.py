"""Export of spans: the collector of Managed OpenTelemetry, which forwards them to Cloud Trace.

GKE runs it in each cluster with `managed_opentelemetry_config`; senders need no identity. See
docs.cloud.google.com/kubernetes-engine/docs/how-to/managed-otel-gke.
"""

COLLECTOR = "http://opentelemetry-collector.gke-managed-otel.svc.cluster.local:4317"
"""OTLP endpoint over gRPC, without TLS inside the cluster."""
MANAGED_SCOPE = "COLLECTION_AND_INSTRUMENTATION_COMPONENTS"


def sampling_environment(service: str, percent: float) -> dict[str, str]:
    """Return the environment variables for sampling with an OpenTelemetry SDK.

    The decision in a caller's `traceparent` takes precedence. The percentage applies to requests
    without one.
    """
    return {
        "OTEL_SERVICE_NAME": service,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{percent / 100:g}",
    }

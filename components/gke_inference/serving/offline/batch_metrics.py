"""Metrics of own engines of batches and of the workers beside them."""

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.catalogue.engines import engine
from gke_inference.serving.launcher.spec import PORT

_ENGINE_PORT = "http"
"""Name of the engine's port. Managed Prometheus discovers the ports of init containers as well."""
_INTERVAL = "15s"


def pod_monitoring(
    name: str, namespace: str, labels: dict[str, str], worker_port: str, engine_name: str
) -> Manifest:
    """Return the PodMonitoring of a model's jobs: the worker, and what is stored of an engine.

    Args:
        name: Name of the objects of the model's jobs, the label `job` of the series.
        namespace: Namespace of the jobs.
        labels: Labels of the jobs' pods.
        worker_port: Name of the port of the worker's metrics.
        engine_name: Engine of the jobs.
    """
    metrics = engine(engine_name).metrics
    keep = {
        "action": "keep",
        "regex": "|".join(metrics.stored(has_tiers=False)),
        "sourceLabels": ["__name__"],
    }
    return manifest(
        "pod_monitoring",
        name,
        namespace,
        labels=labels,
        spec={
            "endpoints": [
                {"interval": _INTERVAL, "path": "/metrics", "port": worker_port},
                {
                    "interval": _INTERVAL,
                    "metricRelabeling": [keep],
                    "path": metrics.path,
                    "port": _ENGINE_PORT,
                },
            ],
            "selector": {"matchLabels": labels},
            "targetLabels": {"metadata": ["pod", "node", "top_level_controller_name"]},
        },
    )


def network_policy(
    name: str, namespace: str, labels: dict[str, str], collectors: str, worker_port: int
) -> Manifest:
    """Return the NetworkPolicy through which collectors in a namespace reach the jobs' pods."""
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": collectors}}}
    ports = [{"port": port, "protocol": "TCP"} for port in (PORT, worker_port)]
    return manifest(
        "network_policy",
        name,
        namespace,
        labels=labels,
        spec={
            "ingress": [{"from": [peer], "ports": ports}],
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress"],
        },
    )

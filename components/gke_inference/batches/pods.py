"""The pods of batches: the service and the workers, from one image."""

from typing import Any

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    NAME_LABEL,
    Manifest,
    available,
    hardened_pod,
    labels_for,
    manifest,
    spread,
)
from gke_inference.catalogue.load_balancing import HEALTH_CHECK_RANGES
from gke_inference.catalogue.versions import image
from gke_inference.gateway.settings import ProxyCallersArgs

from .program import (
    KEY_FOLDER,
    METRICS_PORT,
    PORT,
    SCRATCH_FOLDER,
    BatchServiceArgs,
)

SERVICE = "batch-service"
"""Value of `app.kubernetes.io/component` on the objects of the service."""
WORKER = "batch-worker"
"""Value of `app.kubernetes.io/component` on the objects of the workers."""
FILE = "settings.json"
_FOLDER = "/etc/batch"
_USER = 1000
_END_SECONDS = 60
"""Time in addition to the longest answer, for a terminating worker to store its results and return
its requests."""
_SCRATCH = "2Gi"
"""Space for several concurrent uploads of 200 MB."""


def service_pod(args: BatchServiceArgs) -> Manifest:
    """Return the spec of the service's pods."""
    container = _container("serve", {"limits": {"memory": "1Gi"}, "requests": _requests("512Mi")})
    container["ports"].insert(0, {"containerPort": PORT, "name": "http"})
    container["livenessProbe"] = {
        "httpGet": {"path": "/health", "port": "http"},
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
    }
    container["volumeMounts"].append({"mountPath": SCRATCH_FOLDER, "name": "scratch"})
    name = args["service_name"]
    access = {"automountServiceAccountToken": True} if args.get("engines") else {}
    return available(
        name,
        {
            **access,  # it creates the jobs of own engines
            "containers": [container],
            "securityContext": hardened_pod(_USER),
            "serviceAccountName": args["service_account"],
            "volumes": [
                _settings(name),
                {"emptyDir": {"sizeLimit": _SCRATCH}, "name": "scratch"},
            ],
        },
    )


def worker_pod(args: BatchServiceArgs, name: str, deadline_seconds: int) -> Manifest:
    """Return the spec of the workers' pods, which finish the requests in progress."""
    container = _container("work", {"limits": {"memory": "1Gi"}, "requests": _requests("256Mi")})
    container["livenessProbe"] = {"periodSeconds": 10, "tcpSocket": {"port": "metrics"}}
    volumes = [_settings(args["service_name"])]
    if secret := args.get("key_secret"):
        container["volumeMounts"].append({"mountPath": KEY_FOLDER, "name": "key", "readOnly": True})
        volumes.append({"name": "key", "secret": {"secretName": secret}})
    return {
        "containers": [container],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": args["service_account"],
        "terminationGracePeriodSeconds": deadline_seconds + _END_SECONDS,
        "topologySpreadConstraints": spread(name)[1:],
        "volumes": volumes,
    }


def _requests(memory: str) -> dict[str, str]:
    return {"cpu": "100m", "memory": memory}


def _container(role: str, resources: Manifest) -> Manifest:
    return {
        "args": [role, f"{_FOLDER}/{FILE}"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "image": image("batch").reference,
        "name": "batch",
        "ports": [{"containerPort": METRICS_PORT, "name": "metrics"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 5},
        "resources": resources,
        "securityContext": HARDENED_CONTAINER,
        "startupProbe": {
            "failureThreshold": 60,
            "periodSeconds": 2,
            "tcpSocket": {"port": "metrics"},
        },
        "volumeMounts": [{"mountPath": _FOLDER, "name": "settings", "readOnly": True}],
    }


def _settings(name: str) -> Manifest:
    return {"configMap": {"name": name}, "name": "settings"}


def network_policy(
    name: str, namespace: str, component: str, callers: ProxyCallersArgs, *, is_called: bool
) -> Manifest:
    """Return the NetworkPolicy of the service's or the workers' pods.

    Args:
        name: Name of their Deployment.
        namespace: Namespace of the pods.
        component: Component label of the pods.
        callers: Allowed callers.
        is_called: Whether the gateway calls them.
    """
    collectors = {"kubernetes.io/metadata.name": callers["metrics_namespace"]}
    ingress: list[dict[str, Any]] = [
        {
            "from": [{"namespaceSelector": {"matchLabels": collectors}}],
            "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
        }
    ]
    if is_called:
        ranges = [callers["proxies_cidr"], *sorted(HEALTH_CHECK_RANGES)]
        ingress.append(
            {
                "from": [{"ipBlock": {"cidr": cidr}} for cidr in ranges],
                "ports": [{"port": PORT, "protocol": "TCP"}],
            }
        )
    return manifest(
        "network_policy",
        name,
        namespace,
        labels=labels_for(name, component),
        spec={
            "ingress": ingress,
            "podSelector": {"matchLabels": {NAME_LABEL: name}},
            "policyTypes": ["Ingress"],
        },
    )

"""Operators built with controller-runtime: one program with webhooks and a certificate.

The operator writes its certificate into a Secret, and the kubelet updates it in all of its pods.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    deployment,
    hardened_pod,
    manifest,
    service,
)

CERTIFICATE_FOLDER: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - upstream's default
CONFIG_FILE: Final = "controller_manager_config.yaml"
HEALTH_PORT: Final = 8081
WEBHOOK_PORT: Final = 9443
ManagerReplicas = Annotated[int, Field(ge=1, le=5)]
"""Replicas of an operator, of which one is active."""
MANAGER_REPLICAS: Final = 2

_USER: Final = 65532  # the images' own: distroless "nonroot"


@dataclass(frozen=True)
class Manager:
    """One such operator."""

    name: str
    """Name of its Deployment and service account."""
    namespace: str
    component: str
    """Value of the label `app.kubernetes.io/component`."""
    image: str
    configuration: str
    """Content of its configuration file."""
    config_name: str
    """Name of the ConfigMap of that file."""
    certificate: str
    """Name of the Secret of its certificate."""
    webhook_service: str
    """Name of the Service of its webhooks."""
    ready: Manifest
    """Readiness probe."""
    cpu: str
    """CPU request."""
    memory: str
    """Memory request; the limit is 1 GiB."""
    metrics_port: int | None = None
    """Port of its metrics, or None for no metrics."""


def manager_objects(manager: Manager, labels: dict[str, str]) -> dict[str, Manifest]:
    """Return the objects of an operator's pods by role: configuration, certificate, Service."""
    files = {CONFIG_FILE: manager.configuration}
    where = manager.namespace
    return {
        "config": manifest("config_map", manager.config_name, where, labels=labels, data=files),
        "certificate": manifest("secret", manager.certificate, where, labels=labels),
        "service": service(
            manager.webhook_service,
            where,
            manager.component,
            [{"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT}],
            manager_pods(manager.name),
        ),
    }


def manager_pods(name: str) -> dict[str, str]:
    """Return the labels by which objects select the pods of the operator with this name."""
    return {"app.kubernetes.io/name": name}


def manager_server(manager: Manager, replicas: int) -> Manifest:
    """Return the Deployment of an operator; it is ready when its webhooks answer."""
    return deployment(
        manager.name,
        manager.namespace,
        manager.component,
        _pod(manager),
        replicas=replicas,
        files={CONFIG_FILE: manager.configuration},
    )


def _pod(manager: Manager) -> Manifest:
    ports: list[Manifest] = [
        {"containerPort": WEBHOOK_PORT, "name": "webhook"},
        {"containerPort": HEALTH_PORT, "name": "health"},
    ]
    if manager.metrics_port is not None:
        ports.append({"containerPort": manager.metrics_port, "name": "metrics"})
    container: Manifest = {
        "args": [f"--config=/{CONFIG_FILE}", "--zap-log-level=info"],
        "command": ["/manager"],
        "image": manager.image,
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "name": "manager",
        "ports": ports,
        "readinessProbe": {**manager.ready, "periodSeconds": 5},
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": manager.cpu, "memory": manager.memory},
        },
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": [
            {
                "mountPath": f"/{CONFIG_FILE}",
                "name": "config",
                "readOnly": True,
                "subPath": CONFIG_FILE,
            },
            {"mountPath": CERTIFICATE_FOLDER, "name": "certificate", "readOnly": True},
        ],
    }
    return {
        "containers": [container],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": manager.name,
        "terminationGracePeriodSeconds": 10,
        "volumes": [
            {"configMap": {"name": manager.config_name}, "name": "config"},
            {"name": "certificate", "secret": {"secretName": manager.certificate}},
        ],
    }

"""Kueue, which queues jobs until their team has quota for the chips that they request."""

from typing import Final, NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import under, whole
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    deployment,
    hardened_pod,
    labels_for,
    manifest,
    register,
    service,
)
from gke_inference.catalogue.versions import api, image

from .installation import install
from .queue_configuration import CERTIFICATE, CERTIFICATE_FOLDER, FILE, HEALTH_PORT, configuration
from .queue_definitions import definitions
from .queue_monitoring import METRICS_PORT, monitoring_objects
from .queue_permissions import permissions
from .queue_webhooks import webhooks

NAME: Final = "kueue-controller-manager"
NAMESPACE: Final = "kueue-system"
"""Upstream's namespace, which its documentation and tools expect."""
PRIORITIES: Final = {"high": 1000, "low": -1000}
"""Priorities of jobs by name; the default is 0."""
WEBHOOK_PORT: Final = 9443
WEBHOOK_SERVICE: Final = "kueue-webhook-service"
"""Kueue finds its webhooks by the first part of this name."""

_COMPONENT: Final = "queue-operator"
_CONFIG_NAME: Final = "kueue-manager-config"
_USER: Final = 65532  # the image's own: distroless "nonroot"
_PODS: Final = {"app.kubernetes.io/name": NAME}


class QueueOperatorArgs(TypedDict):
    """Inputs of `QueueOperator`."""

    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors. Default: Kueue serves no metrics."""
    replicas: NotRequired[int]
    """Replicas of Kueue, 1 to 5. One is active; all answer webhooks. Default 2, because no job of
    a team can be created while no replica answers."""


class QueueOperator(pulumi.ComponentResource):
    """Kueue, with its definitions, webhooks, certificates and priorities.

    Create one for each cluster, unless Kueue is already installed. It queues only the jobs of
    namespaces that carry its label. Objects: sigs.k8s.io/kueue v0.19.2, config/default. Pass the
    cluster's Kubernetes provider in `opts`. Resources that create queues must depend on this
    component.
    """

    namespace: pulumi.Output[str]
    """Namespace of Kueue."""

    def __init__(
        self,
        name: str,
        args: QueueOperatorArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gke-inference:index:QueueOperator", name, {}, opts)
        replicas = whole(args, "replicas", 2, least=1, most=5)
        collectors = args.get("metrics_namespace")
        observed = collectors is not None
        kinds = install(
            self,
            name,
            NAMESPACE,
            definitions=definitions(NAMESPACE, WEBHOOK_SERVICE),
            objects={
                **operator_objects(observed=observed),
                **webhooks(NAMESPACE, WEBHOOK_SERVICE),
            },
            server=operator_server(replicas, observed=observed),
            after=None if collectors is None else observers(collectors),
        )
        for role, obj in priorities().items():
            register(f"{name}-priority-{role}", obj, under(self, depends_on=kinds))
        self.namespace = pulumi.Output.from_input(NAMESPACE)
        self.register_outputs({"namespace": self.namespace})


def operator_objects(*, observed: bool = False) -> dict[str, Manifest]:
    """Return Kueue's other objects by role: account, permissions, configuration, Service.

    `observed` is whether it serves metrics.
    """
    files = _files(observed=observed)
    labels = labels_for(NAME, _COMPONENT)
    return {
        "account": manifest("service_account", NAME, NAMESPACE, labels=labels),
        **permissions(NAME, NAMESPACE, labels),
        "config": manifest("config_map", _CONFIG_NAME, NAMESPACE, labels=labels, data=files),
        # Kueue writes it, and the kubelet updates it in all pods of Kueue.
        "certificate": manifest("secret", CERTIFICATE, NAMESPACE, labels=labels),
        "service": service(
            WEBHOOK_SERVICE,
            NAMESPACE,
            _COMPONENT,
            [{"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT}],
            _PODS,
        ),
    }


def observers(collectors: str) -> dict[str, Manifest]:
    """Return the objects through which collectors in a namespace read Kueue's metrics, by role."""
    return monitoring_objects(NAME, NAMESPACE, collectors, _PODS)


def operator_server(replicas: int, *, observed: bool = False) -> Manifest:
    """Return the Deployment; it is ready when its webhooks answer.

    `observed` is whether it serves metrics.
    """
    pod, files = _pod(), _files(observed=observed)
    if observed:
        port = {"containerPort": METRICS_PORT, "name": "metrics"}
        pod["containers"][0]["ports"].append(port)
    return deployment(NAME, NAMESPACE, _COMPONENT, pod, replicas=replicas, files=files)


def priorities() -> dict[str, Manifest]:
    """Return the priorities of jobs by name; they order queues, not pods on nodes."""
    return {
        name: manifest(
            "workload_priority_class",
            name,
            labels=labels_for(name, _COMPONENT),
            value=value,
        )
        for name, value in PRIORITIES.items()
    }


def _files(*, observed: bool) -> dict[str, str]:
    kind = api("queue_operator_config")
    return {
        FILE: configuration(
            kind.api_version,
            kind.kind,
            namespace=NAMESPACE,
            service=WEBHOOK_SERVICE,
            port=WEBHOOK_PORT,
            metrics_port=METRICS_PORT if observed else None,
        )
    }


def _pod() -> Manifest:
    probe = {"path": "/healthz", "port": "health"}
    container: Manifest = {
        "args": [f"--config=/{FILE}", "--zap-log-level=info"],
        "command": ["/manager"],
        "image": image("queue_operator").reference,
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 15, "periodSeconds": 20},
        "name": "manager",
        "ports": [
            {"containerPort": WEBHOOK_PORT, "name": "webhook"},
            {"containerPort": HEALTH_PORT, "name": "health"},
        ],
        "readinessProbe": {
            "httpGet": {**probe, "path": "/readyz"},
            "periodSeconds": 5,
        },
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        },
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": [
            {"mountPath": f"/{FILE}", "name": "config", "readOnly": True, "subPath": FILE},
            {"mountPath": CERTIFICATE_FOLDER, "name": "certificate", "readOnly": True},
        ],
    }
    return {
        "containers": [container],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 10,
        "volumes": [
            {"configMap": {"name": _CONFIG_NAME}, "name": "config"},
            {"name": "certificate", "secret": {"secretName": CERTIFICATE}},
        ],
    }

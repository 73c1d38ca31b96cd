"""Adapter that lets a HorizontalPodAutoscaler read engine metrics from Cloud Monitoring."""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import projects

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    Manifest,
    available,
    deployment,
    disruption_budget,
    labels_for,
    manifest,
    register,
    role_binding,
    service,
    service_account,
)
from gke_inference.catalogue.versions import image
from gke_inference.cluster.workload_identity import principal
from gke_inference.namespace.serving_namespace import namespace_object

NAME = "custom-metrics-stackdriver-adapter"
NAMESPACE = "custom-metrics"
ROLE = "roles/monitoring.viewer"
PORT = 443

_COMPONENT = "metrics-adapter"
_REPLICAS = 2  # no autoscaler works while no replica answers
_APIS = (
    ("v1beta1", "custom.metrics.k8s.io", 100),
    ("v1beta2", "custom.metrics.k8s.io", 200),
    ("v1beta1", "external.metrics.k8s.io", 100),
)
"""Version, group and priority of the APIs that the adapter serves."""


class MetricsAdapterArgs(TypedDict):
    """Inputs of `MetricsAdapter`."""

    project: pulumi.Input[str]
    """Project of the cluster. The adapter reads the metrics of this project."""
    project_number: pulumi.Input[str]
    """Number of that project."""
    has_access: NotRequired[bool]
    """Whether the adapter's principal can already read metrics. Default false: this component
    grants the role. All clusters of a project share one principal. If a project has several
    clusters, grant the role elsewhere; otherwise, deleting one cluster revokes it for all."""


class MetricsAdapter(pulumi.ComponentResource):
    """The Custom Metrics Stackdriver Adapter: `Pods` and `External` metrics for autoscalers.

    Create one for each cluster, unless another adapter serves `custom.metrics.k8s.io`. Objects and
    flags: GoogleCloudPlatform/k8s-stackdriver, adapter_new_resource_model. Pass the cluster's
    Kubernetes provider in `opts`.
    """

    namespace: pulumi.Output[str]
    """Namespace of the adapter."""
    principal: pulumi.Output[str]
    """IAM member that the adapter uses to read metrics."""

    def __init__(
        self, name: str, args: MetricsAdapterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:MetricsAdapter", name, {}, opts)
        args = checked(MetricsAdapterArgs, args)
        self.principal = adapter_principal(args["project"], args["project_number"])
        needed: list[pulumi.Resource] = []
        if not args.get("has_access", False):
            needed.append(
                projects.IAMMember(
                    f"{name}-access",
                    member=self.principal,
                    project=args["project"],
                    role=ROLE,
                    opts=under(self),
                )
            )
        needed.append(
            register(f"{name}-namespace", namespace_object(NAMESPACE, "baseline"), under(self))
        )
        for role, obj in adapter_objects().items():
            needed.append(register(f"{name}-{role}", obj, under(self, depends_on=[*needed])))
        # Created last and deleted first: an API without a server blocks namespace deletion.
        for version, group, priority in _APIS:
            register(
                f"{name}-{version}-{group.partition('.')[0]}",
                api_service(version, group, priority),
                under(self, depends_on=needed),
            )
        self.namespace = pulumi.Output.from_input(NAMESPACE)
        self.register_outputs({"namespace": self.namespace, "principal": self.principal})


def adapter_principal(
    project: pulumi.Input[str], project_number: pulumi.Input[str]
) -> pulumi.Output[str]:
    """Return the IAM member of the adapter, the same in every cluster of a project."""
    return principal(project, project_number, NAMESPACE, NAME)


def adapter_objects() -> dict[str, Manifest]:
    """Return the objects in the namespace by role, in order of creation."""
    labels = labels_for(NAME, _COMPONENT)
    read = ["get", "list", "watch"]
    pods = [{"apiGroups": [""], "resources": ["nodes", "nodes/stats", "pods"], "verbs": read}]
    external = [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": read}]
    scaler = {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler"} | _KUBE_SYSTEM
    return {
        "account": manifest("service_account", NAME, NAMESPACE, labels=labels),
        "delegator": _binding(f"{NAMESPACE}:system:auth-delegator", "system:auth-delegator"),
        "auth-reader": _binding(
            f"{NAMESPACE}-auth-reader",
            "extension-apiserver-authentication-reader",
            namespace="kube-system",
        ),
        "reads": manifest(
            "cluster_role", f"{NAMESPACE}-resource-reader", labels=labels, rules=pods
        ),
        "may-read": _binding(f"{NAMESPACE}-resource-reader", f"{NAMESPACE}-resource-reader"),
        "external": manifest(
            "cluster_role", "external-metrics-reader", labels=labels, rules=external
        ),
        "scaler": _binding("external-metrics-reader", "external-metrics-reader", subject=scaler),
        "server": deployment(
            NAME, NAMESPACE, _COMPONENT, available(NAME, _pod()), replicas=_REPLICAS
        ),
        "budget": disruption_budget(NAME, NAMESPACE, _COMPONENT),
        "service": service(
            NAME, NAMESPACE, _COMPONENT, [{"name": "https", "port": PORT, "targetPort": "https"}]
        ),
    }


def api_service(version: str, group: str, priority: int) -> Manifest:
    """Return the APIService of one API; the adapter's certificate is self-signed."""
    return manifest(
        "api_service",
        f"{version}.{group}",
        labels=labels_for(NAME, _COMPONENT),
        spec={
            "group": group,
            "groupPriorityMinimum": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": NAME, "namespace": NAMESPACE, "port": PORT},
            "version": version,
            "versionPriority": priority,
        },
    )


_KUBE_SYSTEM = {"namespace": "kube-system"}


def _binding(
    name: str, role: str, *, namespace: str | None = None, subject: dict[str, str] | None = None
) -> Manifest:
    """Return a binding for the whole cluster, or for one namespace."""
    subjects = [subject or service_account(NAME, NAMESPACE)]
    return role_binding(name, role, subjects, namespace, labels=labels_for(NAME, _COMPONENT))


def _pod() -> dict[str, Any]:
    return {
        "containers": [
            {
                "command": [
                    "/adapter",
                    "--use-new-resource-model=true",
                    "--fallback-for-container-metrics=true",
                ],
                "image": image("metrics_adapter").reference,
                "name": "adapter",
                "ports": [{"containerPort": PORT, "name": "https"}],
                "readinessProbe": {"periodSeconds": 5, "tcpSocket": {"port": "https"}},
                "resources": {
                    "limits": {"memory": "1Gi"},
                    "requests": {"cpu": "250m", "memory": "400Mi"},
                },
                # The adapter listens on a port below 1024, and its image has no other user.
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                },
            }
        ],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": NAME,
    }

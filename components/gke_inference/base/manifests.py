"""Kubernetes objects as plain manifests, and their registration with Pulumi.

All other builders are pure functions that return a `Manifest` (camelCase, as `kubectl` prints it),
so that it can be compared, validated against a CRD and rendered without an engine.
"""

import hashlib
import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, cast

import pulumi
import pulumi_kubernetes as k8s

from gke_inference.catalogue.versions import api

Manifest = dict[str, Any]

MANAGED_BY = "gke-inference"
NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
ENGINES = "model-server"
"""Value of `COMPONENT_LABEL` on the pods of model servers."""
LET_GO_SECONDS = 25
"""How long a terminating replica continues to answer: a network endpoint group takes about ten
seconds to remove it, and a health check needs two failures."""
LONGEST_GRACE_SECONDS = 600
"""Longest time that GKE's cluster autoscaler gives a pod at scale-down
(docs.cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods)."""

_MAKES_PODS = {
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "JobSet",
    "LeaderWorkerSet",
    "Pod",
    "RayCluster",
}

# Constructor of each built-in kind, imported on registration (the SDK takes longer to load than
# everything else that reads a stack), and the top-level manifest keys it takes besides `metadata`.
_BUILT_IN: dict[str, tuple[str, dict[str, str]]] = {
    "ClusterRole": ("rbac.v1.ClusterRole", {"rules": "rules"}),
    "ClusterRoleBinding": (
        "rbac.v1.ClusterRoleBinding",
        {"roleRef": "role_ref", "subjects": "subjects"},
    ),
    "ConfigMap": ("core.v1.ConfigMap", {"data": "data"}),
    "DaemonSet": ("apps.v1.DaemonSet", {"spec": "spec"}),
    "Deployment": ("apps.v1.Deployment", {"spec": "spec"}),
    "HorizontalPodAutoscaler": ("autoscaling.v2.HorizontalPodAutoscaler", {"spec": "spec"}),
    "Job": ("batch.v1.Job", {"spec": "spec"}),
    "MutatingWebhookConfiguration": (
        "admissionregistration.v1.MutatingWebhookConfiguration",
        {"webhooks": "webhooks"},
    ),
    "Namespace": ("core.v1.Namespace", {}),
    "NetworkPolicy": ("networking.v1.NetworkPolicy", {"spec": "spec"}),
    "PodDisruptionBudget": ("policy.v1.PodDisruptionBudget", {"spec": "spec"}),
    "ResourceQuota": ("core.v1.ResourceQuota", {"spec": "spec"}),
    "Role": ("rbac.v1.Role", {"rules": "rules"}),
    "RoleBinding": ("rbac.v1.RoleBinding", {"roleRef": "role_ref", "subjects": "subjects"}),
    "Secret": ("core.v1.Secret", {"type": "type"}),
    "Service": ("core.v1.Service", {"spec": "spec"}),
    "ServiceAccount": (
        "core.v1.ServiceAccount",
        {"automountServiceAccountToken": "automount_service_account_token"},
    ),
    "ValidatingWebhookConfiguration": (
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        {"webhooks": "webhooks"},
    ),
}


def labels_for(name: str, component: str) -> dict[str, str]:
    """Return the labels of every object: its name, its component and its manager."""
    return {
        COMPONENT_LABEL: component,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        NAME_LABEL: name,
    }


SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
"""Annotation of objects that no deployment waits for: engine pods become ready long after their
objects exist."""


FIXED_SIZE_REASON: Final = "gke-inference/fixed-size-because"
"""Annotation of an autoscaler whose minimum is its maximum; `check` reports others."""


def fixed_size(least: int, most: int) -> dict[str, str]:
    """Return the annotations of an autoscaler that keeps one size, or none."""
    return {FIXED_SIZE_REASON: "the stack asks for this size"} if least == most else {}


SPOT_ONLY_REASON: Final = "gke-inference/spot-only-because"
"""Annotation of a compute class whose rungs are all Spot; `check` reports others with servers."""


def manifest(
    lock_name: str,
    name: str,
    namespace: str | None = None,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **body: Any,
) -> Manifest:
    """Return one object. `lock_name` is its entry under `apis` in versions.yaml.

    Its pods get no variables from the Services of their namespace: those of a Service called
    `vllm` would replace vLLM's own setting VLLM_PORT.
    """
    kind = api(lock_name)
    if kind.kind in _MAKES_PODS:
        body = _without_service_links(body)
    metadata: Manifest = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def literal(text: str) -> str:
    """Return free text for a container's command, arguments or variables.

    The kubelet makes `$` of `$$` there, and replaces `$(NAME)`. This is the one place that escapes.
    """
    return text.replace("$", "$$")


def _without_service_links(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_service_links(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    given = cast(dict[str, Any], value)
    made = {key: _without_service_links(each) for key, each in given.items()}
    is_pod = isinstance(given.get("containers"), list)
    return made | ({"enableServiceLinks": False} if is_pod else {})


def role_binding(
    name: str,
    role: str,
    subjects: list[Manifest],
    namespace: str | None = None,
    *,
    labels: dict[str, str],
) -> Manifest:
    """Return the binding of a namespaced or cluster role to subjects."""
    bound = api("cluster_role" if namespace is None else "role")
    return manifest(
        "cluster_role_binding" if namespace is None else "role_binding",
        name,
        namespace,
        labels=labels,
        roleRef={"apiGroup": bound.group, "kind": bound.kind, "name": role},
        subjects=subjects,
    )


def service_account(name: str, namespace: str) -> Manifest:
    """Return a service account as a binding subject."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def deployment(
    name: str,
    namespace: str,
    component: str,
    pod: Manifest,
    replicas: int,
    *,
    annotations: dict[str, str] | None = None,
    files: Any = None,
    rolling: Manifest | None = None,
) -> Manifest:
    """Return a Deployment of one pod spec, selected by its name.

    To survive the loss of a node, see `available`.

    `files` is the content of its ConfigMap: pods restart when it changes. `rolling` are the
    limits of a rolling update.
    """
    labels = labels_for(name, component)
    strategy = {} if rolling is None else {"rollingUpdate": rolling}
    metadata: Manifest = {"labels": labels}
    if files is not None:
        metadata["annotations"] = {"gke-inference/config": fingerprint(files)}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {NAME_LABEL: name}},
        "strategy": {**strategy, "type": "RollingUpdate"},
        "template": {"metadata": metadata, "spec": pod},
    }
    return manifest(
        "deployment", name, namespace, annotations=annotations, labels=labels, spec=spec
    )


def privileged_daemon_set(
    name: str, namespace: str, component: str, pod: Manifest, *, because: str
) -> Manifest:
    """Return a DaemonSet; Pulumi does not wait for it, because its nodes are created later.

    Args:
        name: Name of the object and its pods.
        namespace: Its namespace.
        component: Component that needs it, for the labels.
        pod: Spec of its pods.
        because: Why its pods are privileged.
    """
    labels = labels_for(name, component)
    return manifest(
        "daemon_set",
        name,
        namespace,
        annotations=SKIP_AWAIT,
        labels=labels,
        spec={
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "annotations": {"gke-inference/privileged-because": because},
                    "labels": labels,
                },
                "spec": pod,
            },
            "updateStrategy": {"type": "RollingUpdate"},
        },
    )


def spread(name: str) -> list[Manifest]:
    """Return the constraints that spread the replicas of a Deployment over nodes and zones.

    The node constraint is required if there are several nodes; a single node may run all replicas.
    Nodes whose taints the pods do not tolerate do not count.
    """
    labels = {"matchLabels": {NAME_LABEL: name}}
    return [
        {
            "labelSelector": labels,
            "maxSkew": 1,
            "nodeTaintsPolicy": "Honor",
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
        },
        {
            "labelSelector": labels,
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
        },
    ]


def grace_seconds(longest_seconds: int) -> int:
    """Return the grace period of a pod that ends by itself after its longest request."""
    return min(longest_seconds + LET_GO_SECONDS, LONGEST_GRACE_SECONDS)


def available(name: str, pod: Manifest, longest_seconds: int = LET_GO_SECONDS) -> Manifest:
    """Return a Deployment's pod spec that survives the loss or drain of one node.

    A terminating replica continues to answer until load balancers have removed it, which takes
    time.

    Args:
        name: Name of the Deployment.
        pod: Its pod spec.
        longest_seconds: Maximum duration of a request, for which a terminating replica stays.
    """
    sleep = {"preStop": {"sleep": {"seconds": LET_GO_SECONDS}}}
    return {
        **pod,
        "containers": [{**container, "lifecycle": sleep} for container in pod["containers"]],
        "terminationGracePeriodSeconds": grace_seconds(longest_seconds),
        "topologySpreadConstraints": spread(name),
    }


def disruption_budget(name: str, namespace: str, component: str) -> Manifest:
    """Return the disruption budget of a Deployment: one replica may be evicted at a time."""
    return manifest(
        "pod_disruption_budget",
        name,
        namespace,
        labels=labels_for(name, component),
        spec={"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: name}}},
    )


def container_ports(ports: Mapping[str, int]) -> list[Manifest]:
    """Return the ports of a container, by name."""
    return [{"containerPort": port, "name": name} for name, port in ports.items()]


def scraping(
    name: str,
    namespace: str,
    component: str,
    selector: dict[str, str] | None = None,
    *,
    port: str = "metrics",
) -> Manifest:
    """Return the PodMonitoring of a program's own metrics, by default of pods with its labels."""
    labels = labels_for(name, component)
    return manifest(
        "pod_monitoring",
        name,
        namespace,
        labels=labels,
        spec={
            "endpoints": [{"interval": "15s", "path": "/metrics", "port": port}],
            "selector": {"matchLabels": labels if selector is None else selector},
        },
    )


def service(
    name: str,
    namespace: str,
    component: str,
    ports: list[Manifest],
    selector: dict[str, str] | None = None,
    *,
    annotations: dict[str, str] | None = None,
) -> Manifest:
    """Return a cluster-internal Service, by default for the pods of `deployment(name, …)`."""
    return manifest(
        "service",
        name,
        namespace,
        annotations=annotations,
        labels=labels_for(name, component),
        spec={
            "ports": ports,
            "selector": {NAME_LABEL: name} if selector is None else selector,
            "type": "ClusterIP",
        },
    )


def register(
    logical_name: str, obj: Manifest, opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Register one manifest: a typed resource for a built-in kind, else a `CustomResource`.

    Raises:
        ValueError: A built-in object has a top-level field this function would drop.
    """
    metadata: Any = obj["metadata"]
    body = {key: value for key, value in obj.items() if key not in _HEADER}
    if obj["kind"] in _BUILT_IN:
        path, fields = _BUILT_IN[obj["kind"]]
        if unknown := sorted(set(body) - set(fields)):
            raise ValueError(f"{obj['kind']}: fields {unknown} are not known to manifests.py")
        keywords = {fields[key]: value for key, value in body.items()}
        constructor: Any = attrgetter(path)(k8s)
        return constructor(logical_name, metadata=metadata, opts=opts, **keywords)
    if set(body) != {"spec"}:  # the SDK's class supports only `spec`
        kind = f"kubernetes:{obj['apiVersion']}:{obj['kind']}"
        return pulumi.CustomResource(kind, logical_name, obj, opts)
    return k8s.apiextensions.CustomResource(
        logical_name,
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        metadata=metadata,
        spec=body["spec"],
        opts=opts,
    )


class SeenObject(pulumi.CustomResource):
    """An existing object of a cluster, including fields set by controllers."""

    metadata: pulumi.Output[Manifest]
    """Its metadata, annotations included."""
    status: pulumi.Output[Manifest]
    """Its status."""

    def __init__(
        self,
        logical_name: str,
        lock_name: str,
        identity: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Read the object `NAMESPACE/NAME`, of a kind under `apis` in versions.yaml."""
        kind = api(lock_name)
        read = pulumi.ResourceOptions(id=identity)
        super().__init__(
            f"kubernetes:{kind.api_version}:{kind.kind}",
            logical_name,
            {"metadata": None, "status": None},
            pulumi.ResourceOptions.merge(opts, read),
        )


def fingerprint(value: Any) -> str:
    """Return a short hash. As a pod annotation, it restarts pods when their ConfigMap changes."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_HEADER = frozenset({"apiVersion", "kind", "metadata"})

HARDENED_CONTAINER: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""Security context of a container without any privileges."""


def hardened_pod(user: int) -> Manifest:
    """Return the security context of a pod that runs as one unprivileged user."""
    return {
        "fsGroup": user,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

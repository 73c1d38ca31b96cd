"""Kubernetes objects as plain manifests, and the one place that registers them with Pulumi.

Builders everywhere else are pure functions that return a `Manifest` (camelCase, as `kubectl`
prints it), so that they can be compared, validated against a CRD and rendered without an engine.
"""

import hashlib
import json
from operator import attrgetter
from typing import Any

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
"""How long a replica answers after it has to go: a network endpoint group takes some ten seconds to
drop it, and a health check two failures."""

# Constructor of each built-in kind, loaded when an object is registered (the SDK takes longer than
# everything else that reads a stack), and the top-level manifest keys it takes besides `metadata`.
_BUILT_IN: dict[str, tuple[str, dict[str, str]]] = {
    "ClusterRole": ("rbac.v1.ClusterRole", {"rules": "rules"}),
    "ClusterRoleBinding": (
        "rbac.v1.ClusterRoleBinding",
        {"roleRef": "role_ref", "subjects": "subjects"},
    ),
    "ConfigMap": ("core.v1.ConfigMap", {"data": "data"}),
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
    "Secret": ("core.v1.Secret", {}),
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
    """Returns the labels every object carries: which one it is, what it is, who manages it."""
    return {
        COMPONENT_LABEL: component,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        NAME_LABEL: name,
    }


SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
"""Annotation of what no run waits for: pods of engines are ready long after their objects exist."""


def manifest(
    lock_name: str,
    name: str,
    namespace: str | None = None,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **body: Any,
) -> Manifest:
    """Returns one object; `lock_name` is its entry under `apis` in versions.yaml."""
    kind = api(lock_name)
    metadata: Manifest = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def role_binding(
    name: str,
    role: str,
    subjects: list[Manifest],
    namespace: str | None = None,
    *,
    labels: dict[str, str],
) -> Manifest:
    """Returns what gives a role of a namespace, or of the whole cluster, to some subjects."""
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
    """Returns a service account as a binding names it."""
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
    strategy: str = "RollingUpdate",
) -> Manifest:
    """Returns a Deployment of one pod spec, selected by its name.

    See `available` for one that has to outlive the loss of a node.

    `files` is what its ConfigMap holds: pods restart when that changes.
    """
    labels = labels_for(name, component)
    metadata: Manifest = {"labels": labels}
    if files is not None:
        metadata["annotations"] = {"gke-inference/config": fingerprint(files)}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {NAME_LABEL: name}},
        "strategy": {"type": strategy},
        "template": {"metadata": metadata, "spec": pod},
    }
    return manifest(
        "deployment", name, namespace, annotations=annotations, labels=labels, spec=spec
    )


def spread(name: str) -> list[Manifest]:
    """Returns the constraints that keep the replicas of a Deployment on different nodes and zones.

    On nodes they insist, as far as there are several: a single node may hold both. Nodes whose
    taints the pods do not tolerate are no nodes of theirs.
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


def available(name: str, pod: Manifest) -> Manifest:
    """Returns a pod spec of a Deployment that the loss or drain of one node must not take away.

    A replica that has to go answers until load balancers have let it go: they hear of it late.
    """
    sleep = {"preStop": {"sleep": {"seconds": LET_GO_SECONDS}}}
    return {
        **pod,
        "containers": [{**container, "lifecycle": sleep} for container in pod["containers"]],
        "terminationGracePeriodSeconds": 2 * LET_GO_SECONDS,
        "topologySpreadConstraints": spread(name),
    }


def disruption_budget(name: str, namespace: str, component: str) -> Manifest:
    """Returns the budget of a Deployment: one replica at a time is drained."""
    return manifest(
        "pod_disruption_budget",
        name,
        namespace,
        labels=labels_for(name, component),
        spec={"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: name}}},
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
    """Returns a cluster-internal Service, of the pods of `deployment(name, …)` by default."""
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
    """Registers one manifest: a typed resource for a built-in kind, else a `CustomResource`.

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
    if set(body) != {"spec"}:  # the SDK's class has room for `spec` alone
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
    """An object of a cluster as it is when a program runs, with what controllers wrote on it."""

    metadata: pulumi.Output[Manifest]
    """Its metadata, annotations included."""

    def __init__(
        self,
        logical_name: str,
        lock_name: str,
        identity: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Reads an object: `NAMESPACE/NAME`, of a kind under `apis` in versions.yaml."""
        kind = api(lock_name)
        read = pulumi.ResourceOptions(id=identity)
        super().__init__(
            f"kubernetes:{kind.api_version}:{kind.kind}",
            logical_name,
            {"metadata": None},
            pulumi.ResourceOptions.merge(opts, read),
        )


def fingerprint(value: Any) -> str:
    """Returns a short hash; as a pod annotation it restarts pods when their ConfigMap changes."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_HEADER = frozenset({"apiVersion", "kind", "metadata"})

HARDENED_CONTAINER: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""Security context of a container that needs nothing."""


def hardened_pod(user: int) -> Manifest:
    """Returns the security context of a pod that runs as one unprivileged user."""
    return {
        "fsGroup": user,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

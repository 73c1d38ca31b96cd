"""A team's share of a cluster: chip quota, bucket access, and deployers."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    register,
    role_binding,
    service_account,
)
from gke_inference.catalogue.problems import one_of
from gke_inference.catalogue.versions import api
from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    grant_buckets,
    namespace_principals,
)
from gke_inference.namespace.serving_namespace import chip_quota

from .settings import QuotaChips

_NAME = "team"
_KINDS = {
    "autoscaler": ["horizontalpodautoscalers"],
    "capacity_buffer": ["capacitybuffers"],
    "config_map": ["configmaps"],
    "deployment": ["deployments", "deployments/scale"],
    "gateway_backend_policy": ["gcpbackendpolicies"],
    "gateway_health_check": ["healthcheckpolicies"],
    "http_route": ["httproutes"],
    "inference_objective": ["inferenceobjectives", "inferencemodelrewrites"],
    "inference_pool": ["inferencepools"],
    "leader_worker_set": ["leaderworkersets", "leaderworkersets/scale"],
    "lease": ["leases"],
    "llm_d_objective": ["inferenceobjectives", "inferencemodelrewrites"],
    "network_policy": ["networkpolicies"],
    "pod_disruption_budget": ["poddisruptionbudgets"],
    "pod_monitoring": ["podmonitorings"],
    "ray_cluster": ["rayclusters"],
    "ray_cluster_set": ["rayclustersets", "rayclustersets/scale", "rayclustersets/status"],
    "role": ["roles"],
    "role_binding": ["rolebindings"],
    "rules": ["rules"],
    "service": ["services"],
    "service_account": ["serviceaccounts"],
}
"""Resources that serving a model creates, or grants to pickers, by their names in
`versions.yaml`."""


_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""All that objects need. `*` would add `escalate` and `bind`, with which a deployer grants itself
any permission, and `impersonate` (kubernetes.io/docs/concepts/security/rbac-good-practices)."""
_DELIVERED_KINDS = {
    "argo-cd": ("argo_application", "applications"),
    "config-sync": ("repo_sync", "reposyncs"),
}
"""Kinds that a deployer creates if models come from git, by delivery tool."""
_SYNC_NAMESPACE = "config-management-system"
_ARGO_NAMESPACE = "argocd"


class TeamShareArgs(TypedDict):
    """Inputs of `TeamShare`."""

    namespace: str
    """Name of the team's existing namespace."""
    project: pulumi.Input[str]
    """Project of the cluster, whose workload pool contains the namespace's service accounts."""
    project_number: pulumi.Input[str]
    """Number of that project."""
    bucket_roles: NotRequired[dict[str, BucketAccessArgs]]
    """Buckets that every pod of the namespace may use, each under a name of your choice. All
    clusters of a project have the same principals, so only one region grants access to a shared
    bucket. Default: none."""
    delivery: NotRequired[str]
    """Tool that applies the objects of models from git, with the permissions of a deployer:
    `config-sync`, or `argo-cd`, which must be in the namespace `argocd` with sync impersonation
    enabled. Default: none, deployers apply them."""
    deployers: NotRequired[list[str]]
    """Emails of users and service accounts that may deploy models to the namespace, without other
    permissions in the cluster. Default: none."""
    gpu_chips: NotRequired[QuotaChips]
    """Maximum number of GPUs that its pods may request in total. Default: 0."""
    tpu_chips: NotRequired[QuotaChips]
    """Maximum number of TPU chips that its pods may request in total. Default: 0."""


class TeamShare(pulumi.ComponentResource):
    """An accelerator ResourceQuota for a namespace, and permissions of its pods and deployers.

    A pod that exceeds the quota is rejected. Deployers do not need permission to grant roles; on
    the project, they need only `roles/container.clusterViewer`, to reach the cluster.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: TeamShareArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:TeamShare", name, {}, opts)
        args = checked(TeamShareArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        quota = chip_quota(
            _NAME, namespace, gpu=args.get("gpu_chips", 0), tpu=args.get("tpu_chips", 0)
        )
        register(name, quota, under(self))
        member = namespace_principals(args["project"], args["project_number"], namespace)
        grant_buckets(name, args.get("bucket_roles") or {}, member, under(self))
        delivery = args.get("delivery")
        if delivery is not None and delivery not in _DELIVERED_KINDS:
            keep([one_of("delivery", delivery, _DELIVERED_KINDS)])
        made = deploying(namespace, args.get("deployers", []), delivery)
        for role, obj in made.items():
            register(f"{name}-{role}", obj, under(self))
        self.namespace = pulumi.Output.from_input(namespace)
        self.register_outputs({"namespace": self.namespace})


def deploying(
    namespace: str, deployers: list[str], delivery: str | None = None
) -> dict[str, Manifest]:
    """Return the role of deployers and its binding, or nothing if there are none.

    The role can grant no more than it has: Kubernetes rejects a role with additional permissions.
    The delivery tool is also a deployer. Argo CD, which has all permissions itself, impersonates a
    service account that is one.
    """
    if not deployers and delivery is None:
        return {}
    name = f"{_NAME}-deployer"
    labels = labels_for(name, "deployer")
    made: dict[str, Manifest] = {}
    group = api("role").group
    users = [{"apiGroup": group, "kind": "User", "name": email} for email in sorted(deployers)]
    if delivery == "config-sync":
        users.append(service_account(f"ns-reconciler-{namespace}", _SYNC_NAMESPACE))
    elif delivery == "argo-cd":
        made["account"] = manifest("service_account", name, namespace, labels=labels)
        made["project"] = _argo_project(namespace, name)
        users.append(service_account(name, namespace))
    return {
        **made,
        "deployer": manifest("role", name, namespace, labels=labels, rules=_rules(delivery)),
        "deploys": role_binding(name, name, users, namespace, labels=labels),
    }


def _argo_project(namespace: str, account: str) -> Manifest:
    """Return the Argo CD project whose Applications are in a namespace and deploy only to it.

    Pickers and gates have Roles of their own. The whitelist cannot distinguish those from a Role
    with all permissions, so Argo CD applies objects as a service account that cannot grant more
    than it has. This requires `application.sync.impersonation.enabled: "true"` in `argocd-cm`;
    otherwise, the field has no effect (argo-cd.readthedocs.io, "Application Sync using
    impersonation").
    """
    cluster = "https://kubernetes.default.svc"
    return manifest(
        "argo_project",
        namespace,
        _ARGO_NAMESPACE,
        labels=labels_for(namespace, "delivery"),
        spec={
            "destinationServiceAccounts": [
                {
                    "defaultServiceAccount": f"{namespace}:{account}",
                    "namespace": namespace,
                    "server": cluster,
                }
            ],
            "destinations": [{"namespace": namespace, "server": cluster}],
            "namespaceResourceWhitelist": [
                {"group": api(name).group, "kind": api(name).kind}
                for name in sorted({*_KINDS, "inference_rewrite", "llm_d_rewrite"})
            ],
            "sourceNamespaces": [namespace],
            "sourceRepos": ["*"],
        },
    )


def _rules(delivery: str | None) -> list[Manifest]:
    by_group: dict[str, list[str]] = {}
    kinds = dict(_KINDS)
    if delivery is not None:
        lock_name, plural = _DELIVERED_KINDS[delivery]
        kinds[lock_name] = [plural]
    for lock_name, resources in kinds.items():
        by_group.setdefault(api(lock_name).group, []).extend(resources)
    rules: list[Manifest] = [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(_VERBS)}
        for group, resources in sorted(by_group.items())
    ]
    seen = ["pods", "pods/log", "resourcequotas"]
    rules.append({"apiGroups": [""], "resources": seen, "verbs": ["get", "list", "watch"]})
    granted = ["create", "get", "list", "patch", "watch"]
    return [*rules, {"apiGroups": [""], "resources": ["events"], "verbs": granted}]

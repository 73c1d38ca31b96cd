"""The namespace of the model servers: its Pod Security level, and network access to its pods."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    register,
    role_binding,
)
from gke_inference.catalogue.versions import api
from gke_inference.namespace.network_policies import AllowedIngressArgs, network_policies
from gke_inference.namespace.settings import PodSecurity, QuotaChips

_QUOTA = "accelerators"


class ServingNamespaceArgs(TypedDict):
    """Inputs of `ServingNamespace`."""

    namespace: str
    """Name of the namespace."""
    closes_default: NotRequired[bool]
    """Whether pods in the namespace `default` may request no accelerators. Default: false."""
    existing: NotRequired[bool]
    """Whether the namespace exists. If so, it is not created, changed or deleted, and `ingress`
    covers only the platform's own pods in it. Default: false."""
    gpu_chips: NotRequired[QuotaChips]
    """Maximum number of GPUs that its pods may request in total. Default: no limit, or 0 if
    `tpu_chips` is set."""
    ingress: NotRequired[AllowedIngressArgs]
    """Allowed ingress to its pods, as network policies. Default: no policy, all traffic is
    allowed."""
    pod_security: NotRequired[PodSecurity]
    """Enforced Pod Security level: only the dual-container form of a model server needs
    `privileged`. Default: `baseline`."""
    tpu_chips: NotRequired[QuotaChips]
    """Maximum number of TPU chips that its pods may request in total. Default: no limit, or 0 if
    `gpu_chips` is set."""


class ServingNamespace(pulumi.ComponentResource):
    """A namespace that enforces a Pod Security level and audits stricter ones.

    Its service accounts may read nodes, so that a model server learns of its Spot node's preemption
    notice; pods without a token cannot. With `ingress`, only the load balancer, the metrics
    collectors and, where required, its own pods can reach its pods. GKE Dataplane V2 enforces that.
    With a maximum number of chips, additional pods are rejected.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ServingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ServingNamespace", name, {}, opts)
        args = checked(ServingNamespaceArgs, args)
        exists = args.get("existing", False)
        if exists and args.get("pod_security") is not None:
            raise pulumi.InputPropertyError(
                "podSecurity",
                f"must not be set when the namespace exists, got {args.get('pod_security')!r}",
            )
        level = args.get("pod_security", "baseline")
        inside = under(self)
        if not exists:
            namespace = register(name, namespace_object(args["namespace"], level), under(self))
            inside = under(self, depends_on=[namespace])
        ingress = args.get("ingress")
        if ingress is not None:
            policies = network_policies(args["namespace"], ingress, closes=not exists)
            for policy, obj in policies.items():
                register(f"{name}-{policy}", obj, inside)
        for role, obj in node_reader(args["namespace"]).items():
            register(f"{name}-{role}", obj, under(self))
        gpu, tpu = args.get("gpu_chips"), args.get("tpu_chips")
        if gpu is not None or tpu is not None:
            limit = chip_quota(_QUOTA, args["namespace"], gpu=gpu or 0, tpu=tpu or 0)
            register(f"{name}-{_QUOTA}", limit, inside)
        if args.get("closes_default", False):
            register(f"{name}-default", chip_quota(_QUOTA, "default"), under(self))
        self.namespace = pulumi.Output.from_input(args["namespace"])
        self.register_outputs({"namespace": self.namespace})


def node_reader(namespace: str) -> dict[str, Manifest]:
    """Return the role and binding that let the pods of a namespace read nodes, by role."""
    name = f"{namespace}-node-reader"
    labels = labels_for(name, "serving")
    group = api("cluster_role").group
    pods = {"apiGroup": group, "kind": "Group", "name": f"system:serviceaccounts:{namespace}"}
    return {
        "node-reader": manifest(
            "cluster_role",
            name,
            labels=labels,
            rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
        ),
        "reads-nodes": role_binding(name, name, [pods], labels=labels),
    }


def namespace_object(name: str, level: str) -> Manifest:
    """Return the Namespace. It audits against the strictest level."""
    labels = labels_for(name, "serving")
    labels |= {
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/warn": level,
    }
    return manifest("namespace", name, labels=labels)


def chip_quota(name: str, namespace: str, *, gpu: int = 0, tpu: int = 0) -> Manifest:
    """Return a ResourceQuota. For extended resources, only requests can be limited.

    kubernetes.io/docs/concepts/policy/resource-quotas, "Resource quota for extended resources".

    Args:
        name: Name of the object.
        namespace: Namespace of the object.
        gpu: Number of GPUs that its pods may request in total.
        tpu: Number of TPU chips.
    """
    hard = {"requests.nvidia.com/gpu": str(gpu), "requests.google.com/tpu": str(tpu)}
    return manifest(
        "resource_quota", name, namespace, labels=labels_for(name, "quota"), spec={"hard": hard}
    )

"""The namespace models are served from: its Pod Security level, and who may reach its pods."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import one_of, under
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    register,
    role_binding,
)
from gke_inference.catalogue.versions import api

from .network_policies import AllowedIngressArgs, network_policies

_LEVELS = ("baseline", "privileged", "restricted")


class ServingNamespaceArgs(TypedDict):
    """Inputs of `ServingNamespace`."""

    namespace: str
    """Name of the namespace."""
    existing: NotRequired[bool]
    """Whether the namespace exists: it is neither made, changed nor deleted, and `ingress` is about
    the platform's own pods in it. Default no."""
    ingress: NotRequired[AllowedIngressArgs]
    """Who may reach its pods, as network policies. Default: everybody, without any policy."""
    pod_security: NotRequired[str]
    """Pod Security level that is enforced: `baseline` (default), `restricted`, or `privileged`,
    which only the dual-container form of a model server needs."""


class ServingNamespace(pulumi.ComponentResource):
    """A namespace that refuses pods above its Pod Security level and audits the rest.

    Its service accounts may get nodes, which is how a model server learns that its spot node has
    its notice; a pod without a token cannot. With `ingress` its pods can be reached by nothing but
    the load balancer, the collectors of metrics and each other where they must. GKE Dataplane V2
    enforces that.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ServingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ServingNamespace", name, {}, opts)
        exists = args.get("existing", False)
        if exists and args.get("pod_security") is not None:
            raise pulumi.InputPropertyError(
                "podSecurity",
                f"must be left out where the namespace exists, got {args.get('pod_security')!r}",
            )
        level = one_of(args, "pod_security", _LEVELS, "baseline")
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
        self.namespace = pulumi.Output.from_input(args["namespace"])
        self.register_outputs({"namespace": self.namespace})


def node_reader(namespace: str) -> dict[str, Manifest]:
    """Returns the role and binding that let the pods of a namespace get nodes, by their role."""
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
    """Returns the Namespace; the audit log speaks of the strictest level."""
    labels = labels_for(name, "serving")
    labels |= {
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/warn": level,
    }
    return manifest("namespace", name, labels=labels)

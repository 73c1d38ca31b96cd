"""The namespace models are served from: its Pod Security level, and who may reach its pods."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import one_of, under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register

from .network_policies import AllowedIngressArgs, network_policies

_LEVELS = ("baseline", "privileged", "restricted")


class ServingNamespaceArgs(TypedDict):
    """Inputs of `ServingNamespace`."""

    namespace: str
    """Name of the namespace."""
    ingress: NotRequired[AllowedIngressArgs]
    """Who may reach its pods, as network policies. Default: everybody, without any policy."""
    pod_security: NotRequired[str]
    """Pod Security level that is enforced: `baseline` (default), `restricted`, or `privileged`,
    which only the dual-container form of a model server needs."""


class ServingNamespace(pulumi.ComponentResource):
    """A namespace that refuses pods above its Pod Security level and audits the rest.

    With `ingress` its pods can be reached by nothing but the load balancer, the collectors of
    metrics and each other where they must. GKE Dataplane V2 enforces that.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ServingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ServingNamespace", name, {}, opts)
        level = one_of(args, "pod_security", _LEVELS, "baseline")
        namespace = register(name, namespace_object(args["namespace"], level), under(self))
        ingress = args.get("ingress")
        if ingress is not None:
            inside = under(self, depends_on=[namespace])
            for policy, obj in network_policies(args["namespace"], ingress).items():
                register(f"{name}-{policy}", obj, inside)
        self.namespace = pulumi.Output.from_input(args["namespace"])
        self.register_outputs({"namespace": self.namespace})


def namespace_object(name: str, level: str) -> Manifest:
    """Returns the Namespace; the audit log speaks of the strictest level."""
    labels = labels_for(name, "serving")
    labels |= {
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/warn": level,
    }
    return manifest("namespace", name, labels=labels)

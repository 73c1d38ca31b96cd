"""The namespace models are served from, with its Pod Security level."""

from typing import NotRequired, TypedDict

import pulumi

from .inputs import one_of, under
from .manifests import Manifest, labels_for, manifest, register

_LEVELS = ("baseline", "privileged", "restricted")


class ServingNamespaceArgs(TypedDict):
    """Inputs of `ServingNamespace`."""

    namespace: str
    """Name of the namespace."""
    pod_security: NotRequired[str]
    """Pod Security level that is enforced: `baseline` (default), `restricted`, or `privileged`,
    which only the dual-container form of a model server needs."""


class ServingNamespace(pulumi.ComponentResource):
    """A namespace that refuses pods above its Pod Security level and audits the rest."""

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ServingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ServingNamespace", name, {}, opts)
        level = one_of(args, "pod_security", _LEVELS, "baseline")
        register(name, namespace_object(args["namespace"], level), under(self))
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

"""Network access between replicas of the same model, in a namespace that is otherwise closed."""

from typing import TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register

from .network_policies import connections


class ConnectedModelsArgs(TypedDict):
    """Inputs of `ConnectedModels`."""

    models: list[str]
    """Models (values of `app.kubernetes.io/name`) with groups over several hosts, or with prefill
    and decode replicas."""
    namespace: str
    """Name of the namespace, a `ServingNamespace` with `ingress`."""


class ConnectedModels(pulumi.ComponentResource):
    """Network policies that let the replicas of each of these models reach each other."""

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ConnectedModelsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ConnectedModels", name, {}, opts)
        args = checked(ConnectedModelsArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        for policy, obj in connections(namespace, args["models"]).items():
            register(f"{name}-{policy}", obj, under(self))
        self.namespace = pulumi.Output.from_input(namespace)
        self.register_outputs({"namespace": self.namespace})

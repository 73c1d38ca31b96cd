"""Network access to the replicas of single models, in a namespace that is otherwise closed."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register
from gke_inference.settings.fields import Port

from .network_policies import connections, grpc_access, metrics_access


class ConnectedModelsArgs(TypedDict):
    """Inputs of `ConnectedModels`."""

    models: list[str]
    """Models (values of `app.kubernetes.io/name`) with groups over several hosts, or with prefill
    and decode replicas."""
    namespace: str
    """Name of the namespace, a `ServingNamespace` with `ingress`."""
    grpc_ports: NotRequired[dict[str, Port]]
    """Port for gRPC of each model (value of `app.kubernetes.io/name`) that has one. Default:
    none."""
    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors. Default: `gmp-system`; on Autopilot it is
    `gke-gmp-system`."""
    metrics_ports: NotRequired[dict[str, Port]]
    """Port of the metrics of each model (value of `app.kubernetes.io/name`) whose engine has one
    beside that of its API. Default: none."""
    proxies_cidr: NotRequired[str]
    """Range of the load balancers' proxies, which reach the ports for gRPC. Default: none."""


class ConnectedModels(pulumi.ComponentResource):
    """Network policies of the models in a namespace whose own policies do not know them.

    They let the replicas of a model reach each other, collectors reach the metrics of a model, and
    load balancers its port for gRPC.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: ConnectedModelsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ConnectedModels", name, {}, opts)
        args = checked(ConnectedModelsArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        made = {
            **connections(namespace, args["models"]),
            **metrics_access(
                namespace, args.get("metrics_ports", {}), args.get("metrics_namespace")
            ),
            **grpc_access(namespace, args.get("grpc_ports", {}), args.get("proxies_cidr")),
        }
        for policy, obj in made.items():
            register(f"{name}-{policy}", obj, under(self))
        self.namespace = pulumi.Output.from_input(namespace)
        self.register_outputs({"namespace": self.namespace})

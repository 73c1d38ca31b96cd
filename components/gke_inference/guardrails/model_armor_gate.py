"""Model Armor on a Gateway without client teams."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register

from .armor_calls import ArmorCallArgs, armor_gate

_LONGEST_CHAIN = 3
"""Most extensions in a chain
(docs.cloud.google.com/service-extensions/docs/reference/rest/v1/ExtensionChain)."""


class ModelArmorGateArgs(TypedDict):
    """Inputs of `ModelArmorGate`."""

    calls: list[ArmorCallArgs]
    """Model Armor calls, at most three, or two with `router_name`."""
    gate_name: str
    """Kubernetes name of the GCPTrafficExtension."""
    gateway_name: str
    """Name of the Gateway (`InferenceGateway`)."""
    namespace: str
    """Namespace of the Gateway."""
    router_name: NotRequired[str]
    """Name of the Gateway's body router (`InferenceGateway`), which then removes the headers of
    software from responses. Default: only the filters of the routes remove them."""


class ModelArmorGate(pulumi.ComponentResource):
    """The traffic extension of a Gateway that has no `ClientGate` to make the calls."""

    extension_name: pulumi.Output[str]
    """Name of the GCPTrafficExtension."""

    def __init__(
        self, name: str, args: ModelArmorGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelArmorGate", name, {}, opts)
        gate = name_of(args, "gate_name", "namespace")
        router = args.get("router_name")
        most = _LONGEST_CHAIN - (router is not None)
        if not 1 <= len(args["calls"]) <= most:
            rule = f"must be 1 to {most}, got {len(args['calls'])}"
            raise pulumi.InputPropertyError("calls", rule)
        obj = armor_gate(gate, args["namespace"], args["gateway_name"], args["calls"], router)
        extension = register(name, obj, under(self))
        self.extension_name = extension.urn.apply(lambda _: gate)
        self.register_outputs({"extensionName": self.extension_name})

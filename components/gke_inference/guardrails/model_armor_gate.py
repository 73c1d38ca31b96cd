"""Model Armor on a Gateway without client teams."""

from typing import TypedDict

import pulumi

from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register

from .armor_calls import ArmorCallArgs, armor_gate


class ModelArmorGateArgs(TypedDict):
    """Inputs of `ModelArmorGate`."""

    calls: list[ArmorCallArgs]
    """Model Armor calls, at most three."""
    gate_name: str
    """Kubernetes name of the GCPTrafficExtension."""
    gateway_name: str
    """Name of the Gateway (`InferenceGateway`)."""
    namespace: str
    """Namespace of the Gateway."""


class ModelArmorGate(pulumi.ComponentResource):
    """The traffic extension of a Gateway that has no `ClientGate` to make the calls."""

    extension_name: pulumi.Output[str]
    """Name of the GCPTrafficExtension."""

    def __init__(
        self, name: str, args: ModelArmorGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelArmorGate", name, {}, opts)
        gate = name_of(args, "gate_name", "namespace")
        if not 1 <= len(args["calls"]) <= 3:
            rule = f"must be 1 to 3, got {len(args['calls'])}"
            raise pulumi.InputPropertyError("calls", rule)
        obj = armor_gate(gate, args["namespace"], args["gateway_name"], args["calls"])
        extension = register(name, obj, under(self))
        self.extension_name = extension.urn.apply(lambda _: gate)
        self.register_outputs({"extensionName": self.extension_name})

"""Model Armor on a Gateway without client teams."""

from typing import Annotated, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register

from .armor_calls import armor_gate
from .settings import ArmorCallArgs


class ModelArmorGateArgs(TypedDict):
    """Inputs of `ModelArmorGate`."""

    calls: Annotated[list[ArmorCallArgs], Field(min_length=1, max_length=3)]
    """Model Armor calls: a chain has at most three extensions."""
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
        args = checked(ModelArmorGateArgs, args)
        gate = name_of(args, "gate_name", "namespace")
        obj = armor_gate(gate, args["namespace"], args["gateway_name"], args["calls"])
        extension = register(name, obj, under(self))
        self.extension_name = extension.urn.apply(lambda _: gate)
        self.register_outputs({"extensionName": self.extension_name})

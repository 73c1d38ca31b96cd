"""What a cluster needs for pods on the interfaces of accelerators: networks, plug-in, devices."""

from collections.abc import Sequence
from typing import Final, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    privileged_daemon_set,
    register,
)
from gke_inference.catalogue.node_networks import (
    DEFAULT_INTERFACE_NETWORK,
    InterfaceNetwork,
    check_interface_network,
    interface_network,
)
from gke_inference.catalogue.versions import api

from .accelerator_interface_pods import device_injector, plugin_installer

_COMPONENT: Final = "accelerator-interfaces"
_NAMESPACE: Final = "kube-system"
"""Where GKE allows the priority class of its own agents."""


class AcceleratorInterfacesArgs(TypedDict):
    """Inputs of `AcceleratorInterfaces`."""

    networks: pulumi.Input[list[str]]
    """Names of the VPC networks, in the order of the interfaces: `AcceleratorNetworks.networks`."""
    subnetworks: pulumi.Input[list[str]]
    """Names of their subnets in the region of the cluster: `AcceleratorNetworks.subnetworks`."""
    technology: NotRequired[str]
    """`tcpx` for A3 High nodes, `tcpxo` for A3 Mega: the `network` of their rungs. Default:
    `tcpxo`."""


class AcceleratorInterfaces(pulumi.ComponentResource):
    """The networks of GPUDirect in a cluster, its NCCL plug-in and its device injector.

    Create one for each cluster with A3 High or A3 Mega node pools that have `additional_networks`,
    before the pools. Pods refer to the networks by name. Two DaemonSets on those nodes install the
    plug-in of NCCL and let containers name devices of the node in an annotation, as Google's
    manifests do. Pass the cluster's Kubernetes provider in `opts`.
    """

    interface_networks: list[str]
    """Names of the Network objects, in the order of the interfaces."""

    def __init__(
        self, name: str, args: AcceleratorInterfacesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:AcceleratorInterfaces", name, {}, opts)
        args = checked(AcceleratorInterfacesArgs, args)
        networks = pulumi.Output.from_input(args["networks"])
        subnetworks = pulumi.Output.from_input(args["subnetworks"])
        technology = args.get("technology", DEFAULT_INTERFACE_NETWORK)
        keep(check_interface_network("technology", technology))
        network = interface_network(technology)
        self.interface_networks = network.networks
        every = range(network.interfaces)
        objects = interface_objects(
            network, [networks[at] for at in every], [subnetworks[at] for at in every]
        )
        made: dict[str, pulumi.Resource] = {}
        for role, obj in objects.items():
            parameters = made.get(f"{role}-parameters")
            behind = under(self) if parameters is None else under(self, depends_on=[parameters])
            made[role] = register(f"{name}-{role}", obj, behind)
        self.register_outputs({"interfaceNetworks": self.interface_networks})


def interface_objects(
    network: InterfaceNetwork,
    networks: Sequence[pulumi.Input[str]],
    subnetworks: Sequence[pulumi.Input[str]],
) -> dict[str, Manifest]:
    """Return the objects by their role; the parameters of a network come before it.

    Args:
        network: What the interfaces need.
        networks: Names of the VPC networks, one for each interface.
        subnetworks: Names of their subnets.
    """
    found: dict[str, Manifest] = {}
    for name, vpc, subnetwork in zip(network.networks, networks, subnetworks, strict=True):
        found[f"{name}-parameters"] = _parameters(name, vpc, subnetwork)
        found[name] = _network(name)
    pods = {
        f"nccl-{network.name}-installer": plugin_installer(network),
        "device-injector": device_injector(network),
    }
    because = "it writes to folders of its node and configures its devices"
    return found | {
        agent: privileged_daemon_set(agent, _NAMESPACE, _COMPONENT, pod, because=because)
        for agent, pod in pods.items()
    }


def _parameters(name: str, network: pulumi.Input[str], subnetwork: pulumi.Input[str]) -> Manifest:
    return manifest(
        "network_parameters",
        name,
        labels=labels_for(name, _COMPONENT),
        spec={"deviceMode": "NetDevice", "vpc": network, "vpcSubnet": subnetwork},
    )


def _network(name: str) -> Manifest:
    parameters = api("network_parameters")
    return manifest(
        "network",
        name,
        labels=labels_for(name, _COMPONENT),
        spec={
            "parametersRef": {"group": parameters.group, "kind": parameters.kind, "name": name},
            "type": "Device",
        },
    )

"""VPC networks for the interfaces of accelerators, one for each interface of a node."""

import ipaddress
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.node_networks import (
    DEFAULT_INTERFACE_NETWORK,
    InterfaceNetwork,
    check_interface_network,
    interface_network,
)

NARROWEST = 26
"""Longest prefix of a region's range: each of eight subnets is then a /29, the smallest there is,
and each of four a /28."""


class AcceleratorNetworksArgs(TypedDict):
    """Inputs of `AcceleratorNetworks`."""

    network_name: str
    """Prefix of the names: the networks and their subnets are `PREFIX-1`, `PREFIX-2` and so on."""
    regions: Annotated[dict[str, str], Field(min_length=1)]
    """Range of the subnets by region, /26 or larger, such as `192.168.0.0/20`. Each network has an
    equal part, with 4 addresses fewer than the part for nodes."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the networks. Default: the provider's."""
    technology: NotRequired[str]
    """`tcpx` for the four interfaces of A3 High nodes, `tcpxo` for the eight of A3 Mega: the
    `network` of their rungs. Default: `tcpxo`."""


class AcceleratorNetworks(pulumi.ComponentResource):
    """VPC networks for the GPUDirect interfaces of A3 High or A3 Mega nodes.

    Each interface of a node is in a network of its own, with an MTU of 8244 bytes, a subnet in
    every region, and a firewall rule for traffic between the nodes. Pass the names to
    `additional_networks` of `AcceleratorPool`, and to `AcceleratorInterfaces`.
    """

    networks: pulumi.Output[list[str]]
    """Names of the networks, in the order of the interfaces."""
    subnetworks: pulumi.Output[list[str]]
    """Names of their subnets, the same in every region."""

    def __init__(
        self, name: str, args: AcceleratorNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:AcceleratorNetworks", name, {}, opts)
        args = checked(AcceleratorNetworksArgs, args)
        prefix = name_of(args, "network_name", "compute")
        technology = args.get("technology", DEFAULT_INTERFACE_NETWORK)
        keep(check_interface_network("technology", technology))
        interfaces = interface_network(technology)
        count = interfaces.interfaces
        _check_length(f"{prefix}-{count}-internal")
        parts = {
            region: divided(cidr, count, f"regions.{region}")
            for region, cidr in sorted(args["regions"].items())
        }
        networks: list[pulumi.Output[str]] = []
        subnetworks: list[pulumi.Output[str]] = []
        for at in range(count):
            own = {region: ranges[at] for region, ranges in parts.items()}
            network, subnetwork = self._build(
                name, f"{prefix}-{at + 1}", at + 1, own, args, interfaces
            )
            networks.append(network)
            subnetworks.append(subnetwork)
        self.networks = pulumi.Output.all(*networks)
        self.subnetworks = pulumi.Output.all(*subnetworks)
        self.register_outputs({"networks": self.networks, "subnetworks": self.subnetworks})

    def _build(
        self,
        name: str,
        network_name: str,
        number: int,
        ranges: dict[str, str],
        args: AcceleratorNetworksArgs,
        interfaces: InterfaceNetwork,
    ) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        """Return the names of one network and of its subnets."""
        project = args.get("project")
        network = compute.Network(
            f"{name}-{number}",
            auto_create_subnetworks=False,
            description=f"Interface {number} of accelerators.",
            mtu=interfaces.mtu,
            name=network_name,
            project=project,
            routing_mode="REGIONAL",
            opts=under(self),
        )
        made = [
            compute.Subnetwork(
                f"{name}-{number}-{region}",
                ip_cidr_range=cidr,
                name=network_name,
                network=network.id,
                project=project,
                region=region,
                opts=under(self),
            ).name
            for region, cidr in ranges.items()
        ]
        compute.Firewall(
            f"{name}-{number}-internal",
            allows=[
                {"ports": ["0-65535"], "protocol": "tcp"},
                {"ports": ["0-65535"], "protocol": "udp"},
                {"protocol": "icmp"},
            ],
            description="Nodes reach each other over this interface.",
            direction="INGRESS",
            name=f"{network_name}-internal",
            network=network.id,
            priority=1000,
            project=project,
            source_ranges=list(ranges.values()),
            opts=under(self),
        )
        return network.name, pulumi.Output.all(*made).apply(_first)


def divided(cidr: str, count: int, path: str) -> list[str]:
    """Return the ranges of `count` subnets, of equal size.

    Raises:
        pulumi.InputPropertyError: The range is invalid or too small.
    """
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        rule = f"must be an IPv4 range such as 192.168.0.0/20, got {cidr!r}"
        raise pulumi.InputPropertyError(path, rule) from error
    if network.prefixlen > NARROWEST:
        raise pulumi.InputPropertyError(path, f"must be /{NARROWEST} or larger, got {cidr}")
    bits = (count - 1).bit_length()
    return [str(part) for part in network.subnets(prefixlen_diff=bits)][:count]


def _first(names: list[str]) -> str:
    return names[0]


def _check_length(longest: str) -> None:
    try:
        check_name("compute", longest)
    except ValueError as error:
        raise pulumi.InputPropertyError("networkName", str(error)) from error

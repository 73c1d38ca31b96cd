"""Private services access of a network, through which Google's managed file systems are reached."""

import ipaddress
from typing import TypedDict

import pulumi
from pulumi_gcp import compute, servicenetworking

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.files.lustre import NARROWEST_PREFIX, PORT, SERVICE


class PrivateServicesArgs(TypedDict):
    """Inputs of `PrivateServices`."""

    network: pulumi.Input[str]
    """Network to connect, as projects/P/global/networks/N."""
    network_name: str
    """Name of the network, which is the prefix of the other names."""
    project: str
    """Project of the network."""
    services_cidr: str
    """Range that Google's services take addresses from, /23 or larger. Each Managed Lustre instance
    takes a /23. It must not overlap the network's subnets."""


class PrivateServices(pulumi.ComponentResource):
    """A range and a peering for Google's services, and a rule that lets Lustre answer.

    A network has one such peering. Use this only if it has none yet.
    """

    range_name: pulumi.Output[str]
    """Name of the allocated range."""

    def __init__(
        self, name: str, args: PrivateServicesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PrivateServices", name, {}, opts)
        args = checked(PrivateServicesArgs, args)
        network_name = name_of(args, "network_name", "compute")
        cidr = _range(args)
        address = compute.GlobalAddress(
            f"{name}-range",
            address=str(cidr.network_address),
            address_type="INTERNAL",
            name=f"{network_name}-services",
            network=args["network"],
            prefix_length=cidr.prefixlen,
            project=args["project"],
            purpose="VPC_PEERING",
            opts=under(self),
        )
        connection = servicenetworking.Connection(
            f"{name}-connection",
            network=args["network"],
            reserved_peering_ranges=[address.name],
            service=SERVICE,
            opts=under(self),
        )
        compute.Firewall(
            f"{name}-lustre",
            allows=[{"ports": [PORT], "protocol": "tcp"}],
            description="Managed Lustre servers reach the nodes that mount an instance.",
            direction="INGRESS",
            name=f"{network_name}-lustre",
            network=args["network"],
            priority=1000,
            project=args["project"],
            source_ranges=[str(cidr)],
            opts=under(self),
        )
        # known once the peering exists, so that an instance that takes it waits for the peering
        both = pulumi.Output.all(address.name, connection.id)
        self.range_name = both.apply(_first)
        self.register_outputs({"rangeName": self.range_name})


def _first(values: list[str]) -> str:
    return values[0]


def _range(args: PrivateServicesArgs) -> ipaddress.IPv4Network:
    text = args["services_cidr"]
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError as error:
        rule = f"must be an IPv4 range such as 10.64.0.0/20, got {text!r}"
        raise pulumi.InputPropertyError("servicesCidr", rule) from error
    if found.prefixlen > NARROWEST_PREFIX:
        rule = f"must be /{NARROWEST_PREFIX} or larger, got {text}"
        raise pulumi.InputPropertyError("servicesCidr", rule)
    return found

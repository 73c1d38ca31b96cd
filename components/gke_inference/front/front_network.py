"""The VPC from which a global front connects to the published gateways of regions."""

import hashlib
import ipaddress
from collections.abc import Callable
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.names import check_name
from gke_inference.settings.fields import RegionName

_PRIVATE = ipaddress.IPv4Network("10.0.0.0/8")
_EGRESS = ipaddress.IPv4Network("172.16.0.0/12")
_EGRESS_PREFIX = 26
"""Prefix of a subnet for instances on Cloud Run, the longest that Direct VPC egress accepts
(docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc)."""
_PREFIX = 28
"""Prefix of a subnet: 12 addresses for groups, of which the front has one in each region."""


class FrontNetworkArgs(TypedDict):
    """Inputs of `FrontNetwork`."""

    network_name: str
    """Name of the VPC and prefix of the names of its subnets."""
    regions: Annotated[list[RegionName], Field(min_length=1)]
    """Regions with a published gateway."""
    has_egress: NotRequired[bool]
    """Whether each region has a second subnet, for the instances of a `FrontRouter`. Default:
    false."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the network. Default: the provider's."""


class FrontNetwork(pulumi.ComponentResource):
    """A VPC with one subnet in each region, for the Private Service Connect backends of a front.

    A consumer of Private Service Connect is in another VPC than the published service
    (docs.cloud.google.com/vpc/docs/private-service-connect-backends). This VPC contains nothing
    else and is connected to no other network, so its ranges may overlap with any other.
    """

    egress_subnetworks: pulumi.Output[dict[str, str]]
    """The second subnet, by region. Empty without `has_egress`."""
    network_id: pulumi.Output[str]
    """`projects/P/global/networks/NAME`."""
    subnetworks: pulumi.Output[dict[str, str]]
    """`projects/P/regions/R/subnetworks/NAME` of the subnet, by region."""

    def __init__(
        self, name: str, args: FrontNetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:FrontNetwork", name, {}, opts)
        args = checked(FrontNetworkArgs, args)
        network_name, project = name_of(args, "network_name", "compute"), args.get("project")
        has_egress = args.get("has_egress", False)
        ranges = _ranges(args["regions"], front_range)
        of_egress = _ranges(args["regions"], egress_range) if has_egress else {}
        _check_length(network_name, args["regions"], "-run" if has_egress else "")
        network = compute.Network(
            name,
            auto_create_subnetworks=False,
            description="Connections of the front to the published gateways.",
            name=network_name,
            project=project,
            routing_mode="REGIONAL",
            opts=under(self),
        )

        def subnetwork(region: str, suffix: str, cidr: str) -> pulumi.Output[str]:
            return compute.Subnetwork(
                f"{name}-{region}{suffix}",
                ip_cidr_range=cidr,
                name=f"{network_name}-{region}{suffix}",
                network=network.id,
                project=project,
                region=region,
                opts=under(self),
            ).id

        subnetworks = {region: subnetwork(region, "", cidr) for region, cidr in ranges.items()}
        egress = {region: subnetwork(region, "-run", cidr) for region, cidr in of_egress.items()}
        self.egress_subnetworks = pulumi.Output.all(**egress)
        self.network_id = network.id
        self.subnetworks = pulumi.Output.all(**subnetworks)
        self.register_outputs(
            {
                "egressSubnetworks": self.egress_subnetworks,
                "networkId": self.network_id,
                "subnetworks": self.subnetworks,
            }
        )


def front_range(region: str) -> str:
    """Return the range of a region's subnet, which does not depend on the other regions."""
    return _part(_PRIVATE, _PREFIX, region)


def egress_range(region: str) -> str:
    """Return the range of a region's second subnet."""
    return _part(_EGRESS, _EGRESS_PREFIX, region)


def _part(of: ipaddress.IPv4Network, prefix: int, region: str) -> str:
    parts = 2 ** (prefix - of.prefixlen)
    at = int.from_bytes(hashlib.sha256(region.encode()).digest()) % parts
    return f"{of.network_address + at * 2 ** (32 - prefix)}/{prefix}"


def _ranges(regions: list[str], range_of: Callable[[str], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for region in sorted(regions):
        cidr = range_of(region)
        if cidr in found.values():
            raise pulumi.InputPropertyError(
                "regions", f"must have ranges of their own, got {cidr} for two, one is {region}"
            )
        found[region] = cidr
    return found


def _check_length(network_name: str, regions: list[str], suffix: str) -> None:
    try:
        check_name("compute", f"{network_name}-{max(regions, key=len)}{suffix}")
    except ValueError as error:
        raise pulumi.InputPropertyError("networkName", str(error)) from error

"""The VPC from which a global front connects to the published gateways of regions."""

import hashlib
import ipaddress
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.names import check_name
from gke_inference.settings.fields import RegionName

_PRIVATE = ipaddress.IPv4Network("10.0.0.0/8")
_PREFIX = 28
"""Prefix of a subnet: 12 addresses for groups, of which the front has one in each region."""


class FrontNetworkArgs(TypedDict):
    """Inputs of `FrontNetwork`."""

    network_name: str
    """Name of the VPC and prefix of the names of its subnets."""
    regions: Annotated[list[RegionName], Field(min_length=1)]
    """Regions with a published gateway."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the network. Default: the provider's."""


class FrontNetwork(pulumi.ComponentResource):
    """A VPC with one subnet in each region, for the Private Service Connect backends of a front.

    A consumer of Private Service Connect is in another VPC than the published service
    (docs.cloud.google.com/vpc/docs/private-service-connect-backends). This VPC contains nothing
    else and is connected to no other network, so its ranges may overlap with any other.
    """

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
        ranges = _ranges(args["regions"])
        _check_length(network_name, args["regions"])
        network = compute.Network(
            name,
            auto_create_subnetworks=False,
            description="Connections of the front to the published gateways.",
            name=network_name,
            project=project,
            routing_mode="REGIONAL",
            opts=under(self),
        )
        subnetworks = {
            region: compute.Subnetwork(
                f"{name}-{region}",
                ip_cidr_range=cidr,
                name=f"{network_name}-{region}",
                network=network.id,
                project=project,
                region=region,
                opts=under(self),
            ).id
            for region, cidr in ranges.items()
        }
        self.network_id = network.id
        self.subnetworks = pulumi.Output.all(**subnetworks)
        self.register_outputs({"networkId": self.network_id, "subnetworks": self.subnetworks})


def front_range(region: str) -> str:
    """Return the range of a region's subnet, which does not depend on the other regions."""
    parts = 2 ** (_PREFIX - _PRIVATE.prefixlen)
    at = int.from_bytes(hashlib.sha256(region.encode()).digest()) % parts
    first = _PRIVATE.network_address + at * 2 ** (32 - _PREFIX)
    return f"{first}/{_PREFIX}"


def _ranges(regions: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for region in sorted(regions):
        cidr = front_range(region)
        if cidr in found.values():
            raise pulumi.InputPropertyError(
                "regions", f"must have ranges of their own, got {cidr} for two, one is {region}"
            )
        found[region] = cidr
    return found


def _check_length(network_name: str, regions: list[str]) -> None:
    try:
        check_name("compute", f"{network_name}-{max(regions, key=len)}")
    except ValueError as error:
        raise pulumi.InputPropertyError("networkName", str(error)) from error

"""The address record that leads a host name to the gateways behind it."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import dns

from gke_inference.base.inputs import under, whole


class GatewayRecordArgs(TypedDict):
    """Inputs of `GatewayRecord`."""

    addresses: dict[str, pulumi.Input[str]]
    """IP address of the gateway by region, one or more."""
    hostname: str
    """Host name that clients use."""
    project: pulumi.Input[str]
    """Project of the zone."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that has the host name."""
    ttl_seconds: NotRequired[int]
    """How long others may remember an address, 5 to 86400. Default 300."""


class GatewayRecord(pulumi.ComponentResource):
    """One host name for the gateways of all regions: clients get the address nearest to them.

    The record checks no health: while a region is down, take its address out.
    """

    hostname: pulumi.Output[str]
    """The host name, which leads to the gateways once the record is there."""

    def __init__(
        self, name: str, args: GatewayRecordArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:GatewayRecord", name, {}, opts)
        ttl = whole(args, "ttl_seconds", 300, least=5, most=86_400)
        addresses = args["addresses"]
        if not addresses:
            raise pulumi.InputPropertyError("addresses", "must have one region or more, got none")
        is_single = len(addresses) == 1
        record = dns.RecordSet(
            name,
            managed_zone=args["zone"],
            name=f"{args['hostname']}.",
            project=args["project"],
            routing_policy=None
            if is_single
            else {
                "geos": [
                    {"location": region, "rrdatas": [address]}
                    for region, address in addresses.items()
                ]
            },
            rrdatas=list(addresses.values()) if is_single else None,
            ttl=ttl,
            type="A",
            opts=under(self),
        )
        self.hostname = record.name.apply(lambda dotted: dotted.rstrip("."))
        self.register_outputs({"hostname": self.hostname})

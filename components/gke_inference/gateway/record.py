"""The DNS record that resolves a hostname to the gateways behind it."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import dns

from gke_inference.base.inputs import under, whole


class GatewayRecordArgs(TypedDict):
    """Inputs of `GatewayRecord`."""

    addresses: dict[str, pulumi.Input[str]]
    """IP addresses of the gateways by region, one or more."""
    hostname: str
    """Hostname that clients use."""
    project: pulumi.Input[str]
    """Project of the zone."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that contains the hostname."""
    ttl_seconds: NotRequired[int]
    """TTL of the record, 5 to 86400. Default: 300."""


class GatewayRecord(pulumi.ComponentResource):
    """One hostname for the gateways of all regions: clients get the nearest IP address.

    The record has no health check. While a region is down, remove its address.
    """

    hostname: pulumi.Output[str]
    """The hostname, which resolves to the gateways once the record exists."""

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

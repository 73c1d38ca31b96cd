"""The DNS record that resolves a hostname to the gateways behind it."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import dns
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under

from .settings import TTL_SECONDS, TtlSeconds


class GatewayRecordArgs(TypedDict):
    """Inputs of `GatewayRecord`."""

    addresses: Annotated[dict[str, pulumi.Input[str]], Field(min_length=1)]
    """IP addresses of the gateways by region."""
    hostname: str
    """Hostname that clients use."""
    project: pulumi.Input[str]
    """Project of the zone."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that contains the hostname."""
    ttl_seconds: NotRequired[TtlSeconds]
    """TTL of the record, in seconds. Default: 300."""


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
        args = checked(GatewayRecordArgs, args)
        ttl = args.get("ttl_seconds", TTL_SECONDS)
        addresses = args["addresses"]
        is_single = len(addresses) == 1
        record = dns.RecordSet(
            name,
            managed_zone=args["zone"],
            name=f"{args['hostname']}.",
            project=args["project"],
            routing_policy=None
            if is_single
            else dns.RecordSetRoutingPolicyArgsDict(
                geos=[
                    {"location": region, "rrdatas": [address]}
                    for region, address in addresses.items()
                ]
            ),
            rrdatas=list(addresses.values()) if is_single else None,
            ttl=ttl,
            type="A",
            opts=under(self),
        )
        self.hostname = record.name.apply(lambda dotted: dotted.rstrip("."))
        self.register_outputs({"hostname": self.hostname})

"""The gateway's hostname: its certificates and DNS record."""

from collections.abc import Mapping

import pulumi

from gke_inference.gateway.certificate import GatewayCertificate, GatewayCertificateArgs
from gke_inference.gateway.record import GatewayRecordArgs
from infra.plan.front import certificate_zone, has_fleet_gateway, record_zone
from infra.stack import Platform


def certificate_args(platform: Platform, location: str) -> GatewayCertificateArgs | None:
    """Return the arguments of a regional or `global` certificate, if the stack issues it."""
    gateway = platform.gateway
    zone = certificate_zone(platform)
    if zone is None or gateway.dns is None:
        return None
    if gateway.certificate is None or gateway.hostname is None:
        return None
    args = GatewayCertificateArgs(
        certificate_name=gateway.certificate,
        hostname=gateway.hostname,
        labels={"env": platform.environment},
        location=location,
        project=platform.project,
        ttl_seconds=gateway.dns.ttl_seconds,
        zone=zone.name,
        zone_project=zone.project,
    )
    if has_fleet_gateway(gateway):
        args["all_regions"] = True
    return args


def record_args(
    platform: Platform, addresses: Mapping[str, pulumi.Input[str]]
) -> GatewayRecordArgs | None:
    """Return the arguments of the hostname's DNS record, if the stack creates it.

    Args:
        platform: The stack.
        addresses: Address of the gateway of each region that has one.
    """
    gateway, zone = platform.gateway, record_zone(platform)
    if zone is None or gateway.dns is None or gateway.hostname is None or not addresses:
        return None
    return GatewayRecordArgs(
        addresses=dict(addresses),
        hostname=gateway.hostname,
        project=zone.project,
        ttl_seconds=gateway.dns.ttl_seconds,
        zone=zone.name,
    )


def build_front_certificate(
    platform: Platform, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the global certificate of the front, if the stack issues it."""
    args = certificate_args(platform, "global")
    return [] if args is None else [GatewayCertificate("front-certificate", args, opts)]

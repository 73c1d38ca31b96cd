"""The gateway's hostname: its certificates and DNS record."""

from collections.abc import Mapping

import pulumi

from gke_inference.gateway.certificate import GatewayCertificate, GatewayCertificateArgs
from gke_inference.gateway.record import GatewayRecordArgs
from infra.plan.front import FrontPlan
from infra.plan.project import ProjectPlan


def certificate_args(
    front: FrontPlan, project: ProjectPlan, location: str
) -> GatewayCertificateArgs | None:
    """Return the arguments of a regional or `global` certificate, if the stack issues it."""
    gateway, zone = front.gateway, front.certificate_zone
    if zone is None or gateway.dns is None:
        return None
    if gateway.certificate is None or gateway.hostname is None:
        return None
    args = GatewayCertificateArgs(
        certificate_name=gateway.certificate,
        hostname=gateway.hostname,
        labels=project.labels,
        location=location,
        project=project.id,
        ttl_seconds=gateway.dns.ttl_seconds,
        zone=zone.name,
        zone_project=zone.project,
    )
    if gateway.has_fleet_gateway:
        args["all_regions"] = True
    return args


def record_args(
    front: FrontPlan, addresses: Mapping[str, pulumi.Input[str]]
) -> GatewayRecordArgs | None:
    """Return the arguments of the hostname's DNS record, if the stack creates it.

    Args:
        front: Endpoints of the stack.
        addresses: Address of the gateway of each region that has one.
    """
    gateway, zone = front.gateway, front.record_zone
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
    front: FrontPlan, project: ProjectPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the global certificate of the front, if the stack issues it."""
    args = certificate_args(front, project, "global")
    return [] if args is None else [GatewayCertificate("front-certificate", args, opts)]

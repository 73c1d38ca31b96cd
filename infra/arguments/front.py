"""Arguments for the front: published gateways, and routing of clients to the regions."""

from collections.abc import Collection, Mapping

import pulumi

from gke_inference.front.dns_front import DnsFrontArgs
from gke_inference.front.front_network import FrontNetworkArgs
from gke_inference.front.global_front import FrontRegionArgs, GlobalFrontArgs
from gke_inference.front.people import FrontPeopleArgs
from gke_inference.front.published_gateway import PublishedGatewayArgs
from infra.plan.clients import certificates_of, people_of
from infra.plan.endpoint import port_of
from infra.plan.front import (
    answering,
    has_fleet_gateway,
    in_front,
    is_published,
    paths_of_models,
    record_zone,
)
from infra.plan.names import Names
from infra.stack import Front, Platform

_OWN_CONNECTIONS = 10
"""Maximum number of endpoints of the platform's own project. The front has one group in each
region. Google does not document whether the backend services of a group share a connection, so
there is room for more."""


def published_args(
    platform: Platform,
    region: str,
    gateway_id: pulumi.Input[str],
    nat_subnetwork: pulumi.Input[str] | None,
) -> PublishedGatewayArgs | None:
    """Return the arguments that publish a region's gateway, if it is published."""
    gateway = platform.gateway
    if not is_published(gateway) or nat_subnetwork is None:
        return None
    own = {platform.project: _OWN_CONNECTIONS} if gateway.front is Front.GLOBAL else {}
    others = {} if gateway.publish is None else gateway.publish.consumers
    return PublishedGatewayArgs(
        attachment_name=Names(platform).gateway(),
        consumers={**own, **others},
        gateway_id=gateway_id,
        nat_subnetwork=nat_subnetwork,
        project=platform.project,
        region=region,
    )


def front_network_args(platform: Platform, regions: Collection[str]) -> FrontNetworkArgs:
    """Return the arguments of the VPC from which the front connects to published gateways."""
    return FrontNetworkArgs(
        network_name=Names(platform).front(), project=platform.project, regions=sorted(regions)
    )


def global_front_args(
    platform: Platform,
    regions: Mapping[str, FrontRegionArgs],
    network: pulumi.Input[str],
) -> GlobalFrontArgs | None:
    """Return the arguments of the global load balancer, if it is the front.

    Args:
        platform: The stack.
        regions: What joins each region that has a gateway.
        network: VPC of the front.
    """
    gateway = platform.gateway
    if gateway.front is not Front.GLOBAL or gateway.certificate is None or not regions:
        return None
    port = port_of(gateway)
    args = GlobalFrontArgs(
        answering=list(answering(platform)),
        certificate=gateway.certificate,
        front_name=Names(platform).front(),
        gateway_port=port,
        labels={"env": platform.environment},
        log_percent=gateway.log_percent,
        network=network,
        port=port,
        project=platform.project,
        regions=dict(regions),
    )
    certificates = certificates_of(platform)
    if certificates is not None:
        args["client_authorities"] = list(certificates.authorities)
    people = people_of(platform)
    if people is not None and gateway.hostname is not None:
        args["people"] = FrontPeopleArgs(
            gateway_hostname=gateway.hostname,
            hostname=people.hostname,
            members=list(people.members),
        )
    if paths := paths_of_models(platform):
        args["models"] = {name: list(found) for name, found in paths.items()}
    if gateway.requests_per_minute is not None:
        args["requests_per_minute"] = gateway.requests_per_minute
    if platform.models:
        args["timeout_seconds"] = max(each.timeout_seconds for each in platform.models.values())
    return args


def dns_front_args(
    platform: Platform, addresses: Mapping[str, pulumi.Input[str]], network: pulumi.Input[str]
) -> DnsFrontArgs | None:
    """Return the arguments of the DNS records for all regions, if they are the front.

    Args:
        platform: The stack.
        addresses: Address in each region that has one.
        network: VPC of the platform.
    """
    gateway = platform.gateway
    is_fleet = has_fleet_gateway(gateway)
    has_record = gateway.front is Front.DNS or is_fleet
    zone = record_zone(platform)
    if not has_record or zone is None or gateway.dns is None or gateway.hostname is None:
        return None
    regions = in_front(platform) if is_fleet else answering(platform)
    args = DnsFrontArgs(
        addresses={name: addresses[name] for name in regions if name in addresses},
        exposure=gateway.exposure.value,
        front_name=Names(platform).front(),
        hostnames=hostnames(platform),
        network=network,
        port=port_of(gateway),
        project=platform.project,
        zone=zone.name,
        zone_project=zone.project,
    )
    if is_fleet:
        args["is_cross_region"] = True
    if "ttl_seconds" in gateway.dns.model_fields_set:
        args["ttl_seconds"] = gateway.dns.ttl_seconds
    return args


def hostnames(platform: Platform) -> list[str]:
    """Return the hostnames of the gateway and of teams."""
    named = [platform.gateway.hostname, *(team.hostname for team in platform.teams.values())]
    return [name for name in named if name is not None]

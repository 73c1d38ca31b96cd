"""Routing of clients to regions: a DNS record, health-checked records, or a global front."""

from collections.abc import Collection, Mapping

import pulumi

from gke_inference.front.dns_front import DnsFront, DnsFrontArgs
from gke_inference.front.front_network import FrontNetwork, FrontNetworkArgs
from gke_inference.front.global_front import FrontRegionArgs, GlobalFront, GlobalFrontArgs
from gke_inference.front.people import FrontPeopleArgs
from gke_inference.front.published_gateway import PublishedGatewayArgs
from gke_inference.gateway.record import GatewayRecord
from infra.deploy.built_region import BuiltRegion
from infra.deploy.hostname import build_front_certificate, record_args
from infra.deploy.network import RegionNetwork
from infra.plan.clients import certificates_of, people_of
from infra.plan.front import (
    answering,
    has_fleet_gateway,
    in_front,
    is_published,
    paths_of_models,
    port_of,
    record_zone,
)
from infra.plan.names import resolve_names
from infra.stack import Front, Platform


def build_front(
    platform: Platform,
    networks: Mapping[str, RegionNetwork],
    built: Mapping[str, BuiltRegion],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str] | None:
    """Build the routing of clients to the regions. Return the global IP address, if any."""
    addresses: dict[str, pulumi.Input[str]] = {
        region: parts.gateway.address
        for region, parts in built.items()
        if parts.gateway is not None
    }
    network = next(iter(networks.values())).network
    front = platform.gateway.front
    if front is Front.DNS:
        args = dns_front_args(platform, addresses, network)
        if args is not None:
            DnsFront("front", args, opts)
        return None
    if front is Front.GLOBAL:
        address = _build_global(platform, built, opts)
        _lead(platform, {} if address is None else {"front": address}, opts)
        return address
    if front is not Front.INTERNAL:
        _lead(platform, addresses, opts)
    return None


def _build_global(
    platform: Platform, built: Mapping[str, BuiltRegion], opts: pulumi.ResourceOptions
) -> pulumi.Output[str] | None:
    """Build the global load balancer, its network, and its certificate if the stack issues it."""
    published = {
        name: parts.published.attachment
        for name, parts in built.items()
        if parts.published is not None
    }
    if not published:
        return None
    network = FrontNetwork("front-network", front_network_args(platform, published), opts)
    regions = {
        name: FrontRegionArgs(
            attachment=attachment,
            subnetwork=network.subnetworks.apply(lambda links, region=name: links[region]),
        )
        for name, attachment in published.items()
    }
    args = global_front_args(platform, regions, network.network_id)
    if args is None:
        return None
    made = pulumi.ResourceOptions(depends_on=build_front_certificate(platform, opts))
    return GlobalFront("front", args, pulumi.ResourceOptions.merge(opts, made)).address


def _lead(
    platform: Platform,
    addresses: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> None:
    """Create the record of each hostname, if the stack has a DNS zone for it."""
    args = record_args(platform, addresses)
    if args is None:
        return
    GatewayRecord("gateway-record", args, opts)
    people = people_of(platform)
    if people is not None:
        GatewayRecord("gateway-record-people", {**args, "hostname": people.hostname}, opts)
    for name, team in platform.teams.items():
        if team.hostname is not None:
            GatewayRecord(f"gateway-record-{name}", {**args, "hostname": team.hostname}, opts)


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
        attachment_name=resolve_names(platform).gateway(),
        consumers={**own, **others},
        gateway_id=gateway_id,
        nat_subnetwork=nat_subnetwork,
        project=platform.project,
        region=region,
    )


def front_network_args(platform: Platform, regions: Collection[str]) -> FrontNetworkArgs:
    """Return the arguments of the VPC from which the front connects to published gateways."""
    return FrontNetworkArgs(
        network_name=resolve_names(platform).front(),
        project=platform.project,
        regions=sorted(regions),
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
        front_name=resolve_names(platform).front(),
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
        exposure=gateway.exposure,
        front_name=resolve_names(platform).front(),
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

"""Routing of clients to regions: a DNS record, health-checked records, or a global front."""

from collections.abc import Mapping

import pulumi

from gke_inference.front.dns_front import DnsFront
from gke_inference.front.fleet import Fleet
from gke_inference.front.fleet_gateway import FleetGateway
from gke_inference.front.front_network import FrontNetwork
from gke_inference.front.global_front import FrontRegionArgs, GlobalFront
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.record import GatewayRecord
from infra.arguments.fleet import fleet_args, fleet_gateway_args
from infra.arguments.front import dns_front_args, front_network_args, global_front_args
from infra.arguments.hostname import certificate_args, record_args
from infra.arguments.provisioning import RegionNetwork
from infra.plan.clients import people_of
from infra.plan.front import config_region, has_fleet_gateway
from infra.region import BuiltRegion
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


def build_fleet(
    platform: Platform,
    networks: Mapping[str, RegionNetwork],
    built: Mapping[str, BuiltRegion],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[dict[str, str]] | None:
    """Build the gateway over all clusters, if it is the front. Return its address by region."""
    config = config_region(platform)
    exported = {name: each.exported for name, each in built.items() if each.exported is not None}
    if not has_fleet_gateway(platform.gateway) or config not in exported:
        return None
    ids = {name: built[name].cluster.cluster_id for name in exported}
    clusters: list[pulumi.Resource] = [built[name].cluster for name in exported]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=clusters))
    fleet = Fleet("fleet", fleet_args(platform, ids), after)
    models = {one["model_name"]: one for each in exported.values() for one in each.models}
    needed: list[pulumi.Resource] = [fleet, *(each.pools for each in exported.values())]
    needed += _build_certificate(platform, opts)
    gateway = FleetGateway(
        "front",
        fleet_gateway_args(platform, list(models.values())),
        pulumi.ResourceOptions.merge(
            exported[config].inside, pulumi.ResourceOptions(depends_on=needed)
        ),
    )
    addresses: dict[str, pulumi.Input[str]] = {
        region: gateway.addresses.apply(lambda found, region=region: found[region])
        for region in exported
    }
    record = dns_front_args(platform, addresses, networks[config].network)
    if record is not None:
        DnsFront("front-record", record, opts)
    return gateway.addresses


def _build_certificate(platform: Platform, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Build the global certificate of the front, if the stack issues it."""
    args = certificate_args(platform, "global")
    return [] if args is None else [GatewayCertificate("front-certificate", args, opts)]


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
    made = pulumi.ResourceOptions(depends_on=_build_certificate(platform, opts))
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

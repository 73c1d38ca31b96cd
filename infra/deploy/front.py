"""Routing of clients to regions: a DNS record, health-checked records, or a global front."""

from collections.abc import Collection, Mapping

import pulumi

from gke_inference.front.dns_front import DnsFront, DnsFrontArgs
from gke_inference.front.front_network import FrontNetwork, FrontNetworkArgs
from gke_inference.front.front_router import (
    FrontModelArgs,
    FrontRouter,
    FrontRouterArgs,
    RouterGuardArgs,
    RouterRegionArgs,
)
from gke_inference.front.global_front import FrontRegionArgs, GlobalFront, GlobalFrontArgs
from gke_inference.front.people import FrontPeopleArgs
from gke_inference.front.published_gateway import PublishedGatewayArgs
from gke_inference.gateway.record import GatewayRecord
from infra.deploy.built_region import BuiltRegion
from infra.deploy.hostname import build_front_certificate, record_args
from infra.deploy.network import RegionNetwork
from infra.plan import Plan, RegionPlan
from infra.plan.front import FrontPlan, RoutedModel
from infra.plan.guardrails import timeout_ms
from infra.stack import Front, Gateway


def build_front(
    plan: Plan,
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
    front, kind = plan.front, plan.front.gateway.front
    if kind is Front.DNS:
        args = dns_front_args(plan, addresses, network)
        if args is not None:
            DnsFront("front", args, opts)
        return None
    if kind is Front.GLOBAL:
        address = _build_global(plan, built, opts)
        _lead(front, {} if address is None else {"front": address}, opts)
        return address
    if kind is not Front.INTERNAL:
        _lead(front, addresses, opts)
    return None


def _build_global(
    plan: Plan,
    built: Mapping[str, BuiltRegion],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str] | None:
    """Build the global load balancer, its network, and its certificate if the stack issues it."""
    published = {
        name: parts.published.attachment
        for name, parts in built.items()
        if parts.published is not None
    }
    if not published:
        return None
    has_router = plan.front.router is not None
    args = front_network_args(plan, published, has_egress=has_router)
    network = FrontNetwork("front-network", args, opts)
    regions = {
        name: FrontRegionArgs(
            attachment=attachment,
            subnetwork=network.subnetworks.apply(lambda links, region=name: links[region]),
        )
        for name, attachment in published.items()
    }
    args = global_front_args(plan, regions, network.network_id)
    if args is None:
        return None
    joined = {
        name: RouterRegionArgs(
            attachment=each["attachment"],
            egress_subnetwork=network.egress_subnetworks.apply(
                lambda links, region=name: links[region]
            ),
            subnetwork=each["subnetwork"],
        )
        for name, each in regions.items()
        if has_router
    }
    routing = front_router_args(plan, joined, network.network_id)
    if routing is not None:
        services = FrontRouter("front-router", routing, opts).services
        args["routers"] = {
            name: services.apply(lambda found, region=name: found[region]) for name in joined
        }
    after_certificate = pulumi.ResourceOptions(
        depends_on=build_front_certificate(plan.front, plan.project, opts)
    )
    return GlobalFront("front", args, pulumi.ResourceOptions.merge(opts, after_certificate)).address


def _lead(
    front: FrontPlan,
    addresses: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> None:
    """Create the record of each hostname, if the stack has a DNS zone for it."""
    args = record_args(front, addresses)
    if args is None:
        return
    GatewayRecord("gateway-record", args, opts)
    if front.people is not None:
        GatewayRecord("gateway-record-people", {**args, "hostname": front.people.hostname}, opts)
    for name, hostname in front.team_hostnames.items():
        GatewayRecord(f"gateway-record-{name}", {**args, "hostname": hostname}, opts)


_OWN_CONNECTIONS = 10
"""Maximum number of endpoints of the platform's own project. The front has one group in each
region. Google does not document whether the backend services of a group share a connection, so
there is room for more."""


def published_args(
    gateway: Gateway,
    region: RegionPlan,
    gateway_id: pulumi.Input[str],
    nat_subnetwork: pulumi.Input[str] | None,
) -> PublishedGatewayArgs | None:
    """Return the arguments that publish a region's gateway, if it is published."""
    if not gateway.is_published or nat_subnetwork is None:
        return None
    own = {region.project.id: _OWN_CONNECTIONS} if gateway.front is Front.GLOBAL else {}
    others = {} if gateway.publish is None else gateway.publish.consumers
    return PublishedGatewayArgs(
        attachment_name=region.names.gateway(),
        consumers={**own, **others},
        gateway_id=gateway_id,
        nat_subnetwork=nat_subnetwork,
        project=region.project.id,
        region=region.name,
    )


def front_network_args(
    plan: Plan, regions: Collection[str], *, has_egress: bool = False
) -> FrontNetworkArgs:
    """Return the arguments of the VPC from which the front connects to published gateways."""
    args = FrontNetworkArgs(
        network_name=plan.names.front(),
        project=plan.project.id,
        regions=sorted(regions),
    )
    if has_egress:
        args["has_egress"] = True
    return args


def front_router_args(
    plan: Plan,
    regions: Mapping[str, RouterRegionArgs],
    network: pulumi.Input[str],
) -> FrontRouterArgs | None:
    """Return the arguments of body-based routing at the front, if the stack has it.

    Args:
        plan: The stack, resolved.
        regions: What joins each region that has a gateway.
        network: VPC of the front.
    """
    front, names, project = plan.front, plan.names, plan.project
    router, gateway = front.router, front.gateway
    if router is None or gateway.hostname is None:
        return None
    settings = router.settings
    args = FrontRouterArgs(
        account_id=names.front_router_account(),
        concurrency=settings.concurrency,
        drained=[name for name in regions if name not in front.routed],
        gateway_port=gateway.listening_port,
        hostname=gateway.hostname,
        labels=project.labels,
        max_instances=settings.max_instances,
        min_instances=settings.min_instances,
        models={name: _routed(each) for name, each in router.models.items() if each.regions},
        network=network,
        project=project.id,
        regions=dict(regions),
        service_name=names.front_router(),
    )
    if front.timeout_seconds is not None:
        args["timeout_seconds"] = front.timeout_seconds
    if router.guardrail is not None and settings.guardrail is not None:
        args["guard"] = RouterGuardArgs(
            failure=router.guardrail.failure,
            template_id=names.guardrail(settings.guardrail),
            timeout_ms=timeout_ms(router.guardrail),
        )
    return args


def _routed(model: RoutedModel) -> FrontModelArgs:
    args = FrontModelArgs(regions=list(model.regions))
    if model.fallback is not None:
        args["fallback"] = model.fallback
    return args


def global_front_args(
    plan: Plan,
    regions: Mapping[str, FrontRegionArgs],
    network: pulumi.Input[str],
) -> GlobalFrontArgs | None:
    """Return the arguments of the global load balancer, if it is the front.

    Args:
        plan: The stack, resolved.
        regions: What joins each region that has a gateway.
        network: VPC of the front.
    """
    front, project, gateway = plan.front, plan.project, plan.front.gateway
    if gateway.front is not Front.GLOBAL or gateway.certificate is None or not regions:
        return None
    port = gateway.listening_port
    args = GlobalFrontArgs(
        answering=list(front.answering if front.router is None else front.routed),
        certificate=gateway.certificate,
        front_name=plan.names.front(),
        gateway_port=port,
        labels=project.labels,
        log_percent=gateway.log_percent,
        network=network,
        port=port,
        project=project.id,
        regions=dict(regions),
    )
    if front.certificates is not None:
        args["client_authorities"] = list(front.certificates.authorities)
    people = front.people
    if people is not None and gateway.hostname is not None:
        args["people"] = FrontPeopleArgs(
            gateway_hostname=gateway.hostname,
            hostname=people.hostname,
            members=list(people.members),
        )
    if front.paths:
        args["models"] = {name: list(serving) for name, serving in front.paths.items()}
    if gateway.requests_per_minute is not None:
        args["requests_per_minute"] = gateway.requests_per_minute
    if front.timeout_seconds is not None:
        args["timeout_seconds"] = front.timeout_seconds
    return args


def dns_front_args(
    plan: Plan,
    addresses: Mapping[str, pulumi.Input[str]],
    network: pulumi.Input[str],
) -> DnsFrontArgs | None:
    """Return the arguments of the DNS records for all regions, if they are the front.

    Args:
        plan: The stack, resolved.
        addresses: Address in each region that has one.
        network: VPC of the platform.
    """
    front, gateway = plan.front, plan.front.gateway
    is_fleet = gateway.has_fleet_gateway
    has_record = gateway.front is Front.DNS or is_fleet
    zone = front.record_zone
    if not has_record or zone is None or gateway.dns is None or gateway.hostname is None:
        return None
    regions = front.routed if is_fleet else front.answering
    args = DnsFrontArgs(
        addresses={name: addresses[name] for name in regions if name in addresses},
        exposure=gateway.exposure,
        front_name=plan.names.front(),
        hostnames=front.hostnames,
        network=network,
        port=gateway.listening_port,
        project=plan.project.id,
        zone=zone.name,
        zone_project=zone.project,
    )
    if is_fleet:
        args["is_cross_region"] = True
    if "ttl_seconds" in gateway.dns.model_fields_set:
        args["ttl_seconds"] = gateway.dns.ttl_seconds
    return args

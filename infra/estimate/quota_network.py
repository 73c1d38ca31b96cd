"""Quota needs of the network, clusters and gateways."""

import math
from collections.abc import Iterator

from gke_inference.catalogue.accelerators import machine
from gke_inference.catalogue.node_networks import interface_network
from gke_inference.catalogue.quotas import (
    NAT_PORTS_PER_NODE,
    made_by_google,
    metric,
    profile_networks,
)
from infra.estimate.claims import claims
from infra.estimate.quota_nodes import QuotaRequirement, system_nodes
from infra.plan import Plan, RegionPlan
from infra.stack import Front, Gateway, Task

_SUBNETWORKS = 2  # nodes and proxies
_SHARED_BACKENDS = 2  # the body router and the model catalog
_OWN_BACKENDS = 1  # the catalog of a team's models
_SYSTEM_POOLS = 1


def network_requirements(plan: Plan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of networks, clusters and gateways."""
    if plan.network.is_created:
        yield from _network(len(plan.regions), plan.front.gateway.is_published)
        if plan.network.services_range is not None:
            yield QuotaRequirement(metric("FIREWALLS"), None, "network", "Managed Lustre", 1)
        yield from _interface_networks(plan)
    if plan.network.host_project is None:  # GKE adds its rules to the quota of the host project
        yield from _firewalls(plan)
        for region in plan.regions.values():
            yield from _accelerator_networks(region)
    for region in plan.regions.values():
        yield from _groups(region)
        if plan.network.is_created:
            yield from _nat(region)
        if region.is_exported:
            yield from _exported(region)
        elif region.serves_models:
            yield from _gateway(plan.platform.gateway, region)
    yield from _front(plan)


def backend_requirements(plan: Plan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a team's models behind an existing gateway."""
    for region in plan.regions.values():
        if region.served:
            yield from _backends(plan.platform.gateway, region, _OWN_BACKENDS)


def _network(regions: int, published: bool) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a created network."""
    who = "nodes, proxies and published connections" if published else "nodes and proxies"
    subnetworks = (_SUBNETWORKS + published) * regions
    for name, what, amount in (
        ("NETWORKS", "the network", 1),
        ("SUBNETWORKS", who, subnetworks),
        ("ROUTERS", "address translation", regions),
        ("FIREWALLS", "the network", 1),
    ):
        yield QuotaRequirement(metric(name), None, "network", what, amount)


def _interface_networks(plan: Plan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of the networks of interfaces: each has a subnet in every region."""
    used = [region.interface_network for region in plan.regions.values()]
    names = [name for name in used if name is not None]
    if not names:
        return
    count, regions = interface_network(names[0]).interfaces, len(names)
    amounts = {"NETWORKS": count, "SUBNETWORKS": count * regions, "FIREWALLS": count}
    for name, amount in amounts.items():
        yield QuotaRequirement(metric(name), None, "network", "interfaces of accelerators", amount)


def _firewalls(plan: Plan) -> Iterator[QuotaRequirement]:
    """Yield the firewall rules that GKE creates with a cluster."""
    clusters = sum(1 for each in plan.regions.values() if each.settings.existing.cluster is None)
    amount = made_by_google("firewalls_per_cluster") * clusters
    yield QuotaRequirement(metric("FIREWALLS"), None, "network", "made by GKE", amount)


def _accelerator_networks(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the networks that GKE creates for RDMA: per zone and machine type of a cluster."""
    networks = {
        (zone, rung.accelerator, rung.machine_type)
        for capacity in region.used_capacity
        for at in capacity.rdma_rungs
        for rung in (capacity.rungs[at],)
        for zone in capacity.zones[at]
    }
    who = f"made by GKE for RDMA in {region.name}"
    for _, accelerator, name in sorted(networks):
        network = machine(accelerator, name).network
        for quota, amount in ({} if network is None else profile_networks(network)).items():
            yield QuotaRequirement(metric(quota), None, "network", who, amount)


def _groups(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield one managed instance group per node pool and zone."""
    pools = 0 if region.system_nodes is None else _SYSTEM_POOLS
    groups = pools * len(region.settings.zones)
    groups += sum(
        len(zones) for capacity in region.used_capacity for zones in capacity.zones.values()
    )
    groups += sum(_slices(region))
    for name in ("INSTANCE_GROUPS", "INSTANCE_GROUP_MANAGERS"):
        yield QuotaRequirement(metric(name), region.name, "machine", "node pools by zone", groups)


def _slices(region: RegionPlan) -> Iterator[int]:
    """Yield the additional node pools of TPU slices: each replica is a node pool."""
    for claim in claims(region):
        if any(rung.is_slice for rung in claim.rungs.values()):
            yield claim.replicas - 1


def _nat(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the IP addresses that Cloud NAT uses if all nodes use their maximum number of ports."""
    nodes = sum(max(map(claim.nodes, claim.rungs), default=0) for claim in claims(region))
    nodes += system_nodes(region)
    addresses = math.ceil(nodes * NAT_PORTS_PER_NODE / made_by_google("ports_per_nat_address"))
    amount = max(addresses, 1)
    yield QuotaRequirement(
        metric("IN_USE_ADDRESSES"), region.name, "address", "address translation", amount
    )


def _gateway(gateway: Gateway, region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a region's gateway: address, rule, proxy, URL map and backends."""
    name = region.name
    is_external = not gateway.has_internal_gateways
    kind = "EXTERNAL" if is_external else "INTERNAL"
    addresses = ("STATIC_ADDRESSES", "IN_USE_ADDRESSES") if is_external else ("INTERNAL_ADDRESSES",)
    for address in addresses:
        yield QuotaRequirement(metric(address), name, "address", "gateway", 1)
    rule = f"REGIONAL_{kind}_MANAGED_FORWARDING_RULES_PER_REGION_PER_NETWORK"
    yield QuotaRequirement(metric(rule), name, "network", "gateway", 1)
    yield from _backends(gateway, region, _SHARED_BACKENDS)
    where = f"gateway in {name}"
    yield QuotaRequirement(metric("URL_MAPS"), None, "network", where, 1)
    proxy = "TARGET_HTTP_PROXIES" if gateway.certificate is None else "TARGET_HTTPS_PROXIES"
    yield QuotaRequirement(metric(proxy), None, "network", where, 1)


def _exported(region: RegionPlan) -> Iterator[QuotaRequirement]:
    """Yield the groups of a region's pools and pickers, for a gateway over all clusters."""
    groups = 2 * len(region.served) * len(region.settings.zones)
    what = "exported models and pickers, by zone"
    yield QuotaRequirement(metric("NETWORK_ENDPOINT_GROUPS"), region.name, "network", what, groups)


def _front(plan: Plan) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of a front in addition to the gateways, as far as quotas are known.

    Addresses, forwarding rules and backend services of global load balancers have separate quotas,
    which the catalog does not list.
    """
    platform = plan.platform
    who = "the front over all regions"
    if platform.gateway.front is Front.DNS and not platform.gateway.has_internal_gateways:
        yield QuotaRequirement(metric("HEALTH_CHECKS"), None, "network", who, 1)
    if platform.gateway.front is Front.INTERNAL:
        yield QuotaRequirement(metric("URL_MAPS"), None, "network", who, 1)
        proxy = "HTTP" if platform.gateway.certificate is None else "HTTPS"
        yield QuotaRequirement(metric(f"TARGET_{proxy}_PROXIES"), None, "network", who, 1)
        yield QuotaRequirement(metric("HEALTH_CHECKS"), None, "network", who, len(platform.models))
    if platform.gateway.front is not Front.GLOBAL:
        return
    yield QuotaRequirement(metric("NETWORKS"), None, "network", who, 1)
    subnets = len(plan.front.regions) * (1 if plan.front.router is None else 2)
    yield QuotaRequirement(metric("SUBNETWORKS"), None, "network", who, subnets)
    redirects = 0 if platform.gateway.redirect_port is None else 1
    yield QuotaRequirement(metric("URL_MAPS"), None, "network", who, 1 + redirects)
    yield QuotaRequirement(metric("TARGET_HTTPS_PROXIES"), None, "network", who, 1)
    if redirects:
        yield QuotaRequirement(metric("TARGET_HTTP_PROXIES"), None, "network", who, redirects)
    for name in plan.front.regions:
        yield QuotaRequirement(metric("NETWORK_ENDPOINT_GROUPS"), name, "network", who, 1)


def _backends(gateway: Gateway, region: RegionPlan, beside: int) -> Iterator[QuotaRequirement]:
    """Yield the backend services of a region: models, pickers and shared services."""
    name = region.name
    kind = "INTERNAL" if gateway.has_internal_gateways else "EXTERNAL"
    pickers = sum(1 for served in region.served if served.settings.task is Task.GENERATE)
    backends = len(region.served) + pickers + beside
    who = "models, pickers, router and catalogue"
    services = metric(f"REGIONAL_{kind}_MANAGED_BACKEND_SERVICES")
    yield QuotaRequirement(services, name, "network", who, backends)
    zones = len(region.settings.zones)
    groups = metric("NETWORK_ENDPOINT_GROUPS")
    yield QuotaRequirement(groups, name, "network", f"{who}, by zone", backends * zones)
    where = f"gateway in {name}"
    yield QuotaRequirement(metric("HEALTH_CHECKS"), None, "network", where, backends)

"""One VPC for all regions of a platform, with the subnets and NAT that GKE and gateways need."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.load_balancing import BACKEND_PORTS, HEALTH_CHECK_RANGES
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.quotas import NAT_PORTS_PER_NODE
from gke_inference.settings import Word

from .rules import check_overlaps, check_range
from .settings import Mtu, RegionRanges

PODS_RANGE = "pods"
SERVICES_RANGE = "services"

_PORTS = re.compile(r"\d{1,5}(-\d{1,5})?")


class ProxyScope(Word):
    """Gateways whose managed proxies have a subnet."""

    REGIONAL = "regional"
    GLOBAL = "global"


_PURPOSES = {
    ProxyScope.REGIONAL: "REGIONAL_MANAGED_PROXY",
    ProxyScope.GLOBAL: "GLOBAL_MANAGED_PROXY",
}


class NetworkArgs(TypedDict):
    """Inputs of `Network`."""

    network_name: str
    """Name of the VPC and prefix of subnet, router and rule names."""
    regions: Annotated[dict[str, RegionRanges], Field(min_length=1)]
    """Address ranges by region."""
    mtu: NotRequired[Mtu]
    """MTU in bytes. 8896 suits multi-host slices. It cannot change in place while VMs
    are running. Default: 1460."""
    nat: NotRequired[bool]
    """Whether private nodes can reach the internet. Without it, all images must come from Artifact
    Registry and all weights from Cloud Storage. Default: true."""
    ports: NotRequired[list[str]]
    """Pod ports that health checks and proxies reach, such as `8000` or `9002-9005`. Default: those
    of engines, catalog, pickers, router and client gate."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the network. Default: the provider's."""
    proxies: NotRequired[ProxyScope]
    """Gateways whose managed proxies use the range `proxies`: `global` for those over several
    regions, such as `FleetGateway`. A region cannot have both. Default: `regional`."""


class Network(pulumi.ComponentResource):
    """A VPC with a node subnet, a proxy subnet, a router and NAT in every region.

    A VPC denies ingress unless a rule allows it. The one rule allows health checks and the proxies
    of the regional gateways to reach pods, even before the first Gateway exists and where GKE may
    not create rules (Shared VPC). Nodes reach Google APIs within Google's network.
    """

    network_id: pulumi.Output[str]
    """`projects/P/global/networks/NAME`."""
    network_name: pulumi.Output[str]
    """Name of the VPC."""
    pods_range_name: pulumi.Output[str]
    """Name of the secondary range for pods, the same in every region."""
    services_range_name: pulumi.Output[str]
    """Name of the secondary range for services, the same in every region."""
    published_subnetworks: pulumi.Output[dict[str, str]]
    """Self link of the Private Service Connect subnet, by region."""
    subnetworks: pulumi.Output[dict[str, str]]
    """Name of the node subnet by region."""

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Network", name, {}, opts)
        args = checked(NetworkArgs, args)
        network_name = name_of(args, "network_name", "compute")
        regions = args["regions"]
        keep(_problems(regions))
        for region in regions:
            has_published = regions[region].published is not None
            _check_length(f"{network_name}-{region}-{'published' if has_published else 'nodes'}")
        network = compute.Network(
            name,
            auto_create_subnetworks=False,
            mtu=args.get("mtu"),
            name=network_name,
            project=args.get("project"),
            routing_mode="REGIONAL",
            opts=under(self),
        )
        subnetworks = {
            region: self._build_region(name, network, network_name, region, args)
            for region in sorted(regions)
        }
        self._build_firewall(name, network, network_name, args)
        self.network_id = network.id
        self.network_name = network.name
        self.pods_range_name = pulumi.Output.from_input(PODS_RANGE)
        self.services_range_name = pulumi.Output.from_input(SERVICES_RANGE)
        published = {
            region: self._build_published(name, network, network_name, region, args)
            for region in sorted(regions)
            if regions[region].published is not None
        }
        self.published_subnetworks = pulumi.Output.all(
            **{region: subnetwork.self_link for region, subnetwork in published.items()}
        )
        self.subnetworks = pulumi.Output.all(
            **{region: subnetwork.name for region, subnetwork in subnetworks.items()}
        )
        self.register_outputs(
            {
                "networkId": self.network_id,
                "networkName": self.network_name,
                "podsRangeName": self.pods_range_name,
                "publishedSubnetworks": self.published_subnetworks,
                "servicesRangeName": self.services_range_name,
                "subnetworks": self.subnetworks,
            }
        )

    def _build_region(
        self,
        name: str,
        network: compute.Network,
        network_name: str,
        region: str,
        args: NetworkArgs,
    ) -> compute.Subnetwork:
        ranges = args["regions"][region]
        project = args.get("project")
        subnetwork = compute.Subnetwork(
            f"{name}-{region}-nodes",
            ip_cidr_range=ranges.nodes,
            name=f"{network_name}-{region}-nodes",
            network=network.id,
            private_ip_google_access=True,
            project=project,
            region=region,
            secondary_ip_ranges=[
                {"range_name": PODS_RANGE, "ip_cidr_range": ranges.pods},
                {"range_name": SERVICES_RANGE, "ip_cidr_range": ranges.services},
            ],
            opts=under(self),
        )
        compute.Subnetwork(
            f"{name}-{region}-proxy",
            ip_cidr_range=ranges.proxies,
            name=f"{network_name}-{region}-proxy",
            network=network.id,
            project=project,
            purpose=_PURPOSES[args.get("proxies", ProxyScope.REGIONAL)],
            region=region,
            role="ACTIVE",
            opts=under(self),
        )
        if args.get("nat", True):
            self._build_nat(name, network, network_name, region, project)
        return subnetwork

    def _build_published(
        self,
        name: str,
        network: compute.Network,
        network_name: str,
        region: str,
        args: NetworkArgs,
    ) -> compute.Subnetwork:
        return compute.Subnetwork(
            f"{name}-{region}-published",
            ip_cidr_range=args["regions"][region].published or "",
            name=f"{network_name}-{region}-published",
            network=network.id,
            project=args.get("project"),
            purpose="PRIVATE_SERVICE_CONNECT",
            region=region,
            opts=under(self),
        )

    def _build_nat(
        self,
        name: str,
        network: compute.Network,
        network_name: str,
        region: str,
        project: pulumi.Input[str] | None,
    ) -> None:
        router = compute.Router(
            f"{name}-{region}-router",
            name=f"{network_name}-{region}-router",
            network=network.id,
            project=project,
            region=region,
            opts=under(self),
        )
        compute.RouterNat(
            f"{name}-{region}-nat",
            # A node that downloads weights opens more connections to one host than the 64 ports a
            # fixed share gives; dynamic allocation excludes endpoint-independent mapping.
            enable_dynamic_port_allocation=True,
            enable_endpoint_independent_mapping=False,
            log_config={"enable": True, "filter": "ERRORS_ONLY"},
            max_ports_per_vm=NAT_PORTS_PER_NODE,
            min_ports_per_vm=64,
            name=f"{network_name}-{region}-nat",
            nat_ip_allocate_option="AUTO_ONLY",
            project=project,
            region=region,
            router=router.name,
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            opts=under(self),
        )

    def _build_firewall(
        self, name: str, network: compute.Network, network_name: str, args: NetworkArgs
    ) -> None:
        proxies = sorted(ranges.proxies for ranges in args["regions"].values())
        compute.Firewall(
            f"{name}-load-balancing",
            allows=[{"ports": _ports(args), "protocol": "tcp"}],
            description="Health checks and the proxies of regional gateways reach pods.",
            direction="INGRESS",
            name=f"{network_name}-load-balancing",
            network=network.id,
            priority=1000,
            project=args.get("project"),
            source_ranges=[*HEALTH_CHECK_RANGES, *proxies],
            opts=under(self),
        )


def _ports(args: NetworkArgs) -> list[str]:
    ports = args.get("ports") or list(BACKEND_PORTS)
    for port in ports:
        if not _PORTS.fullmatch(port):
            raise pulumi.InputPropertyError(
                "ports", f"must be ports such as 8000 or 9002-9005, got {port!r}"
            )
    return ports


def _check_length(longest: str) -> None:
    try:
        check_name("compute", longest)
    except ValueError as error:
        raise pulumi.InputPropertyError("networkName", str(error)) from error


def _problems(regions: Mapping[str, RegionRanges]) -> Iterator[InputError]:
    ranges = [
        (join("regions", region, use), use, getattr(of, use))
        for region, of in sorted(regions.items())
        for use in RegionRanges.model_fields
        if getattr(of, use) is not None
    ]
    for where, use, cidr in ranges:
        yield from check_range(where, use, cidr)
    yield from check_overlaps([(where, cidr) for where, _, cidr in ranges])

"""What leads clients to the regions: a record, records by health, or a global load balancer."""

from collections.abc import Mapping

import pulumi

from gke_inference.front.dns_front import DnsFront
from gke_inference.front.global_front import FrontRegionArgs, GlobalFront
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.record import GatewayRecord
from infra.arguments.front import dns_front_args, global_front_args
from infra.arguments.hostname import certificate_args, record_args
from infra.arguments.provisioning import RegionNetwork
from infra.region import BuiltRegion
from infra.stack import Front, Platform


def build_front(
    platform: Platform,
    networks: Mapping[str, RegionNetwork],
    built: Mapping[str, BuiltRegion],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str] | None:
    """Build what leads clients to the regions; return the one address, where there is one."""
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
        address = _build_global(platform, networks, built, network, opts)
        _lead(platform, {} if address is None else {"front": address}, opts)
        return address
    _lead(platform, addresses, opts)
    return None


def _build_global(
    platform: Platform,
    networks: Mapping[str, RegionNetwork],
    built: Mapping[str, BuiltRegion],
    network: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[str] | None:
    """Build the load balancer over all regions, and its certificate where the stack issues it."""
    regions = {
        name: FrontRegionArgs(
            attachment=parts.published.attachment, subnetwork=networks[name].subnetwork
        )
        for name, parts in built.items()
        if parts.published is not None
    }
    args = global_front_args(platform, regions, network)
    if args is None:
        return None
    certificate = certificate_args(platform, "global")
    if certificate is not None:
        made = GatewayCertificate("front-certificate", certificate, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
    return GlobalFront("front", args, opts).address


def _lead(
    platform: Platform,
    addresses: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> None:
    """Make the record of each host name, where the stack names a zone for it."""
    args = record_args(platform, addresses)
    if args is None:
        return
    GatewayRecord("gateway-record", args, opts)
    for name, team in platform.teams.items():
        if team.hostname is not None:
            GatewayRecord(f"gateway-record-{name}", {**args, "hostname": team.hostname}, opts)

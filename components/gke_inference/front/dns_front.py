"""One hostname for all regions' gateways: Cloud DNS answers with the nearest healthy one."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute, dns
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.load_balancing import HEALTH_PATH
from gke_inference.gateway.settings import Exposure, TtlSeconds
from gke_inference.settings.fields import Port

PROBE_REGIONS = ("asia-east1", "europe-west1", "us-central1")
"""Source regions of external health checks: three at a time, as Google requires, on three
continents."""
PROBE_SECONDS = 30
"""Interval between health checks, the minimum for use by Cloud DNS (compute.v1 healthChecks)."""
_FAILURES = 2


class DnsFrontArgs(TypedDict):
    """Inputs of `DnsFront`."""

    addresses: Annotated[dict[str, pulumi.Input[str]], Field(min_length=1)]
    """IP addresses of the gateways by region, or those of one `FleetGateway`."""
    exposure: Exposure
    """Exposure of the gateways: the zone must be public or private accordingly."""
    front_name: str
    """Name of the health check."""
    hostnames: Annotated[list[str], Field(min_length=1)]
    """Hostnames of the gateways. The health check uses the first one."""
    port: Port
    """Port of the gateways. External ones serve HTTPS."""
    project: str
    """Project of the gateways."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that contains the hostnames."""
    is_cross_region: NotRequired[bool]
    """Whether the addresses are those of one load balancer over several regions: a `FleetGateway`.
    Only with the exposure `internal`. Default: false."""
    network: NotRequired[pulumi.Input[str]]
    """VPC of internal gateways. Required for them."""
    ttl_seconds: NotRequired[TtlSeconds]
    """TTL of the records, in seconds. Clients may continue to use a failed region for this long
    after its health check fails. Default: 30."""
    zone_project: NotRequired[pulumi.Input[str]]
    """Project of the zone. Default: the project of the gateways."""


class DnsFront(pulumi.ComponentResource):
    """DNS records with a geolocation policy and health-checked targets.

    Clients get the IP address of the nearest region, or of the next one while it is unhealthy,
    without geofencing. Google itself checks internal load balancers. For external ones, health
    checks request `/healthz` from three regions, without a credential.
    """

    hostname: pulumi.Output[str]
    """The first hostname, which resolves to the gateways once its record exists."""

    def __init__(
        self, name: str, args: DnsFrontArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:DnsFront", name, {}, opts)
        args = checked(DnsFrontArgs, args)
        ttl, port = args.get("ttl_seconds", 30), args["port"]
        is_internal = args["exposure"] is Exposure.INTERNAL
        if is_internal and args.get("network") is None:
            message = "must be set when exposure is 'internal', got nothing"
            raise pulumi.InputPropertyError("network", message)
        if args.get("is_cross_region", False) and not is_internal:
            message = "must be 'internal' with isCrossRegion, got 'external'"
            raise pulumi.InputPropertyError("exposure", message)
        policy: dns.RecordSetRoutingPolicyArgsDict = {"enable_geo_fencing": False}
        if not is_internal:
            policy["health_check"] = self._build_check(name, args, port).self_link
        policy["geos"] = [
            {
                "location": region,
                "health_checked_targets": {
                    "internal_load_balancers": [_balancer(args, region, address, port)]
                }
                if is_internal
                else {"external_endpoints": [address]},
            }
            for region, address in args["addresses"].items()
        ]
        records = [
            dns.RecordSet(
                name if at == 0 else f"{name}-{hostname}",
                managed_zone=args["zone"],
                name=f"{hostname}.",
                project=args.get("zone_project") or args["project"],
                routing_policy=policy,
                ttl=ttl,
                type="A",
                opts=under(self),
            )
            for at, hostname in enumerate(args["hostnames"])
        ]
        self.hostname = records[0].name.apply(lambda dotted: dotted.rstrip("."))
        self.register_outputs({"hostname": self.hostname})

    def _build_check(self, name: str, args: DnsFrontArgs, port: int) -> "compute.HealthCheck":
        return compute.HealthCheck(
            name,
            check_interval_sec=PROBE_SECONDS,
            healthy_threshold=1,
            https_health_check={
                "host": args["hostnames"][0],
                "port": port,
                "request_path": HEALTH_PATH,
            },
            name=name_of(args, "front_name", "compute"),
            project=args["project"],
            source_regions=list(PROBE_REGIONS),
            timeout_sec=5,
            unhealthy_threshold=_FAILURES,
            opts=under(self),
        )


def _balancer(
    args: DnsFrontArgs, region: str, address: pulumi.Input[str], port: Port
) -> "dns.RecordSetRoutingPolicyGeoHealthCheckedTargetsInternalLoadBalancerArgsDict":
    is_wide = args.get("is_cross_region", False)
    target: dns.RecordSetRoutingPolicyGeoHealthCheckedTargetsInternalLoadBalancerArgsDict = {
        "ip_address": address,
        "ip_protocol": "tcp",
        "load_balancer_type": "globalL7ilb" if is_wide else "regionalL7ilb",
        "network_url": args.get("network", ""),
        "port": str(port),
        "project": args["project"],
    }
    if not is_wide:
        target["region"] = region
    return target

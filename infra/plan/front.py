"""Endpoints of a platform, and the regions that its front routes to, in all and for each model.

A front cannot read the model from a request's body, so the plain URL must reach every model: only
regions that serve all models answer there. A model that some regions do not serve also has a path
of its own, which every region that serves it answers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH, HTTPS_PORT, REDIRECT_PORT
from infra.stack import Exposure, Fleet, Front, Gateway, Layer, Platform


def has_internal_gateways(gateway: Gateway) -> bool:
    """Return whether the regional gateways are reachable from networks only."""
    return gateway.exposure is Exposure.INTERNAL or gateway.front is Front.GLOBAL


def is_published(gateway: Gateway) -> bool:
    """Return whether the regional gateways are published with Private Service Connect."""
    return gateway.front is Front.GLOBAL or gateway.publish is not None


def has_networks(platform: Platform) -> bool:
    """Return whether the stack creates a VPC: its own, or the one of a global front."""
    return platform.existing.network is None or platform.gateway.front is Front.GLOBAL


def forwarded_hops(gateway: Gateway) -> int:
    """Return the position of a client's address in X-Forwarded-For, counted from the end.

    Each load balancer appends two addresses, that of its own client and its own
    (docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header). A client of the global
    load balancer is in front of those that the gateway of a region appends.
    """
    balancers = 2 if gateway.front is Front.GLOBAL else 1
    return 2 * balancers


def has_global_access(gateway: Gateway) -> bool:
    """Return whether clients in other regions of the network reach an internal gateway.

    The global load balancer connects from anywhere, and Cloud DNS answers clients of a region whose
    gateway is unhealthy with the gateway of another one.
    """
    is_failover = gateway.front is Front.DNS and gateway.exposure is Exposure.INTERNAL
    return gateway.front is Front.GLOBAL or is_failover or gateway.global_access


def needs_private_zone(gateway: Gateway) -> bool:
    """Return whether the record of the hostname must be in a private zone.

    Cloud DNS checks the health of internal load balancers for private zones only
    (docs.cloud.google.com/dns/docs/routing-policies-overview).
    """
    is_checked = gateway.front in (Front.DNS, Front.INTERNAL)
    return is_checked and gateway.exposure is Exposure.INTERNAL


@dataclass(frozen=True)
class Zone:
    """A zone of Cloud DNS."""

    project: str
    name: str


def record_zone(platform: Platform) -> Zone | None:
    """Return the zone of the hostname's records; None if the stack creates none."""
    dns = platform.gateway.dns
    return None if dns is None else Zone(dns.project or platform.project, dns.zone)


def certificate_zone(platform: Platform) -> Zone | None:
    """Return the zone of the record that authorizes the certificate; None if it is not issued."""
    dns, of_records = platform.gateway.dns, record_zone(platform)
    if dns is None or of_records is None or not platform.gateway.issue_certificate:
        return None
    if dns.certificate_zone is None:
        return of_records
    return Zone(dns.certificate_project or of_records.project, dns.certificate_zone)


def has_body_router(platform: Platform) -> bool:
    """Return whether the stack has a Gateway whose routes need the model of a body in a header."""
    return platform.layer is not Layer.SERVING and not has_fleet_gateway(platform.gateway)


def has_fleet_gateway(gateway: Gateway) -> bool:
    """Return whether one gateway for all clusters replaces the gateways of regions."""
    return gateway.front is Front.INTERNAL


def config_region(platform: Platform) -> str | None:
    """Return the region of the fleet's config cluster; None if no region has models."""
    fleet = platform.gateway.fleet
    if fleet is not None and fleet.config_region is not None:
        return fleet.config_region
    return min(with_gateway(platform), default=None)  # the engine does not keep their order


def target_utilization_percent(gateway: Gateway) -> int:
    """Return the KV cache use above which requests overflow to the next region."""
    return (gateway.fleet or Fleet()).target_utilization_percent


def with_gateway(platform: Platform) -> tuple[str, ...]:
    """Return the regions that have a gateway, in stack order."""
    if platform.layer is not Layer.ALL:
        return tuple(platform.regions)
    return tuple(name for name in platform.regions if platform.models_in(name))


def in_front(platform: Platform) -> tuple[str, ...]:
    """Return the regions of the front: all with a gateway except drained ones."""
    return tuple(name for name in with_gateway(platform) if name not in platform.gateway.drain)


def answering(platform: Platform) -> tuple[str, ...]:
    """Return the regions behind the plain URL: those that serve every model."""
    return _serving(platform, platform.models)


def paths_of_models(platform: Platform) -> Mapping[str, tuple[str, ...]]:
    """Return the regions of each model that some region of the front does not serve, by name."""
    everywhere = in_front(platform)
    regions = {name: _serving(platform, (name,)) for name in platform.models}
    return {name: found for name, found in regions.items() if found and found != everywhere}


def _serving(platform: Platform, models: Iterable[str]) -> tuple[str, ...]:
    wanted = set(models)
    return tuple(name for name in in_front(platform) if wanted <= set(platform.models_in(name)))


def endpoint(gateway: Gateway, address: str) -> str:
    """Return the URL of a gateway, without the port if it is the scheme's default."""
    scheme = "http" if gateway.certificate is None else "https"
    port = "" if gateway.port in (None, _usual(gateway)) else f":{gateway.port}"
    return f"{scheme}://{gateway.hostname or address}{port}"


def port_of(gateway: Gateway) -> int:
    """Return the port of a gateway, and of the front."""
    return gateway.port or _usual(gateway)


def redirect_port(gateway: Gateway) -> int | None:
    """Return the port that redirects to HTTPS; only a global front on the usual port has one."""
    is_usual = gateway.front is Front.GLOBAL and port_of(gateway) == HTTPS_PORT
    return REDIRECT_PORT if is_usual else None


def _usual(gateway: Gateway) -> int:
    return 80 if gateway.certificate is None else 443


def catalogue_path(platform: Platform) -> str:
    """Return the path that lists a stack's models, a team's own where it shares a hostname."""
    team = platform.teams.get(platform.team or "")
    if team is None or team.hostname is not None:
        return CATALOGUE_PATH
    return f"/{platform.team}{CATALOGUE_PATH}"

"""Endpoints of a platform, known before deployment except for the gateway's IP address."""

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH, HTTPS_PORT, REDIRECT_PORT
from infra.stack import Front, Gateway, Platform


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

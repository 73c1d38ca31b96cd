"""Where clients find a platform, known before a gateway is there but for its address."""

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from infra.stack import Gateway, Platform


def endpoint(gateway: Gateway, address: str) -> str:
    """Return the URL of a gateway, without the port where the scheme says it."""
    scheme, usual = ("http", 80) if gateway.certificate is None else ("https", 443)
    port = gateway.port or usual
    return f"{scheme}://{gateway.hostname or address}" + ("" if port == usual else f":{port}")


def catalogue_path(platform: Platform) -> str:
    """Return the path on which a stack's models are listed: a team's own where a host is shared."""
    team = platform.teams.get(platform.team or "")
    if team is None or team.hostname is not None:
        return CATALOGUE_PATH
    return f"/{platform.team}{CATALOGUE_PATH}"

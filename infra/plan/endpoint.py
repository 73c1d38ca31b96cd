"""Where clients find a platform, known before a gateway is there but for its address."""

from infra.stack import Gateway


def endpoint(gateway: Gateway, address: str) -> str:
    """Return the URL of a gateway, without the port where the scheme says it."""
    scheme, usual = ("http", 80) if gateway.certificate is None else ("https", 443)
    port = gateway.port or usual
    return f"{scheme}://{gateway.hostname or address}" + ("" if port == usual else f":{port}")

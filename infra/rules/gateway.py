"""Rules about the gateway: what an open endpoint must have."""

from collections.abc import Iterator

from infra.stack import Exposure, Platform
from infra.stack.problems import Problem


def check_gateway(platform: Platform) -> Iterator[Problem]:
    """Yield what is wrong with the gateway of a platform."""
    gateway = platform.gateway
    if gateway.hostname is not None and gateway.certificate is None:
        message = f"needs 'certificate' beside it, got {gateway.hostname!r} without one"
        yield Problem("gateway.hostname", message)
    if gateway.certificate is not None and gateway.hostname is None:
        message = f"needs 'hostname' beside it, got {gateway.certificate!r} without one"
        yield Problem("gateway.certificate", message)
    if gateway.certificate is not None and gateway.port == 80:
        yield Problem("gateway.port", "must not be 80 with a certificate, got 80; leave it out")
    is_open = gateway.exposure is Exposure.EXTERNAL and gateway.certificate is None
    if is_open and gateway.hostname is None and platform.protection:
        message = (
            "must be internal, or have 'hostname' and 'certificate', where protection is on: "
            "got 'external' with plain HTTP"
        )
        yield Problem("gateway.exposure", message)

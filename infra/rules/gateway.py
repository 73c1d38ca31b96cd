"""Rules about the gateway: what an open endpoint must have."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.stack import Exposure, Platform


def check_gateway(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the gateway of a platform."""
    gateway = platform.gateway
    if gateway.hostname is not None and gateway.certificate is None:
        message = "needs 'certificate' beside it"
        yield InputError("gateway.hostname", message, gateway.hostname, " without one")
    if gateway.certificate is not None and gateway.hostname is None:
        message = "needs 'hostname' beside it"
        yield InputError("gateway.certificate", message, gateway.certificate, " without one")
    if gateway.dns is not None and gateway.hostname is None:
        message = "needs 'hostname' beside it"
        yield InputError("gateway.dns", message, gateway.dns.zone, " without one")
    if gateway.issue_certificate and (gateway.certificate is None or gateway.dns is None):
        message = "needs 'certificate' and 'dns' beside it"
        yield InputError("gateway.issue_certificate", message, True, " without them")
    if gateway.certificate is not None and gateway.port == 80:
        yield InputError("gateway.port", "must not be 80 with a certificate", 80, "; leave it out")
    if gateway.exposure is Exposure.INTERNAL and gateway.requests_per_minute is not None:
        rule = "must be left out where exposure is internal: Cloud Armor guards external gateways"
        yield InputError("gateway.requests_per_minute", rule, gateway.requests_per_minute)
    is_open = gateway.exposure is Exposure.EXTERNAL and gateway.certificate is None
    if is_open and gateway.hostname is None and platform.protection:
        message = (
            "must be internal, or have 'hostname' and 'certificate', where protection is on: "
            "got 'external' with plain HTTP"
        )
        yield InputError("gateway.exposure", message)

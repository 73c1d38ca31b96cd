"""Rules about the gateway: requirements for an external endpoint."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, repeated
from gke_inference.gateway.rules import check_exposure, check_hostname
from infra.stack import Exposure, Front, Gateway, Layer, Platform, Task


def check_gateway(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's gateway."""
    gateway = platform.gateway
    yield from check_hostname("gateway", gateway.hostname, gateway.certificate)
    if gateway.certificate is not None and gateway.hostname is None:
        message = "needs 'hostname'"
        yield InputError("gateway.certificate", message, gateway.certificate, " without one")
    if gateway.dns is not None and gateway.hostname is None:
        message = "needs 'hostname'"
        yield InputError("gateway.dns", message, gateway.dns.zone, " without one")
    if gateway.issue_certificate and (gateway.certificate is None or gateway.dns is None):
        message = "needs 'certificate' and 'dns'"
        yield InputError("gateway.issue_certificate", message, True, " without them")
    yield from _check_zone(gateway)
    if gateway.certificate is not None and gateway.port == 80:
        yield InputError("gateway.port", "must not be 80 with a certificate", 80, "; leave it out")
    yield from check_exposure(
        "gateway",
        gateway.exposure,
        requests_per_minute=gateway.requests_per_minute,
        global_access=gateway.global_access,
    )
    is_wide = gateway.exposure is Exposure.INTERNAL and gateway.front is Front.INTERNAL
    if is_wide and gateway.global_access:
        rule = "must not be set with front internal: its gateway has an address in every region"
        yield InputError("gateway.global_access", rule, True)
    is_open = gateway.exposure is Exposure.EXTERNAL and gateway.certificate is None
    if is_open and gateway.hostname is None and platform.protection:
        message = (
            "must be internal, or have 'hostname' and 'certificate', when protection is on: "
            "got 'external' with plain HTTP"
        )
        yield InputError("gateway.exposure", message)
    yield from _check_fairness(platform)


def _check_zone(gateway: Gateway) -> Iterator[InputError]:
    zone = None if gateway.dns is None else gateway.dns.certificate_zone
    where = "gateway.dns.certificate_zone"
    if zone is not None and not gateway.issue_certificate:
        yield InputError(where, "must not be set unless issue_certificate is true", zone)
    owner = None if gateway.dns is None else gateway.dns.certificate_project
    if owner is not None and zone is None:
        rule = "needs 'certificate_zone'"
        yield InputError("gateway.dns.certificate_project", rule, owner, " without one")
    is_hidden = gateway.dns is not None and gateway.needs_private_zone
    if zone is None and gateway.issue_certificate and is_hidden:
        message = (
            "is required: certificates are authorized by records in a public zone, and"
            " dns.zone must be private, as Cloud DNS checks internal load balancers there only"
        )
        yield InputError(where, message)


def _check_fairness(platform: Platform) -> Iterator[InputError]:
    if platform.gateway.fairness is None:
        return
    where = "gateway.fairness"
    is_shared = platform.layer is Layer.SERVING  # its clients are in the platform's stack
    if not is_shared and (platform.clients is None or not platform.clients.teams):
        yield InputError(where, "needs 'clients.teams': turns are taken by team")
    yield from _check_sessions(platform, join(where, "sessions"))
    for name, model in platform.models.items():
        if model.disaggregated is not None:
            without = "must not be set with gateway.fairness: the picker of two roles has no queues"
            yield InputError(join("models", name, "disaggregated"), without)
            continue
        grows = model.task is Task.GENERATE and model.replicas.min < model.replicas.max
        if grows and model.autoscaling.running_requests is None:
            rule = (
                "must be set with gateway.fairness: requests wait in the picker, so the queues of "
                "the replicas stay short"
            )
            yield InputError(join("models", name, "autoscaling", "running_requests"), rule)


def _check_sessions(platform: Platform, where: str) -> Iterator[InputError]:
    fairness = platform.gateway.fairness
    if fairness is None or fairness.sessions is None:
        return
    yield from repeated(join(where, "headers"), fairness.sessions.headers, "a header")
    rule = (
        "must be false with gateway.fairness.sessions: both use the header 'x-llm-d-slo-ttft-ms',"
        " one for the client's objective, the other for the order of a team's requests"
    )
    for name, model in platform.models.items():
        if model.predicts_latency:
            yield InputError(join("models", name, "routing", "predicted_latency"), rule)

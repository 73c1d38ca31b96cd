"""Rules about client certificates: a load balancer that validates them, and known teams."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.clients.certificates import IDENTITY_RULE, is_identity
from gke_inference.front.client_certificates import is_certificate
from infra.plan.front import with_gateway
from infra.stack import Clients, Front, Platform
from infra.stack.problems import join, one_of

_AT = "clients.certificates"


def check_certificates(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Yield the problems of client certificates."""
    found = clients.certificates
    if found is None:
        return
    if platform.gateway.front is not Front.GLOBAL:
        rule = (
            "must not be set unless gateway.front is global: how a Gateway of GKE names the policy"
            " that validates certificates is not documented"
        )
        yield InputError(_AT, rule)
    elif platform.gateway.publish is not None:
        rule = (
            "must not be set when gateway.publish is set: connections of consumers come from the"
            " same range as those of the global load balancer, and could pose as any team"
        )
        yield InputError(_AT, rule)
    for name in with_gateway(platform):
        if platform.regions[name].existing.subnet is not None:
            where = join("regions", name, "existing", "subnet")
            rule = (
                f"must not be set when {_AT} is set: the range of its published subnet is unknown"
            )
            yield InputError(where, rule)
    for at, text in enumerate(found.authorities):
        if not is_certificate(text):
            rule = "must be one certificate in PEM format"
            yield InputError(join(_AT, "authorities", at), rule, Bare(repr(text[:40])))
    for identity, team in found.teams.items():
        if not is_identity(identity):
            yield InputError(join(_AT, "teams"), IDENTITY_RULE, identity)
        elif team not in clients.teams:
            yield one_of(join(_AT, "teams", identity), team, sorted(clients.teams))

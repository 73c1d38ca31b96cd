"""Rules about people who sign in: a load balancer that asks them, and a hostname of their own."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.clients.people import IAP_HEADER
from gke_inference.clients.rules import check_team_of_people
from gke_inference.front.people import MEMBER_RULE, is_member
from infra.stack import Clients, Front, Platform
from infra.stack.problems import join

_AT = "clients.people"


def check_people(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Yield the problems of people who sign in."""
    people, gateway = clients.people, platform.gateway
    if people is None:
        return
    if gateway.front is not Front.GLOBAL:
        rule = (
            "must not be set unless gateway.front is global: Identity-Aware Proxy in front of an"
            " InferencePool is not documented"
        )
        yield InputError(_AT, rule)
    if gateway.issue_certificate:
        rule = "must not be set when gateway.issue_certificate is true: it is for one host"
        yield InputError(join(_AT, "hostname"), rule, people.hostname)
    others = {team.hostname: f"teams.{name}" for name, team in platform.teams.items()}
    others[gateway.hostname] = "gateway"
    if people.hostname in others:
        rule = f"must differ from {others[people.hostname]}.hostname"
        yield InputError(join(_AT, "hostname"), rule, people.hostname)
    for at, member in enumerate(people.members):
        if not is_member(member):
            yield InputError(join(_AT, "members", at), MEMBER_RULE, member)
        elif member in people.members[:at]:
            where = join(_AT, "members", at)
            yield InputError(where, "must not repeat a member", member, " twice")
    yield from check_team_of_people("clients", people.team, clients.teams)
    for at, issuer in enumerate(clients.issuers):
        if issuer.header == IAP_HEADER:
            rule = f"must not be {IAP_HEADER} when {_AT} is set, which accepts these tokens"
            yield InputError(join("clients", "issuers", at, "header"), rule)

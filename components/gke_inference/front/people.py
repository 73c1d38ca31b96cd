"""A hostname of a global front for people, who sign in with Google (Identity-Aware Proxy)."""

import re
from typing import Final, TypedDict

import pulumi
from pulumi_gcp import compute, iap

_ROLE: Final = "roles/iap.httpsResourceAccessor"
_MEMBER: Final = re.compile(r"(user|group|serviceAccount):[^\s:@]+@[^\s:@]+|domain:[^\s:@]+")
MEMBER_RULE: Final = "must be user:, group: or serviceAccount: with an address, or domain:NAME"


class FrontPeopleArgs(TypedDict):
    """People who use a `GlobalFront` under a hostname of their own."""

    gateway_hostname: str
    """Hostname of the gateways, which replaces that of the request."""
    hostname: str
    """Hostname for people, which the front's certificate covers."""
    members: list[str]
    """People and service accounts that may sign in: `group:ml@example.com`."""


def is_member(text: str) -> bool:
    """Return whether a text names people or service accounts that can sign in."""
    return _MEMBER.fullmatch(text) is not None


def check_people(people: FrontPeopleArgs) -> None:
    """Validate the settings.

    Raises:
        pulumi.InputPropertyError: A member is wrong or repeated, or both hostnames are the same.
    """
    if people["hostname"] == people["gateway_hostname"]:
        rule = f"must differ from that of the gateways, got {people['hostname']!r}"
        raise pulumi.InputPropertyError("people.hostname", rule)
    if not people["members"]:
        raise pulumi.InputPropertyError("people.members", "must have one entry or more, got none")
    for at, member in enumerate(people["members"]):
        if not is_member(member):
            rule = f"{MEMBER_RULE}, got {member!r}"
            raise pulumi.InputPropertyError(f"people.members[{at}]", rule)
        if member in people["members"][:at]:
            rule = f"must not repeat a member, got {member!r} twice"
            raise pulumi.InputPropertyError(f"people.members[{at}]", rule)


def people_matcher(
    backend: pulumi.Input[str], people: FrontPeopleArgs
) -> "compute.URLMapPathMatcherArgsDict":
    """Return the path matcher for the hostname of people.

    Requests are not retried here: each has passed the sign-in.
    """
    return {
        "default_route_action": {"url_rewrite": {"host_rewrite": people["gateway_hostname"]}},
        "default_service": backend,
        "name": "people",
    }


def let_members_in(
    name: str,
    backend: "compute.BackendService",
    people: FrontPeopleArgs,
    project: str,
    opts: pulumi.ResourceOptions,
) -> None:
    """Allow members to sign in to a backend service."""
    for member in sorted(people["members"]):
        iap.WebBackendServiceIamMember(
            f"{name}-{member.replace(':', '-')}",
            member=member,
            project=project,
            role=_ROLE,
            web_backend_service=backend.name,
            opts=opts,
        )

"""A hostname of a global front for people, who sign in with Google (Identity-Aware Proxy)."""

from collections.abc import Iterator
from typing import Annotated, Final, TypedDict

import pulumi
from pulumi_gcp import compute, iap
from pydantic import Field

from gke_inference.catalogue.input_error import InputError

from .rules import check_members

_ROLE: Final = "roles/iap.httpsResourceAccessor"


class FrontPeopleArgs(TypedDict):
    """People who use a `GlobalFront` under a hostname of their own."""

    gateway_hostname: str
    """Hostname of the gateways, which replaces that of the request."""
    hostname: str
    """Hostname for people, which the front's certificate covers."""
    members: Annotated[list[str], Field(min_length=1)]
    """People and service accounts that may sign in: `group:ml@example.com`."""


def check_people(people: FrontPeopleArgs) -> Iterator[InputError]:
    """Yield the problems of people: a wrong or repeated member, or the hostname of the gateways."""
    if people["hostname"] == people["gateway_hostname"]:
        rule = "must differ from that of the gateways"
        yield InputError("people.hostname", rule, people["hostname"])
    yield from check_members("people.members", people["members"])


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

"""Callers of Cloud Run services, which need the role of an invoker."""

from collections.abc import Iterable
from typing import Final

import pulumi
from pulumi_gcp import cloudrunv2

from .inputs import under

INVOKER: Final = "roles/run.invoker"


def grant_callers(
    name: str,
    service: cloudrunv2.Service,
    callers: Iterable[str],
    *,
    location: str,
    project: str,
    parent: pulumi.Resource,
) -> None:
    """Let IAM members call a service.

    Args:
        name: Prefix of the grants' logical names.
        service: The service.
        callers: IAM members.
        location: Region of the service.
        project: Project of the service.
        parent: Component of the grants.
    """
    for member in callers:
        cloudrunv2.ServiceIamMember(
            f"{name}-calls-{member.replace(':', '-').replace('@', '-')}",
            location=location,
            member=member,
            name=service.name,
            project=project,
            role=INVOKER,
            opts=under(parent),
        )

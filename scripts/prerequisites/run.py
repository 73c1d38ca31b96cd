"""Runs every check of a stack's prerequisites, group by group."""

from collections.abc import Iterator
from typing import Final

from scripts.prerequisites.accounts import accounts
from scripts.prerequisites.apis import apis, number, permissions
from scripts.prerequisites.calendar_mode import calendar_mode
from scripts.prerequisites.disks import disks
from scripts.prerequisites.endpoint import certificates, records, sign_in
from scripts.prerequisites.existing import existing
from scripts.prerequisites.existing_clusters import existing_clusters
from scripts.prerequisites.finding import Check, Finding, Project
from scripts.prerequisites.images import connection, container_images
from scripts.prerequisites.limits import quotas
from scripts.prerequisites.obtainability import obtainability
from scripts.prerequisites.org_policies import org_policies
from scripts.prerequisites.reservations import reservations
from scripts.prerequisites.shared_vpc import shared_vpc
from scripts.prerequisites.tables import tables
from scripts.prerequisites.upstreams import engine_secrets, upstream_credentials
from scripts.prerequisites.weights import adapters, weights

GROUPS: Final[dict[str, tuple[Check, ...]]] = {
    "project, APIs and permissions": (number, apis, permissions),
    "organization policies": (org_policies,),
    "what exists": (existing, shared_vpc, existing_clusters, accounts, tables, sign_in),
    "quotas": (quotas,),
    "reservations": (reservations,),
    "availability of unreserved machines": (obtainability, calendar_mode),
    "certificates and DNS": (certificates, records),
    "snapshots and disk images": (disks,),
    "container images": (connection, upstream_credentials, engine_secrets, container_images),
    "weights": (weights, adapters),
}
"""Checks by subject, in the order of the table."""


def run(project: Project, checks: tuple[Check, ...]) -> Iterator[Finding]:
    """Yield the findings of checks."""
    for check in checks:
        yield from check(project)

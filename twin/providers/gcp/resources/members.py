"""Principals of roles: a role is granted only to those that exist."""

import re
from collections.abc import Callable
from typing import Final

from twin.providers.gcp.resources.project_numbers import is_number_of, learn
from twin.providers.gcp.resources.service_agents import check_agent
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import World
from twin.world.store import Store

_POOL: Final = re.compile(r"(?P<pool>[\w:.-]+\.svc\.id\.goog)(?=[/\[])")
_NUMBERED: Final = re.compile(
    r"projects/(?P<number>\d+)/locations/global/workloadIdentityPools/(?P<project>[\w.:-]+)\.svc\.id\.goog"
)
_ACCOUNT: Final = re.compile(
    r"serviceAccount:(?P<email>(?!service-\d+@)[^@\[]+@[^.\[]+\.iam\.gserviceaccount\.com)"
)
_ON_DATASET: Final = "bigquery/datasetAccess"
_ACCOUNTS: Final = "gcp:serviceaccount/account:Account"


def check_member(
    known: Resource,
    inputs: Json,
    project: str,
    store: Store,
    world: Callable[[], World],
    since: float,
) -> None:
    """Reject a role for a principal that does not exist, or not long enough.

    Args:
        known: Type of the grant.
        inputs: Its inputs.
        project: Its project.
        store: Resources of all stacks.
        world: Returns what exists outside stacks.
        since: Latest creation of a service agent that IAM knows, in seconds since the epoch.

    Rules: cloud.iam.workload-pool, cloud.project-numbers, cloud.service-agents, cloud.iam.accounts,
    cloud.iam.propagation.

    Raises:
        CloudError: Error in Google's wording.
    """
    if not known.kind.lower().endswith("iammember") and known.kind != _ON_DATASET:
        return
    member = str(inputs.get("iamMember" if known.kind == _ON_DATASET else "member", ""))
    _check_pool(member, project, store)
    check_agent(member, store, since)
    account = _ACCOUNT.fullmatch(member)
    if account is None:
        return
    email = account["email"]
    made = any(each.outputs.get("email") == email for each in store.find(_ACCOUNTS))
    if not made and email not in world().service_accounts:
        raise CloudError(400, f"Service account {email} does not exist.", "badRequest")


def _check_pool(member: str, project: str, store: Store) -> None:
    pool = _POOL.search(member)
    if pool is None:
        return
    name = pool["pool"].rpartition("/")[2].removeprefix("serviceAccount:")
    if name == f"{project}.svc.id.goog" and not store.fact(f"workload-pool {name}"):
        raise _no_pool(
            name, "; the pool comes with the project's first cluster that has Workload Identity"
        )
    numbered = _NUMBERED.search(member)
    if numbered is None:
        return
    if not is_number_of(numbered["project"], numbered["number"], store):
        raise _no_pool(numbered[0], "")
    learn(numbered["project"], numbered["number"], store)


def _no_pool(name: str, hint: str) -> CloudError:
    return CloudError(
        400,
        f"Identity Pool does not exist ({name}). Please check that you specified a valid "
        f"resource name as returned in the `name` attribute in the configuration API{hint}",
        "badRequest",
    )

"""Nodes and workloads get narrow roles."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule
from policies.rules.identity.public_iam import is_grant, members

BROAD = frozenset(
    [
        "roles/owner",
        "roles/editor",
        "roles/viewer",
        "roles/container.admin",
        "roles/container.clusterAdmin",
        "roles/compute.admin",
        "roles/iam.securityAdmin",
        "roles/iam.serviceAccountAdmin",
        "roles/iam.serviceAccountKeyAdmin",
        "roles/iam.serviceAccountTokenCreator",
        "roles/iam.serviceAccountUser",
        "roles/resourcemanager.projectIamAdmin",
        "roles/secretmanager.admin",
        "roles/storage.admin",
        "roles/storage.legacyBucketOwner",
    ]
)
_OF_AGENTS = {"roles/container.admin": "@gcp-sa-multiclusteringress.iam.gserviceaccount.com"}
"""Broad roles that Google's guides demand for its own service agent, by the end of its name
(docs.cloud.google.com/kubernetes-engine/docs/how-to/enabling-multi-cluster-gateways)."""
_SIGNS = "roles/iam.serviceAccountTokenCreator"
_MACHINES = ("serviceAccount:", "principal:", "principalSet:")


def _is_needed(resource: Resource, role: str, member: str) -> bool:
    """Return whether Google needs the role for its agent, or an account signs as itself only."""
    agent = _OF_AGENTS.get(role)
    account = member.removeprefix("serviceAccount:")
    if agent is not None and account.startswith("service-") and account.endswith(agent):
        return True
    if role != _SIGNS or not resource.type.startswith("gcp:serviceaccount/"):
        return False
    return str(at(resource.props, "serviceAccountId")).endswith(f"/serviceAccounts/{account}")


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    role = at(resource.props, "role")
    if role is None:
        yield broken(resource, "role", quoted(None), "must be set")
        return
    broad = BROAD | {str(extra) for extra in entries(config, "moreRoles")}
    if role not in broad:
        return
    for member in members(resource):
        if member.startswith(_MACHINES) and not _is_needed(resource, role, member):
            yield broken(
                resource,
                "role",
                f"it for {member!r}",
                f"must be narrower than {role!r} for a machine",
            )


RULE = ResourceRule(
    name="broad-roles",
    description="Service accounts and workload identities have no overly broad roles.",
    applies=is_grant,
    check=_check,
    config={
        "moreRoles": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Additional roles that no workload may have.",
        }
    },
    reference="CIS Google Cloud Foundation Benchmark 1.5; GKE: least privilege",
)

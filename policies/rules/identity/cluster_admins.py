"""No workload has full permissions in a cluster."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if at(resource.props, "roleRef", "name") != "cluster-admin":
        return
    for subject in entries(resource.props, "subjects"):
        name = at(subject, "name")
        if at(subject, "kind") == "ServiceAccount" or str(name).startswith("system:"):
            yield broken(
                resource,
                "subjects",
                quoted(name),
                "must be users or groups for cluster-admin",
            )


RULE = ResourceRule(
    name="cluster-admins",
    description="Service accounts and system groups are not bound to cluster-admin.",
    applies=is_kubernetes("ClusterRoleBinding", "RoleBinding"),
    check=_check,
    cis=("4.1.1",),
)

"""No program has every right in a cluster."""

from collections.abc import Iterator

from policies.reading import at, entries, is_kubernetes
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if at(resource.props, "roleRef", "name") != "cluster-admin":
        return
    for subject in entries(resource.props, "subjects"):
        name = at(subject, "name")
        if at(subject, "kind") == "ServiceAccount" or str(name).startswith("system:"):
            yield f"subjects: must be people or their groups for cluster-admin, got {name!r}"


RULE = Rule(
    name="cluster-admins",
    description="Service accounts and system groups are not bound to cluster-admin.",
    applies=is_kubernetes("ClusterRoleBinding", "RoleBinding"),
    check=_check,
    reference="CIS GKE Benchmark 4.1.1 (cluster-admin)",
)

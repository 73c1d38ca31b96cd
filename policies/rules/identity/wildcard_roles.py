"""Roles list what they allow."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for index, each in enumerate(entries(resource.props, "rules")):
        verbs, kinds = entries(each, "verbs"), entries(each, "resources")
        groups = entries(each, "apiGroups")
        if "*" in verbs and "*" in kinds:
            yield broken(
                resource, f"rules[{index}]", "'*' for both", "must name verbs or resources"
            )
        elif "*" in kinds and "*" in groups:
            yield broken(
                resource, f"rules[{index}].resources", "'*' of '*'", "must be in named groups"
            )
        elif at(each, "nonResourceURLs") == ["*"]:
            yield broken(resource, f"rules[{index}].nonResourceURLs", "'*'", "must be named")


RULE = ResourceRule(
    name="wildcard-roles",
    description="Roles name verbs, resources or API groups instead of using wildcards.",
    applies=is_kubernetes("ClusterRole", "Role"),
    check=_check,
    cis=("4.1.3",),
)

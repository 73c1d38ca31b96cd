"""Roles say what they allow."""

from collections.abc import Iterator

from policies.reading import at, entries, is_kubernetes
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for index, each in enumerate(entries(resource.props, "rules")):
        verbs, kinds = entries(each, "verbs"), entries(each, "resources")
        groups = entries(each, "apiGroups")
        if "*" in verbs and "*" in kinds:
            yield f"rules[{index}]: must name verbs or resources, got '*' for both"
        elif "*" in kinds and "*" in groups:
            yield f"rules[{index}].resources: must be of named groups, got '*' of '*'"
        elif at(each, "nonResourceURLs") == ["*"]:
            yield f"rules[{index}].nonResourceURLs: must be named, got '*'"


RULE = Rule(
    name="wildcard-roles",
    description="Roles do not allow everything: verbs, kinds or groups are named.",
    applies=is_kubernetes("ClusterRole", "Role"),
    check=_check,
    reference="CIS GKE Benchmark 4.1.3 (wildcards in roles)",
)

"""Rights in a cluster come from IAM and RBAC, not from attributes of requests."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "enableLegacyAbac")
    if value is True:
        yield f"enableLegacyAbac: must be off, got {value!r}"


RULE = Rule(
    name="legacy-authorization",
    description="Clusters do not use attribute-based access control (ABAC).",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.8.3 (legacy authorization)",
)

"""What runs is in a namespace with rules of its own."""

from collections.abc import Iterator

from policies.reading import at, is_workload
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    name = at(resource.props, "metadata", "namespace")
    if name in (None, "default"):
        yield f"metadata.namespace: must be one of the platform's, got {name!r}"


RULE = Rule(
    name="default-namespace",
    description="No workload runs in the namespace default.",
    applies=is_workload,
    check=_check,
    reference="CIS GKE Benchmark 4.6.4 (default namespace)",
)

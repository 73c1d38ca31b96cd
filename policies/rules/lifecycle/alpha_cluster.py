"""Clusters are not made of alpha features, which are deleted after 30 days."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "enableKubernetesAlpha")
    if value is True:
        yield f"enableKubernetesAlpha: must be off, got {value!r}"


RULE = Rule(
    name="alpha-cluster",
    description="Clusters are not alpha clusters: those end after 30 days and are never upgraded.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.10.2 (alpha clusters)",
)

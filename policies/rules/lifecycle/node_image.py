"""Nodes boot an image that has nothing but what runs containers."""

from collections.abc import Iterator

from policies.reading import NODE_POOL, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "nodeConfig", "imageType")
    if value is not None and str(value).upper() != "COS_CONTAINERD":
        yield f"nodeConfig.imageType: must be COS_CONTAINERD, got {value!r}"


RULE = Rule(
    name="node-image",
    description="Nodes run Container-Optimized OS, which is what GKE tests drivers with.",
    applies=is_type(NODE_POOL),
    check=_check,
    reference="CIS GKE Benchmark 5.5.1 (Container-Optimized OS)",
)

"""Node pools have a maximum size."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import NODE_POOL, at, is_type, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_MAXIMA = ("maxNodeCount", "totalMaxNodeCount")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    autoscaling = section(resource.props, "autoscaling")
    if not autoscaling:
        count = at(resource.props, "nodeCount")
        if count is None:
            yield broken(
                resource, "autoscaling", "neither", "must set a maximum, or nodeCount a number"
            )
        return
    if all(autoscaling.get(field) in (None, 0) for field in _MAXIMA):
        yield broken(resource, "autoscaling", "neither", f"must set {' or '.join(_MAXIMA)}")


RULE = ResourceRule(
    name="bounded-pool",
    description="Every node pool has a maximum size, since idle accelerators are the largest cost.",
    applies=is_type(NODE_POOL),
    check=_check,
    reference="GKE: cluster autoscaler",
)

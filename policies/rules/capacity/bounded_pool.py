"""A pool cannot grow without end."""

from collections.abc import Iterator

from policies.reading import NODE_POOL, at, is_type, section
from policies.rule import Config, Resource, Rule

_MAXIMA = ("maxNodeCount", "totalMaxNodeCount")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    autoscaling = section(resource.props, "autoscaling")
    if not autoscaling:
        count = at(resource.props, "nodeCount")
        if count is None:
            yield "autoscaling: must set a maximum, or nodeCount a number, got neither"
        return
    if all(autoscaling.get(field) in (None, 0) for field in _MAXIMA):
        yield f"autoscaling: must set {' or '.join(_MAXIMA)}, got neither"


RULE = Rule(
    name="bounded-pool",
    description="Every node pool has a maximum, since idle accelerators cost the most.",
    applies=is_type(NODE_POOL),
    check=_check,
    reference="GKE: cluster autoscaler",
)

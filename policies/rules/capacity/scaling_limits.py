"""No autoscaler may ask for more than the owner meant."""

from collections.abc import Iterator

from policies.reading import at, is_kubernetes
from policies.rule import Config, Resource, Rule

_MOST = 100


def _check(resource: Resource, config: Config) -> Iterator[str]:
    most = at(resource.props, "spec", "maxReplicas")
    limit = int(config.get("mostReplicas", _MOST))
    if not isinstance(most, int | float) or most > limit:
        yield f"spec.maxReplicas: must be at most {limit}, got {most!r}"


RULE = Rule(
    name="scaling-limits",
    description="Autoscalers have a maximum that somebody chose.",
    applies=is_kubernetes("HorizontalPodAutoscaler"),
    check=_check,
    reference="GKE: a replica is a node; quotas are the only other bound",
    config={
        "mostReplicas": {
            "type": "integer",
            "default": _MOST,
            "description": "Replicas that one autoscaler may ask for.",
        }
    },
)

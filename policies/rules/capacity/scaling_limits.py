"""Autoscalers have an intended maximum."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_MOST = 100


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    most = at(resource.props, "spec", "maxReplicas")
    limit = int(config.get("maxReplicas", _MOST))
    if not isinstance(most, int | float) or most > limit:
        yield broken(resource, "spec.maxReplicas", quoted(most), f"must be at most {limit}")


RULE = ResourceRule(
    name="scaling-limits",
    description="Autoscalers have an explicit maximum.",
    applies=is_kubernetes("HorizontalPodAutoscaler"),
    check=_check,
    reference="GKE: a replica is a node; quotas are the only other bound",
    config={
        "maxReplicas": {
            "type": "integer",
            "default": _MOST,
            "description": "Maximum replicas of one autoscaler.",
        }
    },
)

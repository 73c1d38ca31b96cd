"""A zone outage does not affect the availability of the control plane."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9]+")


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    location = at(resource.props, "location")
    if is_production(resource, config) and _ZONE.fullmatch(str(location)):
        yield broken(
            resource, "location", f"the zone {location!r}", "must be a region in production"
        )


RULE = ResourceRule(
    name="regional-cluster",
    description="Production clusters are regional.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: regional clusters; Google: best practices for availability",
    config=PRODUCTION_CONFIG,
)

"""The metadata server does not answer requests without its required header."""

from collections.abc import Iterator
from typing import Any

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import NODE_POOL, at, is_type, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_KEY = "disable-legacy-endpoints"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "nodeConfig", "metadata", _KEY)
    if value != "true":
        yield broken(resource, f"nodeConfig.metadata.{_KEY}", quoted(value), "must be 'true'")


def _remedy(resource: Resource, config: Config) -> dict[str, Any]:
    """Return the node configuration with the legacy endpoints off."""
    if not list(_check(resource, config)):
        return {}
    node = section(resource.props, "nodeConfig")
    return {"nodeConfig": {**node, "metadata": {**section(node, "metadata"), _KEY: "true"}}}


RULE = ResourceRule(
    name="legacy-metadata",
    description="Legacy metadata server endpoints are off; the pack turns them off.",
    applies=is_type(NODE_POOL),
    check=_check,
    level="remediating",
    reference="GKE: legacy metadata APIs",
    remedy=_remedy,
)

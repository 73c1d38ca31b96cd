"""Clusters use Dataplane V2, which enforces network policies."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_WANTED = "ADVANCED_DATAPATH"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "datapathProvider")
    if at(resource.props, "enableAutopilot") and value is None:
        return  # always Dataplane V2
    if value != _WANTED:
        yield broken(resource, "datapathProvider", quoted(value), f"must be {_WANTED!r}")


RULE = ResourceRule(
    name="dataplane-v2",
    description="Clusters use Dataplane V2, which enforces network policies and logs them.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("4.3.1",),
)

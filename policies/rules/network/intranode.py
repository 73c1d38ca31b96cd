"""The network sees traffic between pods on the same node."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if at(resource.props, "enableAutopilot") is True:
        return  # always on there
    value = at(resource.props, "enableIntranodeVisibility")
    if value is not True:
        yield broken(resource, "enableIntranodeVisibility", quoted(value), "must be true")


RULE = ResourceRule(
    name="intranode-visibility",
    description="The network sees, logs and filters traffic between pods on the same node.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.6.1",),
)

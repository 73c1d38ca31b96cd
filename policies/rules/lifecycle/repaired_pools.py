"""GKE repairs and upgrades nodes."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import NODE_POOL, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    is_flex = at(resource.props, "nodeConfig", "flexStart") is True
    for name in ("autoRepair", "autoUpgrade"):
        value = at(resource.props, "management", name)
        if value is not True and not (name == "autoRepair" and is_flex):
            yield broken(resource, f"management.{name}", quoted(value), "must be true")


RULE = ResourceRule(
    name="repaired-pools",
    description="Node pools use auto-repair and auto-upgrade; flex-start nodes cannot be repaired.",
    applies=is_type(NODE_POOL),
    check=_check,
    cis=("5.5.2", "5.5.3"),
)

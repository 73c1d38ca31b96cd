"""Nodes are repaired and upgraded by GKE."""

from collections.abc import Iterator

from policies.reading import NODE_POOL, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    is_flex = at(resource.props, "nodeConfig", "flexStart") is True
    for name in ("autoRepair", "autoUpgrade"):
        value = at(resource.props, "management", name)
        if value is not True and not (name == "autoRepair" and is_flex):
            yield f"management.{name}: must be true, got {value!r}"


RULE = Rule(
    name="repaired-pools",
    description="Node pools are repaired and upgraded; flex-start nodes cannot be repaired.",
    applies=is_type(NODE_POOL),
    check=_check,
    reference="CIS GKE Benchmark 5.5.2, 5.5.3 (auto-repair, auto-upgrade)",
)

"""Traffic between pods of one node is seen by the network, too."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if at(resource.props, "enableAutopilot") is True:
        return  # always on there
    value = at(resource.props, "enableIntranodeVisibility")
    if value is not True:
        yield f"enableIntranodeVisibility: must be true, got {value!r}"


RULE = Rule(
    name="intranode-visibility",
    description="Traffic between pods on one node is seen, logged and filtered by the network.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.6.1 (intranode visibility)",
)

"""Clusters use Dataplane V2, so that network policies are enforced."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule

_WANTED = "ADVANCED_DATAPATH"


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "datapathProvider")
    if at(resource.props, "enableAutopilot") and value is None:
        return  # always Dataplane V2
    if value != _WANTED:
        yield f"datapathProvider: must be {_WANTED!r}, got {value!r}"


RULE = Rule(
    name="dataplane-v2",
    description="Clusters use Dataplane V2, which enforces network policies and logs them.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 4.3.1, 5.6.7 (network policies)",
)

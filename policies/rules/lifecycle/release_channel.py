"""Clusters follow a release channel."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_CHANNELS = ("RAPID", "REGULAR", "STABLE", "EXTENDED")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "releaseChannel", "channel")
    if value not in _CHANNELS:
        yield broken(
            resource,
            "releaseChannel.channel",
            quoted(value),
            f"must be one of {', '.join(_CHANNELS)}",
        )


RULE = ResourceRule(
    name="release-channel",
    description="Clusters use a release channel, for timely fixes and planned upgrades.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.5.4",),
)

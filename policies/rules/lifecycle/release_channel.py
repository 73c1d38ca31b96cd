"""Clusters follow a release channel."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule

_CHANNELS = ("RAPID", "REGULAR", "STABLE", "EXTENDED")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "releaseChannel", "channel")
    if value not in _CHANNELS:
        yield f"releaseChannel.channel: must be one of {', '.join(_CHANNELS)}, got {value!r}"


RULE = Rule(
    name="release-channel",
    description="Clusters follow a release channel, so that fixes arrive and upgrades are planned.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.5.4 (release channels)",
)

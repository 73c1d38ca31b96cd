"""Upgrades of clusters."""

import pytest

from policies.rules.lifecycle.release_channel import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"releaseChannel": {"channel": "REGULAR"}}, None),
        (
            "gcp:container/cluster:Cluster",
            {"releaseChannel": {"channel": "UNSPECIFIED"}},
            "UNSPECIFIED",
        ),
        ("gcp:container/cluster:Cluster", {}, "releaseChannel.channel"),
        ("gcp:container/cluster:Cluster", {"releaseChannel": {"channel": UNKNOWN}}, "unknown"),
    ],
)
def test_release_channel_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

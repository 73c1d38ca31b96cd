"""Upgrades of clusters."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.release_channel import RULE


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

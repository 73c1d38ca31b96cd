"""Who reaches the control plane."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.control_plane import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}}},
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "10.0.0.0/8"}]}},
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": True}}},
            "ipEndpointsConfig.enabled",
        ),
        ("gcp:container/cluster:Cluster", {}, "ipEndpointsConfig.enabled"),
        (
            "gcp:container/cluster:Cluster",
            {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "0.0.0.0/0"}]}},
            "cidrBlocks[0]",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": UNKNOWN}]}},
            "unknown",
        ),
    ],
)
def test_control_plane_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

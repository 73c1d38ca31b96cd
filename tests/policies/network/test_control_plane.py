"""Who reaches the control plane."""

import pytest

from policies.rules.network.control_plane import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

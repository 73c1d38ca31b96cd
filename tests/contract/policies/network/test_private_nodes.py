"""Addresses of nodes."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.private_nodes import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"privateClusterConfig": {"enablePrivateNodes": True}},
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"privateClusterConfig": {"enablePrivateNodes": False}},
            "privateClusterConfig.enablePrivateNodes",
        ),
        ("gcp:container/cluster:Cluster", {}, "privateClusterConfig.enablePrivateNodes"),
        (
            "gcp:container/cluster:Cluster",
            {"privateClusterConfig": {"enablePrivateNodes": UNKNOWN}},
            "unknown",
        ),
        ("gcp:container/nodePool:NodePool", {"networkConfig": {"enablePrivateNodes": True}}, None),
        (
            "gcp:container/nodePool:NodePool",
            {"networkConfig": {"enablePrivateNodes": False}},
            "networkConfig.enablePrivateNodes",
        ),
        ("gcp:container/nodePool:NodePool", {}, "networkConfig.enablePrivateNodes"),
    ],
)
def test_private_nodes_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

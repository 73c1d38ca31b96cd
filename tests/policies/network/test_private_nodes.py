"""Addresses of nodes."""

import pytest

from policies.rules.network.private_nodes import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

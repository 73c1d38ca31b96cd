"""Nodes are repaired and upgraded by GKE."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.repaired_pools import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/nodePool:NodePool",
            {"management": {"autoRepair": True, "autoUpgrade": True}},
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "management": {"autoRepair": False, "autoUpgrade": True},
                "nodeConfig": {"flexStart": True},
            },
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"management": {"autoRepair": False, "autoUpgrade": True}},
            "autoRepair",
        ),
        ("gcp:container/nodePool:NodePool", {"management": {"autoRepair": True}}, "autoUpgrade"),
        ("gcp:container/nodePool:NodePool", {"management": UNKNOWN}, "unknown"),
    ],
)
def test_repaired_pools_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

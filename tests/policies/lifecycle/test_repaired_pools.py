"""Nodes are repaired and upgraded by GKE."""

import pytest

from policies.rules.lifecycle.repaired_pools import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

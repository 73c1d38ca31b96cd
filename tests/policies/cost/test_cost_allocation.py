"""The bill can be split by namespace and label."""

import pytest

from policies.rules.cost.cost_allocation import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"costManagementConfig": {"enabled": True}}, None),
        ("gcp:container/cluster:Cluster", {}, "costManagementConfig"),
        ("gcp:container/cluster:Cluster", {"costManagementConfig": {"enabled": False}}, "False"),
        ("gcp:container/cluster:Cluster", {"costManagementConfig": UNKNOWN}, "unknown"),
    ],
)
def test_cost_allocation_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

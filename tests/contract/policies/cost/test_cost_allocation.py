"""The bill can be split by namespace and label."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.cost.cost_allocation import RULE


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

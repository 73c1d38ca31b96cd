"""How large pools get."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.capacity.bounded_pool import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/nodePool:NodePool", {"autoscaling": {"totalMaxNodeCount": 4}}, None),
        ("gcp:container/nodePool:NodePool", {"autoscaling": {"maxNodeCount": 4}}, None),
        ("gcp:container/nodePool:NodePool", {"nodeCount": 2}, None),
        ("gcp:container/nodePool:NodePool", {"autoscaling": {"minNodeCount": 1}}, "maxNodeCount"),
        ("gcp:container/nodePool:NodePool", {}, "autoscaling"),
        ("gcp:container/nodePool:NodePool", {"autoscaling": {"maxNodeCount": UNKNOWN}}, "unknown"),
    ],
)
def test_bounded_pool_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

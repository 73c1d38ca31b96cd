"""How large pools get."""

import pytest

from policies.rules.capacity.bounded_pool import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

"""Nodes boot an image that has nothing but what runs containers."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.node_image import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/nodePool:NodePool", {"nodeConfig": {"imageType": "COS_CONTAINERD"}}, None),
        ("gcp:container/nodePool:NodePool", {}, None),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"imageType": "UBUNTU_CONTAINERD"}},
            "UBUNTU",
        ),
        ("gcp:container/nodePool:NodePool", {"nodeConfig": UNKNOWN}, "unknown"),
    ],
)
def test_node_image_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

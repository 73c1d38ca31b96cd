"""Nodes boot an image that has nothing but what runs containers."""

import pytest

from policies.rules.lifecycle.node_image import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

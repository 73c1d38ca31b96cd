"""When no rung has room."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.capacity.waiting_class import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {"whenUnsatisfiable": "DoNotScaleUp"}},
            None,
        ),
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {"whenUnsatisfiable": "ScaleUpAnyway"}},
            "ScaleUpAnyway",
        ),
        ("kubernetes:cloud.google.com/v1:ComputeClass", {"spec": {}}, "whenUnsatisfiable"),
        ("kubernetes:cloud.google.com/v1:ComputeClass", {}, "whenUnsatisfiable"),
        ("kubernetes:cloud.google.com/v1:ComputeClass", {"spec": UNKNOWN}, "unknown"),
    ],
)
def test_waiting_class_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

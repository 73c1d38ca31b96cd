"""When no rung has room."""

import pytest

from policies.rules.capacity.waiting_class import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

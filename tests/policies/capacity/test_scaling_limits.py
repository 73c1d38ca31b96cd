"""No autoscaler may ask for more than the owner meant."""

import pytest

from policies.rules.capacity.scaling_limits import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": {"maxReplicas": 100}}, None),
        (
            "kubernetes:autoscaling/v2:HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 101}},
            "at most 100",
        ),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": {}}, "None"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": UNKNOWN}, "unknown"),
    ],
)
def test_scaling_limits_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""No autoscaler may ask for more than the owner meant."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.capacity.scaling_limits import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": {"maxReplicas": 100}}, None),
        (
            "kubernetes:autoscaling/v2:HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 101}},
            "at most 100",
        ),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": {}}, "got nothing"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": UNKNOWN}, "unknown"),
    ],
)
def test_scaling_limits_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

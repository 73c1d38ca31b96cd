"""What servers ask for."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.whole_chips import RULE


def deployment(container, volumes=(), annotations=None):
    return {
        "spec": {
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"containers": [container], "volumes": list(volumes)},
            }
        }
    }


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {
                    "resources": {
                        "limits": {"google.com/tpu": "4"},
                        "requests": {"google.com/tpu": "4"},
                    }
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {
                    "resources": {
                        "limits": {"google.com/tpu": "4"},
                        "requests": {"google.com/tpu": "2"},
                    }
                }
            ),
            "resources.requests",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"resources": {"requests": {"google.com/tpu": "4"}}}),
            "resources.limits",
        ),
        ("kubernetes:apps/v1:Deployment", deployment({"name": "main"}), None),
        ("kubernetes:apps/v1:Deployment", deployment({"resources": UNKNOWN}), "unknown"),
    ],
)
def test_whole_chips_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

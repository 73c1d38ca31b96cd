"""When servers get traffic."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.probes import RULE


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
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                    "readinessProbe": {"httpGet": {}},
                    "startupProbe": {"httpGet": {}},
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {"resources": {"limits": {"nvidia.com/gpu": 1}}, "readinessProbe": {"httpGet": {}}}
            ),
            "startupProbe",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {"resources": {"limits": {"nvidia.com/gpu": 1}}, "startupProbe": {"httpGet": {}}}
            ),
            "readinessProbe",
        ),
        ("kubernetes:apps/v1:Deployment", deployment({"name": "main"}), None),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"resources": {"limits": {"nvidia.com/gpu": 1}}, "readinessProbe": UNKNOWN}),
            "unknown",
        ),
    ],
)
def test_probes_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

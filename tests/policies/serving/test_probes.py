"""When servers get traffic."""

import pytest

from policies.rules.serving.probes import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

"""Where tokens stand."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.plain_secrets import RULE


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
                    "env": [
                        {
                            "name": "HF_TOKEN",
                            "valueFrom": {"secretKeyRef": {"name": "hf", "key": "t"}},
                        }
                    ]
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"env": [{"name": "HF_TOKEN", "value": "hf_x"}]}),
            "HF_TOKEN",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"env": [{"name": "MAX_TOKENS", "value": "8"}]}),
            None,
        ),
        ("kubernetes:apps/v1:Deployment", deployment({"name": "main"}), None),
        ("kubernetes:apps/v1:Deployment", deployment({"env": UNKNOWN}), "unknown"),
    ],
)
def test_plain_secrets_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

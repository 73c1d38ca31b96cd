"""Containers that own their node."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.privileged import RULE


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
            deployment({"securityContext": {"privileged": False}}),
            None,
        ),
        ("kubernetes:apps/v1:Deployment", deployment({"name": "main"}), None),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"securityContext": {"privileged": True}}),
            "privileged-because",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {"securityContext": {"privileged": True}},
                (),
                {"gke-inference/privileged-because": "both"},
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment(
                {"securityContext": {"privileged": True}},
                (),
                {"gke-inference/privileged-because": ""},
            ),
            "privileged",
        ),
        ("kubernetes:apps/v1:Deployment", {}, None),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"securityContext": {"privileged": UNKNOWN}}),
            "unknown",
        ),
    ],
)
def test_privileged_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

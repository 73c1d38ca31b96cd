"""Containers that own their node."""

import pytest

from policies.rules.serving.privileged import RULE

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

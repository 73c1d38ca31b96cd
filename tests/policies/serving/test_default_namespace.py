"""What runs is in a namespace with rules of its own."""

import pytest

from policies.rules.serving.default_namespace import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}},
            },
            None,
        ),
        ("kubernetes:apps/v1:Deployment", {"metadata": {"namespace": "default"}}, "'default'"),
        ("kubernetes:apps/v1:Deployment", {"metadata": {}}, "None"),
        ("kubernetes:apps/v1:Deployment", {"metadata": {"namespace": UNKNOWN}}, "unknown"),
    ],
)
def test_default_namespace_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""What runs is in a namespace with rules of its own."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.default_namespace import RULE
from tests.contract.policies.workloads import workload


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}]}),
            None,
        ),
        ("kubernetes:apps/v1:Deployment", {"metadata": {"namespace": "default"}}, "'default'"),
        ("kubernetes:apps/v1:Deployment", {"metadata": {}}, "got nothing"),
        ("kubernetes:apps/v1:Deployment", {"metadata": {"namespace": UNKNOWN}}, "unknown"),
    ],
)
def test_default_namespace_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

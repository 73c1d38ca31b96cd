"""The autoscaler knows how large a node must be."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.sized_containers import RULE
from tests.contract.policies.workloads import workload


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [
                        {
                            "name": "a",
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        }
                    ]
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [
                        {
                            "name": "a",
                            "resources": {
                                "requests": {"cpu": "1"},
                                "limits": {"memory": "1Gi"},
                            },
                        }
                    ]
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}),
            "memory",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "resources": UNKNOWN}]}),
            "unknown",
        ),
    ],
)
def test_sized_containers_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

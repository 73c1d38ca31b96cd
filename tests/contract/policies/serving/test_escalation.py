"""No process gains rights that its container did not have."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.escalation import RULE
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
                            "securityContext": {"allowPrivilegeEscalation": False},
                        }
                    ]
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}]}),
            "allowPrivilegeEscalation",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [
                        {"name": "a", "securityContext": {"allowPrivilegeEscalation": True}}
                    ]
                }
            ),
            "True",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "securityContext": {"privileged": True}}]}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "securityContext": UNKNOWN}]}),
            "unknown",
        ),
    ],
)
def test_escalation_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

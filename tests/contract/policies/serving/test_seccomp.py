"""Pods may make the system calls of a container, no more."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.seccomp import RULE
from tests.contract.policies.workloads import workload


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [{"name": "a"}],
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
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
                            "securityContext": {"seccompProfile": {"type": "Localhost"}},
                        }
                    ]
                }
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "securityContext": {"privileged": True}}]}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}]}),
            "seccompProfile",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [{"name": "a"}],
                    "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                }
            ),
            "Unconfined",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "securityContext": UNKNOWN}]}),
            "unknown",
        ),
    ],
)
def test_seccomp_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""What people ask is in no log."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.private_prompts import RULE
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
                            "command": ["vllm", "serve"],
                            "args": ["--no-enable-log-requests"],
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
                            "command": ["vllm", "serve"],
                            "args": ["--enable-log-requests"],
                        }
                    ]
                }
            ),
            "--enable-log-requests",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [
                        {
                            "name": "a",
                            "command": ["python3", "-m", "sglang.launch_server"],
                            "args": ["--log-requests"],
                        }
                    ]
                }
            ),
            "--log-requests",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {"containers": [{"name": "a", "command": ["other"], "args": ["--log-requests"]}]}
            ),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "args": [UNKNOWN]}]}),
            "unknown",
        ),
    ],
)
def test_private_prompts_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

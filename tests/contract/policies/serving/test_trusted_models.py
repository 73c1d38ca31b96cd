"""No program comes along with the weights."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.trusted_models import RULE
from tests.contract.policies.workloads import workload


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "args": ["--model=x"]}]}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "args": ["--trust-remote-code"]}]}),
            "--trust-remote-code",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [
                        {
                            "name": "a",
                            "args": ["sh", "-c", "vllm serve x --trust_remote_code"],
                        }
                    ]
                }
            ),
            "--trust-remote-code",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a", "args": [UNKNOWN]}]}),
            "unknown",
        ),
    ],
)
def test_trusted_models_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

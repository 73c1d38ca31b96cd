"""No program comes along with the weights."""

import pytest

from policies.rules.serving.trusted_models import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {"spec": {"containers": [{"name": "a", "args": ["--model=x"]}]}}
                },
            },
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "a", "args": ["--trust-remote-code"]}]}
                    }
                },
            },
            "--trust-remote-code",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "a",
                                    "args": ["sh", "-c", "vllm serve x --trust_remote_code"],
                                }
                            ]
                        }
                    }
                },
            },
            "--trust-remote-code",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {"template": {"spec": {"containers": [{"name": "a", "args": [UNKNOWN]}]}}},
            },
            "unknown",
        ),
    ],
)
def test_trusted_models_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""No process gains rights that its container did not have."""

import pytest

from policies.rules.serving.escalation import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
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
                                    "securityContext": {"allowPrivilegeEscalation": False},
                                }
                            ]
                        }
                    }
                },
            },
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}},
            },
            "allowPrivilegeEscalation",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {"name": "a", "securityContext": {"allowPrivilegeEscalation": True}}
                            ]
                        }
                    }
                },
            },
            "True",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "a", "securityContext": {"privileged": True}}]
                        }
                    }
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
                        "spec": {"containers": [{"name": "a", "securityContext": UNKNOWN}]}
                    }
                },
            },
            "unknown",
        ),
    ],
)
def test_escalation_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

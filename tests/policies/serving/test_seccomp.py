"""Pods may make the system calls of a container, no more."""

import pytest

from policies.rules.serving.seccomp import RULE

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
                            "containers": [{"name": "a"}],
                            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
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
                        "spec": {
                            "containers": [
                                {
                                    "name": "a",
                                    "securityContext": {"seccompProfile": {"type": "Localhost"}},
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
                "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}},
            },
            "seccompProfile",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "a"}],
                            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                        }
                    }
                },
            },
            "Unconfined",
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
def test_seccomp_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

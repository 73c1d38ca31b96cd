"""The autoscaler knows how large a node must be."""

import pytest

from policies.rules.serving.sized_containers import RULE

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
                                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
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
                            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]
                        }
                    }
                },
            },
            "memory",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"namespace": "models"},
                "spec": {
                    "template": {"spec": {"containers": [{"name": "a", "resources": UNKNOWN}]}}
                },
            },
            "unknown",
        ),
    ],
)
def test_sized_containers_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

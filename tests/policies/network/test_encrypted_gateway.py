"""Prompts cross the internet encrypted."""

import pytest

from policies.rules.network.encrypted_gateway import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        (
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            {
                "spec": {
                    "gatewayClassName": "gke-l7-regional-external-managed",
                    "listeners": [{"protocol": "HTTPS"}],
                }
            },
            None,
            "prod",
        ),
        (
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            {"spec": {"gatewayClassName": "gke-l7-rilb", "listeners": [{"protocol": "HTTP"}]}},
            None,
            "prod",
        ),
        (
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            {
                "spec": {
                    "gatewayClassName": "gke-l7-regional-external-managed",
                    "listeners": [{"protocol": "HTTP"}],
                }
            },
            None,
            "dev",
        ),
        (
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            {
                "spec": {
                    "gatewayClassName": "gke-l7-regional-external-managed",
                    "listeners": [{"protocol": "HTTP"}],
                }
            },
            "'HTTP'",
            "prod",
        ),
        (
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            {
                "spec": {
                    "gatewayClassName": "gke-l7-regional-external-managed",
                    "listeners": UNKNOWN,
                }
            },
            "unknown",
            "prod",
        ),
    ],
)
def test_encrypted_gateway_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)

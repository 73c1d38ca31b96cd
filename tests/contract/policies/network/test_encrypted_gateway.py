"""Prompts cross the internet encrypted."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.encrypted_gateway import RULE


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

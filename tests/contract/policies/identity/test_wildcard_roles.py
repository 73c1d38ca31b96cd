"""Roles say what they allow."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.wildcard_roles import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:rbac.authorization.k8s.io/v1:Role",
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]},
            None,
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
            {
                "rules": [
                    {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get"]}
                ]
            },
            None,
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:Role",
            {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
            "rules[0]",
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:Role",
            {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]},
            "named groups",
        ),
        ("kubernetes:rbac.authorization.k8s.io/v1:Role", {"rules": UNKNOWN}, "unknown"),
    ],
)
def test_wildcard_roles_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

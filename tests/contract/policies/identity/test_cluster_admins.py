"""No program has every right in a cluster."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.cluster_admins import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            {"roleRef": {"name": "view"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]},
            None,
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            {
                "roleRef": {"name": "cluster-admin"},
                "subjects": [{"kind": "Group", "name": "admins@example.com"}],
            },
            None,
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            {
                "roleRef": {"name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "a"}],
            },
            "'a'",
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            {
                "roleRef": {"name": "cluster-admin"},
                "subjects": [{"kind": "Group", "name": "system:authenticated"}],
            },
            "system:authenticated",
        ),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            {"roleRef": {"name": "cluster-admin"}, "subjects": UNKNOWN},
            "unknown",
        ),
    ],
)
def test_cluster_admins_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""Nobody has rights in a cluster only because they could reach it."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.anonymous_rights import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {
                "rbacBindingConfig": {
                    "enableInsecureBindingSystemAuthenticated": False,
                    "enableInsecureBindingSystemUnauthenticated": False,
                }
            },
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"rbacBindingConfig": {"enableInsecureBindingSystemAuthenticated": False}},
            "Unauthenticated",
        ),
        (
            "gcp:container/cluster:Cluster",
            {
                "rbacBindingConfig": {
                    "enableInsecureBindingSystemAuthenticated": True,
                    "enableInsecureBindingSystemUnauthenticated": False,
                }
            },
            "SystemAuthenticated",
        ),
        ("gcp:container/cluster:Cluster", {"rbacBindingConfig": UNKNOWN}, "unknown"),
    ],
)
def test_anonymous_rights_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

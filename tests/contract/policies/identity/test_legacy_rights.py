"""Rights in a cluster come from IAM and RBAC, not from attributes of requests."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.legacy_rights import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"enableLegacyAbac": False}, None),
        ("gcp:container/cluster:Cluster", {}, None),
        ("gcp:container/cluster:Cluster", {"enableLegacyAbac": True}, "enableLegacyAbac"),
        ("gcp:container/cluster:Cluster", {"enableLegacyAbac": UNKNOWN}, "unknown"),
    ],
)
def test_legacy_authorization_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

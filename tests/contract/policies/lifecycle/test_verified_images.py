"""Only images that were attested run in production."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.verified_images import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"binaryAuthorization": {"evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"}},
            None,
            "prod",
        ),
        ("gcp:container/cluster:Cluster", {}, None, "dev"),
        ("gcp:container/cluster:Cluster", {}, "binaryAuthorization", "prod"),
        (
            "gcp:container/cluster:Cluster",
            {"binaryAuthorization": {"evaluationMode": "DISABLED"}},
            "DISABLED",
            "prod",
        ),
        ("gcp:container/cluster:Cluster", {"binaryAuthorization": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_verified_images_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)

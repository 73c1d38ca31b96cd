"""What was deleted by mistake can be had back."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.recoverable_bucket import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        (
            "gcp:storage/bucket:Bucket",
            {"softDeletePolicy": {"retentionDurationSeconds": 604800}},
            None,
            "prod",
        ),
        ("gcp:storage/bucket:Bucket", {}, None, "prod"),
        (
            "gcp:storage/bucket:Bucket",
            {"softDeletePolicy": {"retentionDurationSeconds": 0}, "versioning": {"enabled": True}},
            None,
            "prod",
        ),
        (
            "gcp:storage/bucket:Bucket",
            {"softDeletePolicy": {"retentionDurationSeconds": 0}},
            "604800",
            "prod",
        ),
        (
            "gcp:storage/bucket:Bucket",
            {"softDeletePolicy": {"retentionDurationSeconds": 0}},
            None,
            "dev",
        ),
        ("gcp:storage/bucket:Bucket", {"softDeletePolicy": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_recoverable_bucket_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)

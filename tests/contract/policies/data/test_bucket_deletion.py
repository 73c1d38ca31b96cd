"""A bucket that holds something is not deleted with the stack."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.bucket_deletion import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        ("gcp:storage/bucket:Bucket", {"forceDestroy": False}, None, "prod"),
        ("gcp:storage/bucket:Bucket", {"forceDestroy": True}, None, "dev"),
        (
            "gcp:storage/bucket:Bucket",
            {"softDeletePolicy": {"retentionDurationSeconds": 0}, "forceDestroy": True},
            None,
            "prod",
        ),
        ("gcp:storage/bucket:Bucket", {"forceDestroy": True}, "forceDestroy", "prod"),
        ("gcp:storage/bucket:Bucket", {"forceDestroy": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_bucket_deletion_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)

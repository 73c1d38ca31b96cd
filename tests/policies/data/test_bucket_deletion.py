"""A bucket that holds something is not deleted with the stack."""

import pytest

from policies.rules.data.bucket_deletion import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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

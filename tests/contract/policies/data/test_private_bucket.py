"""Who reads weights."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.private_bucket import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:storage/bucket:Bucket",
            {"uniformBucketLevelAccess": True, "publicAccessPrevention": "enforced"},
            None,
        ),
        (
            "gcp:storage/bucket:Bucket",
            {"uniformBucketLevelAccess": False, "publicAccessPrevention": "enforced"},
            "uniformBucketLevelAccess",
        ),
        (
            "gcp:storage/bucket:Bucket",
            {"uniformBucketLevelAccess": True, "publicAccessPrevention": "inherited"},
            "publicAccessPrevention",
        ),
        ("gcp:storage/bucket:Bucket", {"uniformBucketLevelAccess": True}, "publicAccessPrevention"),
        (
            "gcp:storage/bucket:Bucket",
            {"publicAccessPrevention": "enforced"},
            "uniformBucketLevelAccess",
        ),
        (
            "gcp:storage/bucket:Bucket",
            {"uniformBucketLevelAccess": UNKNOWN, "publicAccessPrevention": "enforced"},
            "unknown",
        ),
    ],
)
def test_private_bucket_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

"""Grants to everybody."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.public_iam import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"member": "serviceAccount:a@p.iam.gserviceaccount.com"},
            None,
        ),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", {"member": "allUsers"}, "everybody"),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"member": "allAuthenticatedUsers"},
            "everybody",
        ),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", {}, "nobody"),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", {"member": UNKNOWN}, "unknown"),
        (
            "gcp:projects/iAMBinding:IAMBinding",
            {"members": ["user:a@example.com", "allUsers"]},
            "everybody",
        ),
        ("gcp:projects/iAMBinding:IAMBinding", {"members": ["user:a@example.com"]}, None),
        ("gcp:projects/iAMBinding:IAMBinding", {"members": []}, "nobody"),
    ],
)
def test_public_iam_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)

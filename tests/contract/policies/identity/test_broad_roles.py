"""How much machines may do."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.broad_roles import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {
                "role": "roles/storage.objectViewer",
                "member": "serviceAccount:a@p.iam.gserviceaccount.com",
            },
            None,
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"role": "roles/storage.admin", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
            "roles/storage.admin",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"role": "roles/editor", "member": "principal://iam.googleapis.com/x"},
            "narrower",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"role": "roles/owner", "member": "user:a@example.com"},
            None,
        ),
        (
            "gcp:projects/iAMBinding:IAMBinding",
            {"role": "roles/owner", "members": ["user:a@example.com", "principalSet://x"]},
            "principalSet",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"member": "serviceAccount:a@p.iam.gserviceaccount.com"},
            "role: must be set",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"role": UNKNOWN, "member": "serviceAccount:a"},
            "unknown",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"role": "roles/owner", "member": UNKNOWN},
            "unknown",
        ),
    ],
)
def test_broad_roles_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


def test_the_pack_can_be_told_of_more_roles(judge):
    props = {"role": "roles/aiplatform.admin", "member": "serviceAccount:a"}
    resource_type = "gcp:projects/iAMMember:IAMMember"
    assert judge(RULE, resource_type, props) == []
    config = {"moreRoles": ["roles/aiplatform.admin"]}
    assert "narrower" in judge(RULE, resource_type, props, config=config)[0]

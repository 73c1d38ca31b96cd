"""A bucket for answers that are kept for long: place, ages and retention."""

from typing import Any

import pulumi
import pytest

from gke_inference import ArchiveBucket
from gke_inference.catalogue.files.buckets import Place, place_of

ARGS: dict[str, Any] = {"bucket_name": "acme-answers", "project": "acme"}
BUCKET = "gcp:storage/bucket:Bucket"


def made(recorder: Any, **changes: Any) -> dict[str, Any]:
    args: Any = {**ARGS, "archive": {"location": "us-central1+us-east1", **changes}}
    recorder.run(lambda: ArchiveBucket("answers", args).bucket_name)
    inputs: dict[str, Any] = recorder.one(BUCKET).inputs
    return inputs


def test_objects_get_colder_with_age_and_are_deleted_at_last(recorder: Any) -> None:
    ages = {"nearline_after_days": 30.0, "archive_after_days": 120, "delete_after_days": 2555}
    rules = made(recorder, **ages)["lifecycleRules"]
    assert rules[1:] == [
        {
            "action": {"storageClass": "NEARLINE", "type": "SetStorageClass"},
            "condition": {"age": 30},
        },
        {
            "action": {"storageClass": "ARCHIVE", "type": "SetStorageClass"},
            "condition": {"age": 120},
        },
        {"action": {"type": "Delete"}, "condition": {"age": 2555}},
    ]


def test_a_pair_of_regions_is_a_bucket_of_their_multi_region(recorder: Any) -> None:
    bucket = made(recorder, turbo=True)
    assert bucket["location"] == "US"
    assert bucket["customPlacementConfig"] == {"dataLocations": ["US-CENTRAL1", "US-EAST1"]}
    assert bucket["rpo"] == "ASYNC_TURBO"


def test_nothing_is_public_and_what_is_deleted_can_be_restored(recorder: Any) -> None:
    bucket = made(recorder, location="nam4", retention_days=30)
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 7 * 86_400}
    assert bucket["retentionPolicy"] == {"retentionPeriod": "2592000"}
    assert "customPlacementConfig" not in bucket
    assert "rpo" not in bucket


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        (
            {"coldline_after_days": 60, "nearline_after_days": 60},
            "archive.coldlineAfterDays",
            "must be above 60, the age of the class before it, got 60",
        ),
        (
            {"delete_after_days": 20, "nearline_after_days": 30},
            "archive.deleteAfterDays",
            "must be at least 31, got 20: nearline is billed for 30 days",
        ),
        (
            {"location": "us", "turbo": True},
            "archive.turbo",
            "must be false: us is a multi-region, not a dual-region, got true",
        ),
        (
            {"delete_after_days": 20, "retention_days": 30},
            "archive.deleteAfterDays",
            "must be at least retention_days (30), got 20",
        ),
        ({"soft_delete_days": 3}, "archive.softDeleteDays", "must be 0 or 7 to 90, got 3"),
        (
            {"location": "us-central1+europe-west1"},
            "archive.location",
            "must be a region, asia, eu, us, asia1, eur4, eur5, eur7, eur8, nam4, or two regions "
            "of one multi-region as REGION+REGION, got 'us-central1+europe-west1'",
        ),
    ],
)
def test_what_cloud_storage_does_not_have_is_refused(
    recorder: Any, changes: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError) as refused:
        made(recorder, **changes)
    assert (refused.value.property_path, refused.value.reason) == (path, reason)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("us-central1", Place("region", "us-central1")),
        ("eu", Place("multi-region", "eu")),
        ("eur4", Place("dual-region", "eur4")),
        (
            "europe-west1+europe-west4",
            Place("dual-region", "eu", ("europe-west1", "europe-west4")),
        ),
        ("europe-west1+europe-west2", None),  # London is outside the EU
        ("us-central1+us-central1", None),
        ("us-central1+", None),
        ("moon", None),
    ],
)
def test_locations_are_regions_pairs_or_multi_regions(text: str, place: Place | None) -> None:
    assert place_of(text) == place

"""Buckets: where Google lets them be, and what keeps their objects."""

from typing import Any

import pytest

from twin.providers.gcp.resources.buckets import check_bucket
from twin.tests.unit.gcp.conftest import Cloud, Refused
from twin.wire.property_values import CloudError

BUCKET = "gcp:storage/bucket:Bucket"
PAIR = {"dataLocations": ["US-CENTRAL1", "US-EAST1"]}
COLD = [{"action": {"storageClass": "COLDLINE", "type": "SetStorageClass"}, "condition": {}}]


@pytest.mark.parametrize(
    "values",
    [
        {"location": "US-CENTRAL1"},
        {"location": "EU"},
        {"location": "nam4", "rpo": "ASYNC_TURBO"},
        {"location": "US", "customPlacementConfig": PAIR, "rpo": "ASYNC_TURBO"},
        {"location": "US", "lifecycleRules": COLD, "retentionPolicy": {"retentionPeriod": "60"}},
    ],
)
def test_places_of_google_are_accepted(values: dict[str, Any]) -> None:
    check_bucket(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"location": "US-MOON1"}, "location constraint is not valid: US-MOON1"),
        ({"location": "EU", "customPlacementConfig": PAIR}, "two regions of EU"),
        (
            {"location": "US", "customPlacementConfig": {"dataLocations": ["US-CENTRAL1"]}},
            "two regions of US, got US-CENTRAL1",
        ),
        ({"location": "US", "rpo": "ASYNC_TURBO"}, "needs a dual-region, got US"),
        ({"location": "US-CENTRAL1", "rpo": "DEFAULT"}, "rpo must not be set in a region"),
        (
            {
                "location": "US",
                "lifecycleRules": [{"action": {"storageClass": "COLD", "type": "SetStorageClass"}}],
            },
            "COLD must be one of STANDARD, NEARLINE, COLDLINE, ARCHIVE",
        ),
        (
            {"location": "US", "retentionPolicy": {"retentionPeriod": "0"}},
            "retentionPeriod must be 1 to 3155760000 seconds",
        ),
    ],
)
def test_what_google_does_not_have_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CloudError, match=message):
        check_bucket(values)


def test_folders_that_objects_leave_behind_do_not_hold_a_bucket(cloud: Cloud) -> None:
    inputs = {"location": "US", "name": "weights", "hierarchicalNamespace": {"enabled": True}}
    made = cloud.create(BUCKET, "weights", {**inputs, "forceDestroy": False})
    name = {"bucket": "weights", "content": "{}", "name": "llama/v1/config.json"}
    item = cloud.create("gcp:storage/bucketObject:BucketObject", "a", name)
    with pytest.raises(Refused, match="not empty"):
        cloud.delete(made)
    cloud.delete(item)  # on Google, llama/ and llama/v1/ stay
    cloud.delete(made)


def test_a_bucket_with_retained_objects_cannot_be_deleted_by_force(cloud: Cloud) -> None:
    inputs = {"forceDestroy": True, "location": "US", "name": "kept"}
    made = cloud.create(BUCKET, "kept", {**inputs, "retentionPolicy": {"retentionPeriod": "60"}})
    name = {"bucket": "kept", "content": "an answer", "name": "a"}
    item = cloud.create("gcp:storage/bucketObject:BucketObject", "a", name)
    with pytest.raises(Refused, match="retention policy"):
        cloud.delete(made)
    cloud.delete(item)
    cloud.delete(made)

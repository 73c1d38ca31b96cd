"""Archives of a stack: their buckets, and the streams that write to them."""

import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue import prices
from gke_inference.catalogue.files.buckets import REGIONS
from infra.deploy.program import deploy
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse
from infra.stack import Platform
from infra.stack.problems import StackError
from planner.amount import HOURS_PER_MONTH
from planner.choice.cost import FIELDS
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder

NAME = "acme-local-archive-answers"
KEEP = {
    "location": "us-central1+us-east1",
    "nearline_after_days": 30,
    "coldline_after_days": 90,
    "archive_after_days": 180,
    "delete_after_days": 730,
    "retention_days": 365,
    "expected_gib_per_month": 100,
}


def stack(results: dict[str, Any] | None = None, **changes: Any) -> Platform:
    """Return the local stack with a stream that writes to an archive."""
    stream = {
        "model": "llama-3.1-8b",
        "results": results or {"archive": "answers", "kind": "bucket", "prefix": "summaries/"},
        "workers": {"min": 1},
    }
    edits = [
        {"at": ["storage"], "value": {"archives": {"answers": {**KEEP, **changes}}}},
        {"at": ["streams"], "value": {"summaries": stream}},
    ]
    return parse(json.dumps(edited("local", edits)))


def test_a_stream_writes_to_the_bucket_of_its_archive(cloud: CloudRecorder) -> None:
    cloud.run(lambda: deploy(stack()))
    buckets = {each.inputs["name"]: each.inputs for each in cloud.all("gcp:storage/bucket:Bucket")}
    assert buckets[NAME]["location"] == "US"
    assert buckets[NAME]["retentionPolicy"] == {"retentionPeriod": str(365 * 86_400)}
    grants = cloud.all("gcp:storage/bucketIAMMember:BucketIAMMember")
    writers = [each.inputs for each in grants if each.inputs["bucket"] == NAME]
    assert [each["role"] for each in writers] == ["roles/storage.objectUser"]
    assert writers[0]["member"].endswith("/sa/stream-summaries")
    settings = json.dumps([each.inputs for each in cloud.all("kubernetes:core/v1:ConfigMap")])
    assert NAME in settings


def test_the_price_of_an_archive_is_that_of_its_classes_after_two_years() -> None:
    parts = {
        (part.what, part.region): getattr(part, FIELDS[0]).value * HOURS_PER_MONTH
        for part in stack_cost(resolve(stack())).parts
        if part.what.startswith("archive")
    }
    month = 365 / 12
    gib = {"standard": 30, "nearline": 60, "coldline": 90, "archive": 550}
    usd = {"standard": 0.022, "nearline": 0.011, "coldline": 0.0044, "archive": 0.0014}
    for name, days in gib.items():
        wanted = round(100 * days / month, 1) * usd[name]
        assert parts[f"archive answers: {name}", "us-central1"] == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"location": "moon"},
            "storage.archives.answers.location must be a region, asia, eu, us, asia1, eur4, eur5, "
            "eur7, eur8, nam4, or two regions of one multi-region as REGION+REGION, got 'moon'",
        ),
        (
            {"location": "us-central9"},
            "storage.archives.answers.location must be a region, asia, eu, us, asia1, eur4, eur5, "
            "eur7, eur8, nam4, or two regions of one multi-region as REGION+REGION, got "
            "'us-central9'",
        ),
        (
            {"location": "us-central1+us-east9"},
            "storage.archives.answers.location must be a region, asia, eu, us, asia1, eur4, eur5, "
            "eur7, eur8, nam4, or two regions of one multi-region as REGION+REGION, got "
            "'us-central1+us-east9'",
        ),
        (
            {"coldline_after_days": 30},
            "storage.archives.answers.coldline_after_days must be above 30, the age of the class "
            "before it, got 30",
        ),
        (
            {"delete_after_days": 300, "retention_days": None},
            "storage.archives.answers.delete_after_days must be at least 365, got 300: archive is "
            "billed for 365 days",
        ),
        (
            {"retention_days": 800},
            "storage.archives.answers.delete_after_days must be at least retention_days (800), got "
            "730",
        ),
        (
            {"location": "us", "turbo": True},
            "storage.archives.answers.turbo must be false: us is a multi-region, not a "
            "dual-region, got true",
        ),
        (
            {"kms_key": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"},
            "storage.archives.answers.kms_key must be in us, for a bucket in "
            "us-central1+us-east1, got "
            "'projects/p/locations/us-central1/keyRings/r/cryptoKeys/k'",
        ),
        (
            {"location": "eu", "kms_key": "projects/p/locations/eu/keyRings/r/cryptoKeys/k"},
            "storage.archives.answers.kms_key must be in europe, for a bucket in eu, got "
            "'projects/p/locations/eu/keyRings/r/cryptoKeys/k'",
        ),
        (
            {"soft_delete_days": 3},
            "storage.archives.answers.soft_delete_days must be 0 or 7 to 90, got 3",
        ),
    ],
)
def test_what_an_archive_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StackError) as refused:
        stack(**changes)
    assert [problem.sentence() for problem in refused.value.problems] == [sentence]


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        (
            {"archive": "other", "kind": "bucket"},
            "streams.summaries.results.archive must be one of 'storage.archives' (answers), got "
            "'other'",
        ),
        (
            {"archive": "answers", "kind": "topic"},
            "streams.summaries.results.archive must not be set when kind is topic, got 'answers'",
        ),
        (
            {"archive": "answers", "bucket": "mine", "kind": "bucket"},
            "streams.summaries.results.bucket must not be set with 'archive'",
        ),
    ],
)
def test_answers_have_one_destination(results: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StackError) as refused:
        stack(results)
    assert [problem.sentence() for problem in refused.value.problems] == [sentence]


@pytest.mark.parametrize(
    ("location", "of_key"),
    [
        ("us-central1", "us-central1"),
        ("us", "us"),
        ("asia", "asia"),
        ("eu", "europe"),
        ("asia1", "asia1"),
        ("nam4", "nam4"),
        ("eur4", "eur4"),
        ("eur5", "europe"),
        ("eur7", "europe"),
        ("eur8", "europe"),
        ("europe-west1+europe-west4", "europe"),
        ("us-central1+us-east1", "us"),
    ],
)
def test_a_key_is_where_cloud_kms_has_keys_for_the_bucket(location: str, of_key: str) -> None:
    key = f"projects/p/locations/{of_key}/keyRings/r/cryptoKeys/k"
    assert stack(location=location, kms_key=key).storage.archives["answers"].kms_key == key


def test_every_region_with_a_price_is_a_region_for_archives() -> None:
    lines = (
        (Path(prices.__file__).with_name("data") / "platform_prices.csv")
        .read_text()
        .splitlines()[1:]
    )
    priced = {line.split(",")[1] for line in lines}
    assert {region for region in priced if "-" in region} <= REGIONS

"""Resources for who asks often: read again after a change by any process, and only then."""

import os
import time
from pathlib import Path

import pytest

from twin.host.paths import TwinPaths
from twin.world.store import Listing, Record, Store, new_record

BUCKET, NETWORK = "gcp:storage/bucket:Bucket", "gcp:compute/network:Network"


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    return TwinPaths(tmp_path / "twin")


def add(paths: TwinPaths, kind: str, name: str) -> None:
    record = new_record(kind, name, name, "acme", f"urn:{name}", {}, {})
    Store(paths.cloud_db).add(record, [])


def names(listing: Listing) -> list[str]:
    return [each.name for each in listing.all()]


def set_time(paths: TwinPaths, time_ns: int) -> None:
    """Give the files of the cloud the time of their last write."""
    for file in paths.cloud_db.parent.glob(f"{paths.cloud_db.name}*"):
        os.utime(file, ns=(time_ns, time_ns))


def test_a_change_is_read_and_without_one_nothing_is(paths: TwinPaths):
    listing, buckets = Listing(paths), Listing(paths, (BUCKET,))
    assert names(listing) == []
    add(paths, NETWORK, "net")
    add(paths, BUCKET, "one")
    assert (names(listing), names(buckets)) == (["net", "one"], ["one"])
    set_time(paths, 1)
    assert listing.all() is listing.all()
    Store(paths.cloud_db).all()  # another reader
    before = listing.all()
    assert listing.all() is before
    Store(paths.cloud_db).set(BUCKET, "one", outputs={"url": "gs://one"})
    assert [each.outputs for each in buckets.all()] == [{"url": "gs://one"}]


def test_a_second_write_in_the_same_tick_of_the_clock_is_read(paths: TwinPaths):
    buckets = Listing(paths, (BUCKET,))
    add(paths, BUCKET, "one")
    found: list[Record] = []
    now = time.time_ns()
    for number in range(2):
        Store(paths.cloud_db).set(BUCKET, "one", outputs={"number": number})
        set_time(paths, now)
        found += buckets.all()
    assert [each.outputs for each in found] == [{"number": 0}, {"number": 1}]


def test_a_deleted_cloud_has_nothing_and_a_new_one_is_read(paths: TwinPaths):
    listing = Listing(paths)
    add(paths, NETWORK, "net")
    assert names(listing) == ["net"]
    for file in paths.cloud_db.parent.glob(f"{paths.cloud_db.name}*"):
        file.unlink()
    assert names(listing) == []
    add(paths, NETWORK, "other")
    assert names(listing) == ["other"]


def test_what_is_to_be_done_first_is_done_again_until_it_writes_nothing(paths: TwinPaths):
    prepared: list[int] = []

    def prepare(store: Store) -> None:
        prepared.append(len(prepared))
        if len(prepared) == 1:
            store.set(BUCKET, "one", outputs={"settled": True})

    add(paths, BUCKET, "one")
    set_time(paths, 1)
    listing = Listing(paths, (BUCKET,), prepare)
    assert [each.outputs for each in listing.all()] == [{"settled": True}]
    set_time(paths, 2)
    for _ in range(3):
        listing.all()
    assert prepared == [0, 1]

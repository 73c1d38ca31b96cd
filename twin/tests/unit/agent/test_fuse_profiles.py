"""Profiles of Cloud Storage FUSE: which volumes GKE tunes."""

from pathlib import Path

import pytest

from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.fuse_profiles import check_profile
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store

NEW = "1.35.1-gke.1616000"
AGENT = "serviceAccount:service-314@container-engine-robot.iam.gserviceaccount.com"
CLASS = "gcsfusecsi-serving"


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    made = TwinPaths(tmp_path)
    made.create()
    return made


def add(paths: TwinPaths, kind: str, name: str, outputs: dict[str, str]) -> None:
    record = Record(kind, name, name, "acme", "urn", "ready", True, {}, outputs, 0.0)
    Store(paths.cloud_db).add(record, [])


def cluster(paths: TwinPaths, version: str) -> None:
    add(paths, "gcp:container/cluster:Cluster", "acme", {"masterVersion": version})


def grant(paths: TwinPaths, role: str = "roles/storage.legacyBucketReader") -> None:
    outputs = {"bucket": "models", "member": AGENT, "role": role}
    add(paths, "gcp:storage/bucketIAMMember:BucketIAMMember", "grant", outputs)


def test_gke_tunes_a_bucket_that_it_may_scan(paths: TwinPaths) -> None:
    cluster(paths, NEW)
    grant(paths)
    check_profile(paths, "acme", CLASS, "models")


def test_other_storage_classes_are_not_checked(paths: TwinPaths) -> None:
    check_profile(paths, "acme", "gcs-fuse", "models")


def test_a_cluster_that_is_too_old_has_no_such_class(paths: TwinPaths) -> None:
    cluster(paths, "1.34.9-gke.1000000")
    grant(paths)
    with pytest.raises(ConfigError, match=r'"gcsfusecsi-serving" not found before 1\.35\.1'):
        check_profile(paths, "acme", CLASS, "models")


@pytest.mark.parametrize(
    ("role", "bucket"),
    [("roles/storage.objectUser", "models"), ("roles/storage.legacyBucketReader", "other")],
)
def test_a_bucket_that_gke_may_not_scan_is_not_mounted(
    paths: TwinPaths, role: str, bucket: str
) -> None:
    cluster(paths, NEW)
    grant(paths, role)
    with pytest.raises(ConfigError, match=r"does not have storage\.objects\.list access"):
        check_profile(paths, "acme", CLASS, bucket)

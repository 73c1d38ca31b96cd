"""Buckets that a pod may mount."""

from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launching.bucket_access import check_access
from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store

POD: Any = {
    "metadata": {"name": "p", "namespace": "serving"},
    "spec": {"serviceAccountName": "llama"},
}
POOL = "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/acme.svc.id.goog"
ACCOUNT = f"principal:{POOL}/subject/ns/serving/sa/llama"


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    made = TwinPaths(tmp_path)
    made.create()
    return made


def grant(paths: TwinPaths, token: str, member: str, role: str, **where: str) -> None:
    inputs = {"member": member, "role": role, **where}
    record = Record(token, "grant", "grant", "acme", "urn", "ready", True, inputs, {}, 0.0)
    Store(paths.cloud_db).add(record, [])


def on_bucket(paths: TwinPaths, member: str, role: str, bucket: str = "models") -> None:
    grant(paths, "gcp:storage/bucketIAMMember:BucketIAMMember", member, role, bucket=bucket)


@pytest.mark.parametrize("member", [ACCOUNT, f"principalSet:{POOL}/namespace/serving"])
def test_an_account_or_a_namespace_with_a_role_on_the_bucket_mounts_it(
    paths: TwinPaths, member: str
) -> None:
    on_bucket(paths, member, "roles/storage.objectViewer")
    check_access(paths, "acme", POD, "models")


def test_a_role_on_the_project_is_one_on_its_buckets(paths: TwinPaths) -> None:
    token = "gcp:projects/iAMMember:IAMMember"
    grant(paths, token, ACCOUNT, "roles/storage.objectUser", project="acme")
    check_access(paths, "acme", POD, "models")


@pytest.mark.parametrize(
    ("member", "role", "bucket"),
    [
        (ACCOUNT, "roles/storage.objectViewer", "others"),
        (ACCOUNT, "roles/storage.objectCreator", "models"),
        (f"principal:{POOL}/subject/ns/serving/sa/gemma", "roles/storage.objectUser", "models"),
        (f"principalSet:{POOL}/namespace/other", "roles/storage.objectUser", "models"),
        (ACCOUNT.replace("acme.", "acme-two."), "roles/storage.objectUser", "models"),
    ],
)
def test_another_role_account_namespace_project_or_bucket_does_not_mount_it(
    paths: TwinPaths, member: str, role: str, bucket: str
) -> None:
    on_bucket(paths, member, role, bucket)
    with pytest.raises(ConfigError, match=r"Caller does not have storage\.objects\.list access"):
        check_access(paths, "acme", POD, "models")

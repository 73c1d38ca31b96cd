"""Permissions that requests to Cloud Storage need."""

import pytest

from twin.providers.gcp.endpoints.cloud_storage import Request, check
from twin.wire.property_values import CloudError

ALL = "storage.objects."


def missing(method: str, path: str, *given: str, there: bool = True) -> str:
    """Return the permission that a request misses; empty if it misses none.

    Permissions are given as `VERB BUCKET`, without the prefix of objects.
    """

    def may(permission: str, bucket: str) -> bool:
        return f"{permission.removeprefix(ALL)} {bucket}" in given

    try:
        check(Request(method, path), may, lambda *_: there, "Caller")
    except CloudError as error:
        if error.status != 403:
            raise
        return error.message.split()[4]
    return ""


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/storage/v1/b?project=acme", "storage.buckets.list"),
        ("POST", "/storage/v1/b?project=acme", "storage.buckets.create"),
        ("GET", "/storage/v1/b/mine", "storage.buckets.get"),
        ("PATCH", "/storage/v1/b/mine", "storage.buckets.update"),
        ("DELETE", "/storage/v1/b/mine", "storage.buckets.delete"),
        ("GET", "/storage/v1/b/mine/o?prefix=a", "storage.objects.list"),
        ("GET", "/storage/v1/b/mine/o/a%2Fb?alt=media", "storage.objects.get"),
        ("HEAD", "/storage/v1/b/mine/o/a", "storage.objects.get"),
        ("GET", "/download/storage/v1/b/mine/o/a?alt=media", "storage.objects.get"),
        ("PATCH", "/storage/v1/b/mine/o/a", "storage.objects.update"),
        ("DELETE", "/storage/v1/b/mine/o/a", "storage.objects.delete"),
        ("POST", "/upload/storage/v1/b/mine/o?uploadType=media&name=a", "storage.objects.create"),
    ],
)
def test_each_method_needs_its_own_permission(method: str, path: str, needed: str) -> None:
    assert missing(method, path) == needed
    bucket = "" if path.startswith("/storage/v1/b?") else "mine"
    held = [f"{needed.removeprefix(ALL)} {bucket}"]
    assert missing(method, path, *held, there=False) == ""


def test_a_copy_reads_one_bucket_and_writes_the_other() -> None:
    path = "/storage/v1/b/one/o/a/rewriteTo/b/two/o/b"
    assert missing("POST", path, "create two", "delete two") == f"{ALL}get"
    assert missing("POST", path, "get one", "create one") == f"{ALL}create"
    assert missing("POST", path, "get one", "create two") == f"{ALL}delete"
    assert missing("POST", path, "get one", "create two", there=False) == ""
    assert missing("POST", path, "get one", "create two", "delete two") == ""


def test_a_composed_object_reads_its_parts() -> None:
    path = "/storage/v1/b/mine/o/whole/compose"
    assert missing("POST", path, "create mine", "delete mine") == f"{ALL}get"
    assert missing("POST", path, "get mine", "create mine") == f"{ALL}delete"
    assert missing("POST", f"{path}?ifGenerationMatch=0", "get mine", "create mine") == ""


def test_an_upload_in_parts_needs_a_role_only_to_begin() -> None:
    path = "/upload/storage/v1/b/mine/o?uploadType=resumable"
    assert missing("POST", path) == f"{ALL}create"
    assert missing("POST", path, "create mine") == f"{ALL}delete", "its body has the name"
    assert missing("PUT", f"{path}&upload_id=1") == ""


def test_a_method_whose_permission_is_unknown_is_refused() -> None:
    with pytest.raises(CloudError, match=r"no permission for POST /storage/v1/b/mine/o/a/watch"):
        missing("POST", "/storage/v1/b/mine/o/a/watch")

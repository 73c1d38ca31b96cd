"""The APIs that a pod reaches, with the roles of its Kubernetes service account."""

import base64
import io
import json
import re
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs, secret_manager
from twin.providers.gcp.effects.secret_store import SECRET, VERSION
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.iam.principals import Principal
from twin.world.store import Record, Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Pythons that they will drop, years ahead
    from google.api_core import exceptions as api_errors
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

pytestmark = pytest.mark.needs_tools

POD = Principal.of_pod("acme", "batch", "worker")
POOL = "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/acme.svc.id.goog"
MEMBER = f"principal:{POOL}/subject/ns/batch/sa/worker"
KEYS = "projects/acme/secrets/keys"


class Cloud:
    """A twin's cloud with one bucket."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths = paths
        self.store = Store(paths.cloud_db)

    def grant(self, token: str, role: str, member: str = MEMBER, **where: str) -> None:
        inputs = {"member": member, "role": role, **where}
        named = json.dumps(inputs)
        record = Record(token, named, named, "acme", "urn", "ready", True, inputs, {}, 0.0)
        self.store.add(record, [])

    def grant_bucket(self, role: str, bucket: str = "batches") -> None:
        self.grant("gcp:storage/bucketIAMMember:BucketIAMMember", role, bucket=bucket)

    def bucket(self, name: str = "batches", caller: Principal = POD) -> Any:
        client: Any = storage.Client(
            project="acme",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": endpoint.url(self.paths, caller)},
        )
        return client.bucket(name)


@pytest.fixture(name="cloud", scope="module")
def a_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    paths = TwinPaths(tmp_path_factory.mktemp("twin"))
    paths.create()
    try:
        gcs.create_bucket(paths, "batches", "acme")
        gcs.upload(paths, "batches", "there", b"content", "text/plain")
        yield Cloud(paths)
    finally:
        processes.stop(paths, *processes.running(paths))


@pytest.fixture(autouse=True)
def no_grants(cloud: Cloud) -> None:
    for each in cloud.store.all():
        cloud.store.remove(each.type, each.id)


def refusal(call: Any) -> str:
    with pytest.raises(api_errors.Forbidden) as caught:
        call()
    # the client puts the request before and the expected status behind the text of a transfer
    return re.sub(r'.*"message": "([^"]+)"}}.*|.*: (?=Caller )', r"\1", str(caught.value.message))


def denied(permission: str, noun: str = "object") -> str:
    return (
        f"Caller does not have {permission} access to the Google Cloud Storage {noun}. "
        f"Permission '{permission}' denied on resource (or it may not exist)."
    )


def test_a_pod_without_a_role_can_do_nothing_in_a_bucket(cloud: Cloud) -> None:
    bucket = cloud.bucket()
    read = refusal(lambda: bucket.blob("there").download_as_bytes())
    assert read == denied("storage.objects.get")
    write = refusal(lambda: bucket.blob("new").upload_from_string("x"))
    assert write == denied("storage.objects.create")
    listed = refusal(lambda: list(bucket.list_blobs()))
    assert listed == denied("storage.objects.list", "bucket")
    assert not gcs.has_object(cloud.paths, "batches", "new")


def test_a_reader_reads_and_lists_but_does_not_write_or_delete(cloud: Cloud) -> None:
    cloud.grant_bucket("roles/storage.objectViewer")
    bucket = cloud.bucket()
    assert bucket.blob("there").download_as_bytes() == b"content"
    assert [each.name for each in bucket.list_blobs(prefix="the")] == ["there"]
    assert refusal(lambda: bucket.blob("new").upload_from_string("x")) == denied(
        "storage.objects.create"
    )
    assert refusal(lambda: bucket.blob("there").delete()) == denied("storage.objects.delete")


def test_a_writer_uses_every_method_of_the_workloads_but_no_settings_of_the_bucket(
    cloud: Cloud,
) -> None:
    cloud.grant_bucket("roles/storage.objectUser")
    bucket = cloud.bucket()
    large = bytes(range(256)) * 40_000
    blob = bucket.blob("large")
    blob.chunk_size = 2**20  # an upload in parts
    blob.upload_from_file(io.BytesIO(large), size=len(large))
    found = bucket.get_blob("large")
    assert found.download_as_bytes() == large
    assert found.media_link.startswith(endpoint.url(cloud.paths, POD)), "no way around the roles"
    both = bucket.blob("both")
    both.compose([bucket.blob("there"), bucket.blob("there")])
    assert both.download_as_bytes() == b"content" * 2
    both.delete()
    assert bucket.blob("both").exists() is False
    assert refusal(bucket.reload) == denied("storage.buckets.get", "bucket")


def test_who_may_only_create_replaces_nothing(cloud: Cloud) -> None:
    cloud.grant_bucket("roles/storage.objectCreator")
    base = f"{endpoint.url(cloud.paths, POD)}/upload/storage/v1/b/batches/o?uploadType=media&name="
    urllib.request.urlopen(f"{base}fresh", b"x", timeout=10).close()  # noqa: S310 - of this machine
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{base}there", b"x", timeout=10)  # noqa: S310 - of this machine
    answer = json.loads(caught.value.read())["error"]
    assert (answer["code"], answer["message"]) == (403, denied("storage.objects.delete"))
    assert answer["errors"][0]["reason"] == "forbidden"


def test_a_missing_bucket_is_not_found_whatever_the_roles(cloud: Cloud) -> None:
    with pytest.raises(api_errors.NotFound):
        cloud.bucket("others").blob("x").download_as_bytes()


def test_a_google_service_account_has_roles_of_its_own(cloud: Cloud) -> None:
    account = Principal.of_google_account("front@acme.iam.gserviceaccount.com")
    blob = cloud.bucket(caller=account).blob("there")
    said = refusal(blob.download_as_bytes)
    name = "front@acme.iam.gserviceaccount.com"
    assert said == denied("storage.objects.get").replace("Caller", name)
    token = "gcp:storage/bucketIAMMember:BucketIAMMember"
    role = "roles/storage.objectViewer"
    cloud.grant(token, role, f"serviceAccount:{name}", bucket="batches")
    assert blob.download_as_bytes() == b"content"


def test_a_request_without_an_identity_is_refused(cloud: Cloud) -> None:
    base = endpoint.url(cloud.paths, POD).removesuffix(POD.path)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{base}/storage/v1/b/batches/o", timeout=10)  # noqa: S310


def secret(cloud: Cloud, path: str) -> tuple[int, Any]:
    url = f"{secret_manager.url(cloud.paths)}{POD.path}/v1/{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of this machine
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_pod_reads_a_secret_only_with_a_role_of_its_own(cloud: Cloud) -> None:
    for token, name, inputs in (
        (SECRET, KEYS, {}),
        (VERSION, f"{KEYS}/versions/1", {"secretData": "x"}),
    ):
        cloud.store.add(
            Record(token, name, "keys", "acme", "urn", "ready", True, inputs, {}, 0.0), []
        )
    grant = "gcp:secretmanager/secretIamMember:SecretIamMember"
    role = "roles/secretmanager.secretAccessor"
    other = MEMBER.replace("worker", "other")
    cloud.grant(grant, role, other, secretId="keys", project="acme")
    latest = f"{KEYS}/versions/latest"
    status, answer = secret(cloud, f"{latest}:access")
    assert (status, answer["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert answer["error"]["message"] == (
        f"Permission 'secretmanager.versions.access' denied for resource '{latest}' "
        "(or it may not exist)."
    )
    cloud.grant(grant, role, secretId="keys", project="acme")
    status, answer = secret(cloud, f"{latest}:access")
    assert (status, base64.b64decode(answer["payload"]["data"])) == (200, b"x")
    status, answer = secret(cloud, f"{KEYS}/versions")
    assert status == 403, "to list is another permission"
